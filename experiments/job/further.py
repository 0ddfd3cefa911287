"""Further workloads, measured in launches that a test has up anyway, when their judged blocks are over.

A load takes minutes and a block seconds, so a launch is asked for more than one workload before it is ended:
never between blocks that are judged, for its pair is not timed again afterwards. What is measured stands
under the stage `further` as a launch of its own, each sample under an item that begins with its workload's
key (`16x512+32: …`), and the judge is not shown it. Both arms get the same requests, in the order of judged
blocks.

What runs out of memory beside pairs that wait has a `second_try`, with all that its pair was asked for. Any
other failure is none of the experiment's. It is told in the stage's detail, and its workload is asked of
neither arm again in this experiment. So is what was asked when the stage's time was up; a launch that hangs
all the same is left behind. Where its processes are gone and a GPU's memory is back, the test goes on. Else
the job ends there, for the next launch would be loaded beside it: with all that was judged, where that was
complete, else with what was measured of it, which the judge decides on as it does at a limit. It fails
nothing, unless the device itself is lost. A launch that does not answer the plan's own requests any more is
ended; what needs one opens a fresh one, as it would where none was up. One that does was asked for these
last, as if for nothing else: what is scored in it runs as what was judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn, Protocol

from experiments.engines.port import DEVICE_FAULTS, Infeasible
from experiments.job.limits import LEFT_BEHIND
from experiments.job.open_launch import ArmInfeasible, OpenLaunch, close
from experiments.job.running_job import RunningJob
from experiments.job.schedule import abba
from experiments.job.second_try import PAIR_ANEW, SecondTries
from experiments.job.spec import TestJob
from experiments.job.staging import StageTold, stage
from experiments.measurement.evidence import UNMEASURED, WORKLOAD_MARK, WORKLOADS, Arm, Json, Stage
from experiments.measurement.plan import FurtherWorkload
from experiments.space.workload_rules import unserved

PROMPTS_FROM = 10_000
"""The number of a block by which prompts are chosen, where it is none of the plan's: a prefix that a judged
block left in a cache would make a first token seem quick."""

ENDED_BEFORE = "its launch was ended before"
"""Why a workload was not measured that comes after one at which a launch was ended."""


class Judged(Protocol):
    """What is judged of the test that further workloads stand beside."""

    @property
    def is_complete(self) -> bool:
        """Whether all of it was measured."""
        ...

    def cut_off(self, why: str) -> None:
        """Record that nothing more of it is measured."""
        ...


class FurtherWorkloads:
    """Those of one test: which are still measured, and in which launches they were; `reopen` puts fresh
    launches into the places of those that were ended for a second try."""

    def __init__(
        self,
        job: RunningJob,
        spec: TestJob,
        judged: Judged,
        second_tries: SecondTries,
        reopen: Callable[[StageTold, list[OpenLaunch]], None],
    ) -> None:
        self._job, self._seed, self._plan, self._judged = job, spec.seed, spec.plan, judged
        self._second_tries, self._reopen = second_tries, reopen
        self._left: dict[int, FurtherWorkload] = {}
        """By the number of its first block within a launch, which stays when others are left out."""
        first = 0
        for each in spec.further_here:
            self._left[first] = each
            first += each.blocks
        self._done: set[tuple[Arm, int]] = set()
        self._asked: int | None = None
        """Which one is asked now."""

    def measure(self, up: Sequence[OpenLaunch]) -> bool:
        """Measure what is left in the launches of a pair that are up, once each.

        False where the stage's time was up, by which every process of the job was ended, or where the
        launches could not even be asked what they are: they are ended. Raises nothing that a workload comes
        to, but where what was left behind still holds something, which ends the job: `Infeasible` of kind
        `LEFT_BEHIND`, or of a lost device that was not done with.
        """
        due = [each for each in up if not each.closed and _place(each) not in self._done]
        if not due or not self._left:
            return True
        self._done.update(map(_place, due))
        left, held = False, None
        planned = len(due) * sum(each.blocks for each in self._left.values())
        try:
            with stage(self._job, Stage.FURTHER, planned, "time further workloads, not judged") as told:
                told.detail = {WORKLOADS: [each.model_dump() for each in self._left.values()], UNMEASURED: []}
                try:
                    left = not self._second_tries.of(
                        told,
                        due[0].wanted.index,
                        lambda: due,
                        partial(self._apart, told, due),
                        partial(self._apart_anew, told, due),
                        PAIR_ANEW,
                    )
                    if left:
                        self._job.limits.check()
                except (ArmInfeasible, Infeasible) as failed:
                    held = self._still_held() if left else None
                    cause = (failed.reason if isinstance(failed, ArmInfeasible) else failed).cause
                    self._cut_short(told, due, f"{cause} {held or ''}".rstrip())
                    raise
        except (ArmInfeasible, Infeasible) as reason:
            close(due)
            if held is not None and isinstance(reason, Infeasible):
                self._end(reason, held)
            return False
        return True

    def _end(self, reason: Infeasible, held: str) -> NoReturn:
        """End the job beside whose launches something is still held."""
        self._job.records.note(f"What was left behind of a further workload: {held}")
        lost = self._job.guard.explained(reason)
        if lost.kind in DEVICE_FAULTS and not self._judged.is_complete:
            self._job.limits.give_up(lost)
        why = f"Nothing more could be measured after a further workload, which is not judged: {held}"
        self._job.limits.give_up(Infeasible(LEFT_BEHIND, why), partial(self._judged.cut_off, why))

    def _still_held(self) -> str | None:
        """What of what was left behind is not gone, of its processes or of what they held of a GPU, in a
        sentence; None where all is. A launch that is loaded beside it could lack that, and would be
        blamed."""
        if pids := self._job.limits.not_gone():
            named, it = ("process", "it") if len(pids) == 1 else ("processes", "them")
            return (
                f"Its {named} {', '.join(map(str, pids))} could not be ended, and nothing is loaded beside "
                f"{it}; end {it}, or restart the machine, before {self._job.guard.device} is used again."
            )
        held = self._job.guard.returned()
        if held is None or (held.left is None and held.after_bytes is not None):
            return None
        return held.left or (
            f"The driver does not tell whether {self._job.guard.device} got back what it held, and nothing "
            "is loaded beside it; look with `nvidia-smi`."
        )

    def _apart_anew(self, told: StageTold, due: list[OpenLaunch]) -> bool:
        """Measure all that is left in fresh launches, put into the places of `due`, whose own count no more
        once these are up; returns as `_apart`."""
        self._reopen(told, due)
        self._job.records.left_out(due[0].wanted.index, 0, Stage.FURTHER)
        return self._apart(told, due)

    def _apart(self, told: StageTold, due: Sequence[OpenLaunch]) -> bool:
        """Measure what is left in a thread of its own; False where it was left behind, as it is by whatever
        ends the job meanwhile."""
        over = False
        try:
            over = self._job.limits.apart(partial(self._measure_all, told, due))
        finally:
            if not over and [launch for launch in due if launch.leave()]:
                self._job.limits.end_processes()
        return over

    def _measure_all(self, told: StageTold, due: Sequence[OpenLaunch]) -> None:
        """Measure what is left in the launches of a pair; runs in a thread of its own, which may be left
        behind."""
        try:
            for launch in due:
                launch.record(Stage.FURTHER)
            for first in tuple(self._left):
                self._measure(told, first, due)
            self._asked = None
            for launch in due:
                self._keep_as_judged(launch)
        finally:
            for launch in due:
                launch.clear_away()

    def _cut_short(self, told: StageTold, due: Sequence[OpenLaunch], cause: str) -> None:
        """Tell which workload was asked as the stage was ended, which is asked no more, and which were to be
        asked after it."""
        asked, self._asked = self._asked, None
        if asked is None:
            return
        launch = next((each for each in due if each.wanted.arm is told.arm), due[0])
        if (workload := self._left.pop(asked, None)) is not None:
            _tell(told, launch, workload, cause)
        for first, workload in self._left.items():
            if first > asked:
                _tell(told, launch, workload, ENDED_BEFORE)

    def _measure(self, told: StageTold, first: int, due: Sequence[OpenLaunch]) -> None:
        """Measure one workload in the launches of a pair; where one of them was ended, that is told."""
        self._asked = first
        ended = next((launch for launch in due if launch.closed), None)
        if ended is not None:
            _tell(told, ended, self._left[first], ENDED_BEFORE)
            return
        workload, by_arm = self._left[first], {launch.wanted.arm: launch for launch in due}
        try:
            self._serve(told, workload, first, by_arm)
        except ArmInfeasible as failed:
            self._job.limits.check()  # a stage whose time is up has ended every process
            if self._second_tries.due(failed, due):
                raise
            cause, launch = failed.reason.cause, by_arm[failed.arm]
            del self._left[first]
            _tell(told, launch, workload, cause)
            self._job.records.note(f"{workload.key} in the {failed.arm.value}, which is not judged: {cause}")
            self._keep_as_judged(launch)

    def _serve(
        self,
        told: StageTold,
        workload: FurtherWorkload,
        first: int,
        by_arm: Mapping[Arm, OpenLaunch],
    ) -> None:
        """Warm every launch up and time its blocks; raises `ArmInfeasible`."""
        for arm, launch in by_arm.items():
            configuration = launch.wanted.configuration
            why = unserved(configuration, workload.concurrency, workload.context_tokens)
            if why is not None:
                raise ArmInfeasible(arm, launch.wanted.index, Infeasible("illegal", why))
        for arm, launch in by_arm.items():
            told.on(arm)
            launch.warm_up(workload.workload)
        pair = next(iter(by_arm.values())).wanted.index
        order = [arm for arm in abba(self._seed, pair, 0, workload.blocks) if arm in by_arm]
        blocks = dict.fromkeys(by_arm, first)
        for arm in order:
            told.on(arm)
            block, blocks[arm] = blocks[arm], blocks[arm] + 1
            requests = self._job.context.material.requests(
                workload.workload, self._seed, pair, PROMPTS_FROM + block
            )
            by_arm[arm].time_block(
                block,
                told.done,
                requests,
                concurrency=workload.concurrency,
                mark=f"{workload.key}{WORKLOAD_MARK}",
            )
            told.advance()

    def _keep_as_judged(self, launch: OpenLaunch) -> None:
        """Ask a launch for the plan's own requests once more, and end it where it does not answer: what is
        scored next runs as what was asked for last, such as over buffers of its length."""
        if launch.closed:
            return
        try:
            launch.warm_up(self._plan.workload)
        except ArmInfeasible:
            close([launch])


def _place(launch: OpenLaunch) -> tuple[Arm, int]:
    return launch.wanted.arm, launch.wanted.index


def _tell(told: StageTold, launch: OpenLaunch, workload: FurtherWorkload, cause: str) -> None:
    """Tell why a workload was not measured in a launch."""
    arm, index = _place(launch)
    before = told.detail[UNMEASURED]
    assert isinstance(before, list)
    of_this: dict[str, Json] = {"arm": arm.value, "workload": workload.key, "launch": index, "cause": cause}
    told.detail = {**told.detail, UNMEASURED: [*before, of_this]}
