"""One launch that is up: recorded, warmed up, timed and asked, ended whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.engines.port import (
    DEVICE_BUSY,
    DocumentScore,
    DraftingCheck,
    GenerationRequest,
    GenerationTrace,
    Infeasible,
    Launch,
    PartTime,
    ScoringDocument,
    ScoringTask,
    TaskScore,
)
from experiments.job.block_samples import block_samples, gap_stride
from experiments.job.running_job import Closes, RunningJob
from experiments.job.watched_block import WatchedBlocks, may_repeat, throttling_told
from experiments.kill_points import KillPoint, reached
from experiments.measurement.evidence import Arm, Json, Stage
from experiments.measurement.gpu_block import PUT_OFF_BESIDE, TIMED_AGAIN_BESIDE
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration
from experiments.space.workload_rules import MAX_SEQUENCES
from experiments.telemetry.watching import GpuWatch

UNRECORDED = -1
"""The number of a launch that is not in the records."""

GUESTS_MAX = 2
"""How often a block is measured again at most, where something else was on the device and went: what comes a
third time will come again."""

ROUNDS_A_PART = 8
"""Answers of quality tasks that follow each other at every place before the stage's limit is looked at."""


class ArmInfeasible(Exception):
    """One launch could not run: `place` is its place in the order that was asked for, `arm` its side."""

    def __init__(self, arm: Arm, place: int, reason: Infeasible) -> None:
        super().__init__(reason.cause)
        self.arm = arm
        self.place = place
        self.reason = reason


class LeftBehind(Exception):
    """What is done with a launch was left behind, and nobody waits for it; it ends the thread that did it."""


@dataclass(frozen=True)
class Wanted:
    """A launch to open: its side, its index within the side, and the checkpoint that its stages prepared."""

    arm: Arm
    index: int
    configuration: Configuration
    checkpoint: Path


