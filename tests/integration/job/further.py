"""Tests that ask for further workloads, and an engine of which two launches in the same place are alike."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.job.spec import TestJob
from experiments.measurement.plan import FurtherWorkload
from experiments.space.configuration import Configuration
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.simulated.specs import FASTER, a_test_job

WIDE = FurtherWorkload(
    concurrency=16, prompt_tokens=8, new_tokens=4, prompts_per_block=2, warmup_requests=1, blocks=2
)
LONG = FurtherWorkload(concurrency=1, prompt_tokens=64, new_tokens=6, prompts_per_block=3, warmup_requests=1)
"""Two further workloads: of 2 blocks of 16 requests, and of 1 block of 3."""

WAITS_S = 20.0
"""How long a launch that hangs is waited in at most, so that a test that fails has an end."""


def a_test_with(*further: FurtherWorkload, **more: object) -> TestJob:
    """A test that asks for these further workloads."""
    candidate = more.pop("candidate", FASTER)
    return a_test_job(candidate, further=further, **more)  # type: ignore[arg-type]


class SameLaunches(SimulatedEngine):
    """What a launch gives depends on its place in the test and on the request alone, and so is the same in
    every run of the test. Notes what it is asked, in order. At `dies_at` requests at once, and at `hangs_at`,
    a launch of the candidate does so. At `waits_at` whoever times it waits, though its process be killed, and
    has an answer all the same when it is let go: by `let_go`, and as the next pair's launch is asked. So it
    waits, once the candidate has died, in what it is `waits_after_death` in: the candidate's `end`, or the
    control's next `answer`."""

    def __init__(
        self,
        dies_at: int | None = None,
        hangs_at: int | None = None,
        waits_at: int | None = None,
        waits_after_death: str | None = None,
    ) -> None:
        self.asked: list[tuple[str, int, str]] = []
        self.dies_at, self.hangs_at, self.waits_at = dies_at, hangs_at, waits_at
        self.waits_after_death, self.died = waits_after_death, False
        self.waits: Callable[[], None] = lambda: None  # called as one begins to wait
        self.goes_on = threading.Event()
        self.waiting: list[threading.Thread] = []
        self.launched: list[str] = []

    def launch(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float = 60.0,
    ) -> SimulatedLaunch:
        """A launch that knows its place by its log."""
        self.launched.append(log_path.stem)
        return _SameLaunch(self, configuration, log_path, load_limit_s)

    def wait_to_go_on(self) -> None:
        """Wait until whoever waits is let go."""
        self.waiting.append(threading.current_thread())
        self.waits()
        assert self.goes_on.wait(WAITS_S), "the test waited for what it should have left"

    def let_go(self) -> int:
        """Let whoever waits go on, to their end; how many there were."""
        self.goes_on.set()
        for each in self.waiting:
            each.join(WAITS_S)
        return len(self.waiting)


class _SameLaunch(SimulatedLaunch):
    def __init__(
        self, engine: SameLaunches, configuration: Configuration, log_path: Path, load_limit_s: float
    ) -> None:
        super().__init__(configuration, log_path, load_limit_s)
        self._engine, self._place = engine, log_path.stem
        self.load_s = 0.25

    def serve(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        self._engine.asked.append((self._place, concurrency, requests[0].item))
        if "candidate" in self._place and concurrency == self._engine.dies_at:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self._engine.died = True
            raise Infeasible("out_of_memory", "2.0 GiB were missing for the cache.")
        if "candidate" in self._place and concurrency == self._engine.hangs_at:
            os.kill(self.process.pid, signal.SIGSTOP)
        timed = requests[0].item != "warm-up"
        if self._place.endswith("candidate-1"):
            self._engine.let_go()
        elif "candidate" in self._place and concurrency == self._engine.waits_at and timed:
            self._engine.wait_to_go_on()
            return [self._trace(each, 0.0) for each in requests]
        elif self._place.endswith("control-0") and self._waits_in("answer"):
            self._engine.wait_to_go_on()
        return super().serve(requests, concurrency)

    def close(self) -> None:
        if self._place.endswith("candidate-0") and self._waits_in("end"):
            self._engine.wait_to_go_on()
        super().close()

    def _waits_in(self, what: str) -> bool:
        """Whether this is what is waited in, for the first time."""
        engine = self._engine
        return engine.died and engine.waits_after_death == what and not engine.waiting

    def generate(self, request: GenerationRequest, start_s: float = 0.0) -> GenerationTrace:
        super().generate(request, start_s)  # it must still be there to answer
        return self._trace(request, start_s)

    def _trace(self, request: GenerationRequest, start_s: float) -> GenerationTrace:
        noise = random.Random(f"{self._place} {request.item}")
        tpot_s = 1e-3 * float(self.configuration["simulated.tpot_ms"]) * (1 + noise.gauss(0, 0.002))
        times = tuple(tpot_s * (token + 2) for token in range(request.new_tokens))
        return GenerationTrace(tuple(range(request.new_tokens)), times, (), start_s)
