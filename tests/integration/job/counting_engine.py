"""The simulated engine with its launches counted, and in which order a job timed them."""

from __future__ import annotations

import threading

from experiments.engines.port import Infeasible, Launch
from experiments.measurement.evidence import Stage
from tests.simulated.engine import SimulatedEngine


class CountingEngine(SimulatedEngine):
    """Counts the processes of launches that are alive whenever one more has come up."""

    def __init__(self, room: int | None = None) -> None:
        super().__init__()
        self.up: list[int] = []
        self._launches: list[Launch] = []
        self._room = room
        self._counting = threading.RLock()

    def launch(self, *asked: object, **more: object) -> Launch:
        """As the engine; more than `room` at once have no memory."""
        launch: Launch = super().launch(*asked, **more)  # type: ignore[arg-type]
        with self._counting:
            self._launches.append(launch)
            alive = sum(each.process.poll() is None for each in self._launches)  # type: ignore[attr-defined]
            self.up.append(alive)
        if self._room is not None and alive > self._room:
            launch.close()
            raise Infeasible("out_of_memory", "no room beside the others")
        return launch


def order(result: object) -> list[tuple[Stage, int, str]]:
    """Stage, index and arm of each launch, as they were timed."""
    return [(each.stage, each.index, each.arm.value) for each in result.launches]  # type: ignore[attr-defined]