class OpenLaunch:
    """A launch that is up, with its number in the records once it is recorded; counts its samples."""

    def __init__(self, launch: Launch, wanted: Wanted, job: RunningJob) -> None:
        self.launch = launch
        self.wanted = wanted
        self.number = UNRECORDED
        self._job = job
        self._seq = 0
        self._closed = self._left = self._cleared = False
        self._watch: GpuWatch | None = None
        self._blocks = WatchedBlocks(wanted.configuration)
        with job.counting:
            job.guard.up += 1

    def record(self, stage: Stage) -> None:
        """Write it into the records as a launch of `stage`, before it is asked for anything of that stage;
        what is measured from then on stands there."""
        resolved = self.resolved()
        self.number = self._job.records.launch(
            self.wanted.arm,
            self.wanted.index,
            stage,
            self.wanted.configuration.digest,
            resolved,
            self._job.context.material.machine(),
            self.launch.load_s,
        )

    def resolved(self) -> Mapping[str, Json]:
        """What it actually runs, as `engines.port.Launch.resolved`."""
        with self._asking():
            return self.launch.resolved()

    def warm_up(self, workload: Workload) -> None:
        """Send the warm-up requests and drop what they measured."""
        requests = self._job.context.material.warmup(workload, self._job.spec.seed)
        self._serve(requests, workload.concurrency)

    def time_block(
        self,
        block: int,
        position: int,
        requests: Sequence[GenerationRequest],
        *,
        concurrency: int | None = None,
        mark: str = "",
    ) -> None:
        """Send the requests, as many at once as the job's workload asks for if nothing else is given, and
        record every raw sample; `mark` begins the name of its item.

        Meanwhile nothing is written and nothing computed, but that a GPU is read; records go out after the
        block. A block is put off where something else is on the device before it, and is not recorded but
        measured again where something is there after it, each once that is gone. It raises where that stays,
        or comes more than `GUESTS_MAX` times, and where prompts that were sent can't be sent again
        (`watched_block.may_repeat`). One in which the GPU throttled is repeated as `watched_block` says.
        """
        with self._asking():
            prepare(self.launch, requests)
        at_once = concurrency or self._job.workload.concurrency
        moment = self._job.context.material.moment
        guests: dict[str, list[Json]] = {}
        while True:
            told, kept_in = "put off", PUT_OFF_BESIDE
            try:
                self._alone()
                told, kept_in = "measured again", TIMED_AGAIN_BESIDE
                before = moment()
                traces, during = self._watched(requests, at_once)
                after = moment()
                self._alone()
                break
            except ArmInfeasible as disturbed:
                if disturbed.reason.kind != DEVICE_BUSY or sum(map(len, guests.values())) == GUESTS_MAX:
                    raise
                if kept_in == TIMED_AGAIN_BESIDE and not may_repeat(self.wanted.configuration):
                    raise
                came = self._gone()
                guests.setdefault(kept_in, []).append(came)
                self._note(block, f"{told}, for something else was on the device: {came}")
        during.update(guests)
        samples = [
            (f"{mark}{item}", seq, metric, value)
            for item, seq, metric, value in block_samples(requests, traces, self._seq)
        ]
        self._stay()
        self._seq += len(samples)
        self._job.records.block(self.number, block, position, samples, before, after, during)
        reached(KillPoint.AFTER_MEASURE)
        throttled = throttling_told(during.get("gpu"))
        if throttled is not None:
            self._note(block, throttled)

    def _alone(self) -> None:
        """Raise where something else is on the device."""
        with self._watching():
            self._job.guard.alone()

    def _gone(self) -> str:
        """Wait for the end of what disturbed a block; says what it was. Raises where it stays, and as soon as
        the stage's time is up."""

        def check() -> None:
            self._stay()
            self._job.limits.check()

        with self._watching():
            came = self._job.guard.alone_again(check)
        self._stay()
        return came

    def _note(self, block: int, told: str) -> None:
        self._job.records.note(f"block {block} of {self.wanted.arm.value} {self.wanted.index}: {told}")

    def _watched(
        self, requests: Sequence[GenerationRequest], concurrency: int
    ) -> tuple[list[GenerationTrace], dict[str, Json]]:
        """Traces, and what is told of the block beside its samples: what a GPU did, and every which gap
        between tokens is kept, where not all are."""
        context, during = self._job.context, dict[str, Json]()
        if context.gpu_watch is None:
            traces = self._serve(requests, concurrency)
        else:
            make = context.gpu_watch

            def watch() -> GpuWatch:
                self._watch = make()
                return self._watch

            traces, during["gpu"] = self._blocks.run(
                lambda: self._serve(requests, concurrency), watch, context.wait
            )
        stride = gap_stride(traces)
        return traces, during if stride == 1 else {**during, "gaps_every": stride}

    def score(
        self,
        documents: Sequence[ScoringDocument],
        tasks: Sequence[ScoringTask],
        *,
        reference: Path | None = None,
        write_reference: Path | None = None,
    ) -> tuple[list[DocumentScore], list[TaskScore]]:
        """Score documents and tasks, as `engines.port.Launch.score`; time nothing else afterwards."""
        with self._asking():
            return self.launch.score(documents, tasks, reference=reference, write_reference=write_reference)

    def answer(self, requests: Sequence[GenerationRequest]) -> list[GenerationTrace]:
        """Answer questions, as many at once as the launch serves; time nothing else afterwards.

        They are sent in parts, between which the stage's limit is looked at; never over HTTP, for nothing of
        them is timed.
        """
        ask = getattr(self.launch, "answer", self.launch.serve)
        at_once = self._most_at_once()
        traces: list[GenerationTrace] = []
        for first in range(0, len(requests), ROUNDS_A_PART * at_once):
            with self._asking():
                traces += ask(requests[first : first + ROUNDS_A_PART * at_once], at_once)
        return traces

    def check_drafting(self, requests: Sequence[GenerationRequest]) -> list[DraftingCheck]:
        """Check drafting, as `engines.port.Launch.check_drafting`; time nothing else afterwards."""
        with self._asking():
            return self.launch.check_drafting(requests)

    def profile(self, request: GenerationRequest, concurrency: int = 1) -> list[PartTime]:
        """Time a decode step by part, as `engines.port.Launch.profile`; time nothing else afterwards."""
        with self._asking():
            return self.launch.profile(request, concurrency)

    @property
    def closed(self) -> bool:
        """Whether it was ended."""
        return self._closed

    def close(self) -> None:
        """End the launch's processes; idempotent. One that was left is left alone."""
        if not self._closed:
            self._job.guard.seen()  # a launch holds the most at its end
        with self._job.counting:
            self._count_down()
            left = self._left
        if not left:
            self.launch.close()

    def leave(self) -> bool:
        """Count it as ended while another thread still waits in it, if only for its end: closing it could
        wait for that. What that thread asks of it next raises `LeftBehind`, and the GPU is read no more
        beside what it waits for.

        False where that thread has cleared it away by now: it is closed as any other then.
        """
        with self._job.counting:
            if self._cleared:
                return False
            self._left = True
            self._count_down()
        if (watch := self._watch) is not None:
            watch.end()
        return True

    def clear_away(self) -> None:
        """Close what was left, by the thread that waited in it and is done with it; nothing of a launch that
        was not."""
        with self._job.counting:
            self._cleared, left = True, self._left
        if left:
            self.launch.close()

    def _count_down(self) -> None:
        """Count it as ended, once."""
        if not self._closed:
            self._closed = True
            self._job.guard.up -= 1

    def _stay(self) -> None:
        """Raise `LeftBehind` where the launch was left."""
        if self._left:
            raise LeftBehind

    def _serve(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        with self._asking():
            return self.launch.serve(requests, concurrency)

    def _most_at_once(self) -> int:
        """What engine and configuration serve at once; one that does not say, what it was timed with."""
        told = self.wanted.configuration.get(MAX_SEQUENCES, self._job.workload.concurrency)
        return max(1, min(self._job.engine.max_concurrency, int(told)))

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """What the guard finds of the device is told with the arm that it was looked at for."""
        try:
            yield
        except Infeasible as reason:
            raise ArmInfeasible(self.wanted.arm, self.wanted.index, reason) from reason

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """What the launch is asked for: whatever it raises is told as its arm's, or as the device's."""
        self._stay()
        self._job.limits.check()
        try:
            yield
        except Infeasible as reason:
            self._stay()
            told = self._job.guard.explained(reason)
            raise ArmInfeasible(self.wanted.arm, self.wanted.index, told) from reason
        self._stay()


def prepare(launch: Launch, requests: Sequence[GenerationRequest]) -> None:
    """Let an engine that has anything to do for these requests before they are timed do it."""
    if (prepares := getattr(launch, "prepare", None)) is not None:
        prepares(requests)


def close(launches: Sequence[Closes]) -> None:
    """End the processes of all launches, whichever of them fails to end in good order: at the same time, for
    the end of one takes seconds on a GPU; where no more threads can be had, one after the other."""
    failures: dict[int, Exception] = {}

    def end(place: int) -> None:
        try:
            launches[place].close()
        except Exception as failure:
            failures[place] = failure

    threads = []
    try:
        for place in range(1, len(launches)):
            thread = threading.Thread(target=end, args=(place,), name="close")
            try:
                thread.start()
                threads.append(thread)
            except RuntimeError:
                end(place)
        if launches:
            end(0)
    finally:
        for thread in threads:
            thread.join()
    if failures:
        raise failures[min(failures)]
