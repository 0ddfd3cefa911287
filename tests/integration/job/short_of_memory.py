"""An engine whose launches run out of memory beside others, and what is told of it. Real processes of the
simulated engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.engines.port import Infeasible, Launch
from experiments.job.result import JobResult
from tests.simulated.engine import SimulatedEngine

WHY = "no room to work beside the others"


class ShortBeside(SimulatedEngine):
    """The launches of `arm` fail by this `kind` where more than `beside` others are up, once they were asked
    `asked` times for `what` (a method of the launch; by default to serve: a warm-up, and once a block), of
    requests only for those `at_once`, where that is given. Tells which were loaded, and which others were up
    then, and what each was asked, and how many others were up then. Those whose names hold `broken` do not
    come up."""

    def __init__(
        self,
        arm: str,
        asked: int = 0,
        beside: int = 1,
        kind: str = "out_of_memory",
        what: str = "serve",
        at_once: int | None = None,
        broken: str | None = None,
    ) -> None:
        self.loaded: list[tuple[str, set[str]]] = []
        self.asked: list[tuple[str, Any, int]] = []
        self._arm, self._asked, self._beside, self._kind = arm, asked, beside, kind
        self._what, self._at_once, self._broken = what, at_once, broken
        self._launches: list[tuple[str, Any]] = []

    def up(self) -> set[str]:
        """The names of the launches that are up."""
        return {name for name, each in [*self._launches] if each.process.poll() is None}

    def launch(self, *asked: object, **more: object) -> Any:
        """As the engine."""
        name = next(each.stem for each in asked if isinstance(each, Path) and each.suffix == ".log")
        self.loaded.append((name, self.up() - {name}))
        if self._broken is not None and self._broken in name:
            raise Infeasible("crashed", WHY)
        launch: Launch = super().launch(*asked, **more)  # type: ignore[arg-type]
        self._launches.append((name, launch))
        ask, times = getattr(launch, self._what), 0

        def short(*of: Any, **how: Any) -> Any:
            nonlocal times
            self.asked.append((name, of[0], len(self.up()) - 1))
            times += self._at_once is None or self._at_once == of[1]
            if times > self._asked and self._arm in name and len(self.up()) - 1 > self._beside:
                raise Infeasible(self._kind, WHY)
            return ask(*of, **how)

        setattr(launch, self._what, short)
        return launch

    def times_loaded(self) -> dict[str, int]:
        """How often each was loaded."""
        names = [name for name, _ in self.loaded]
        return {name: names.count(name) for name in names}


PAIR_ANEW = "what its pair was asked for is measured anew in a fresh one that has their room"


def gave_way(launch: str, anew: str = PAIR_ANEW) -> str:
    """What is told of a launch that has a second try."""
    return f"{launch} ran out of memory while others were up beside it (out_of_memory), and {anew}: {WHY}"


def counted(result: JobResult) -> list[tuple[object, ...]]:
    """What counts of each launch that was judged, but for what the clock told."""
    return [
        (
            each.stage,
            each.index,
            each.arm,
            [(s.block, s.position, s.item, s.seq, s.metric) for s in each.samples],
            [told["block"] for told in each.environment["blocks"]],  # type: ignore[union-attr,index,call-overload]
        )
        for each in result.launches
    ]
