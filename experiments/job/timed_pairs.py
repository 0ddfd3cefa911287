"""The launch pairs of a test: timed, asked for what else a launch that is up is asked for, and ended.

A pair of launches is loaded side by side, the control first in every second pair, and timed in blocks A B B A
B A A B …; while one is timed the other waits for its next request. Where memory has room for one launch at a
time (`spec.in_turn`), a pair's launches are neighbours: one is loaded, timed and ended, then the other; who
is first alternates from pair to pair, so that over pairs it is A B B A too. Before a launch is ended, or
scored, further workloads may be measured in it (`further`), of which the judge sees nothing. Launch pairs are
numbered over all stages.

A pair that runs out of memory while others wait beside it, loaded ahead (`pairs_ahead`), has a `second_try`:
what was asked of it last is left out, and measured once more in a fresh pair. So have the further workloads
that a pair is asked for, and the candidate's profile, beside the control too, which it does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from experiments.engines.port import GenerationRequest
from experiments.job.failed_arm import blamed, blamed_by_arm, blamed_on
from experiments.job.further import FurtherWorkloads, Judged
from experiments.job.launching import open_launches
from experiments.job.open_launch import OpenLaunch, Wanted, close
from experiments.job.pairs_ahead import PairsAhead
from experiments.job.profiling import profile_candidate, profiles_candidates
from experiments.job.running_job import RunningJob
from experiments.job.schedule import abba, seats
from experiments.job.second_try import PAIR_ANEW, SecondTries
from experiments.job.spec import TestJob
from experiments.job.staging import StageTold, stage
from experiments.measurement.evidence import Arm, Stage


class TimedPairs:
    """Those of one test: the pair that is up, and how many there were; `wanted` makes what to open of an arm
    and the pair's index."""

    def __init__(
        self,
        job: RunningJob,
        spec: TestJob,
        wanted: Callable[[Arm, int], Wanted],
        judged: Judged,
        second_tries: SecondTries,
    ) -> None:
        self._job, self._spec, self._wanted, self._second_tries = job, spec, wanted, second_tries
        self._pairs = 0
        self._up: dict[Arm, OpenLaunch] = {}
        self._ahead = PairsAhead(job, spec.seed, spec.plan.validation_pairs, wanted)
        self._further = FurtherWorkloads(job, spec, judged, second_tries, self._reopen)
        self._blocks = 0
        self._profiled = False
        self._timed: tuple[int, int] | None = None
        """The pair that is being timed and the first block that was asked of it; None while none is."""

    @property
    def up(self) -> bool:
        """Whether a launch that was timed last is kept, or one of them."""
        return bool(self._up)

    def leave_out(self) -> None:
        """Leave out what is being timed now: what came of it is not balanced between the arms."""
        if self._timed is not None:
            self._job.records.left_out(*self._timed)

    def measure_pair(self, name: Stage, blocks: int) -> None:
        """Time a fresh launch an arm."""
        self.retire()
        index = self._begin_pair()
        if self._spec.in_turn:
            self._measure_in_turn(name, index, blocks)
        else:
            self._measure_side_by_side(name, index, blocks)
        self._timed = None

    def _begin_pair(self) -> int:
        """The index of a pair that is measured from now on."""
        index, self._pairs = self._pairs, self._pairs + 1
        self._timed = index, 0
        return index

    def _measure_side_by_side(self, name: Stage, index: int, blocks: int) -> None:
        with stage(self._job, name, 2 * blocks, f"time launch pair {index + 1}") as told, blamed_by_arm():
            time = partial(self._time_pair, told, index, blocks)
            self._with_second_try(told, time, time)

    def _with_second_try(self, told: StageTold, first: Callable[[], None], again: Callable[[], None]) -> None:
        """Time blocks by `first`, or by `again` in a second try, for which what came of them is left out."""

        def anew() -> None:
            self.leave_out()
            again()

        self._second_tries.of(told, self._pairs - 1, lambda: self._up.values(), first, anew, PAIR_ANEW)

    def _time_pair(self, told: StageTold, index: int, blocks: int) -> None:
        """Time a fresh pair, loaded now or ahead. Raises `ArmInfeasible`."""
        opened, failed = self._ahead.open(told, index)
        self._up = {launch.wanted.arm: launch for launch in opened}
        self._blocks = 0
        if failed:
            raise min(failed, key=lambda each: each.arm is Arm.CANDIDATE)
        for launch in opened:
            launch.warm_up(self._spec.plan.workload)
        self._time(blocks, told)

    def _measure_in_turn(self, name: Stage, index: int, blocks: int) -> None:
        """Time a pair's launches one after the other; the second stays up until its room is needed.

        With further workloads each launch is a stage of its own: the first is asked for those between the
        two, and that is no time of what is judged.
        """
        text = f"time launch pair {index + 1}, one launch after the other"
        order = tuple(enumerate(seats(self._spec.seed, index)))
        for part in [(each,) for each in order] if self._spec.further_here else [order]:
            self.retire()
            self._measure_launches(name, index, blocks, part, text)

    def _measure_launches(
        self, name: Stage, index: int, blocks: int, launches: Sequence[tuple[int, Arm]], text: str
    ) -> None:
        """Time launches of a pair, by their places in it, each ended before the next one."""
        with stage(self._job, name, len(launches) * blocks, text) as told:
            for place, arm in launches:
                told.on(arm)
                self.retire()
                opened, failed = open_launches(self._job, name, [self._wanted(arm, index)])
                if failed:
                    raise blamed(failed[0])
                self._up = {arm: opened[0]}
                self._job.spare.append(opened[0])
                with blamed_on(arm):
                    opened[0].warm_up(self._spec.plan.workload)
                    for block in range(blocks):
                        requests = self._requests(index, block)
                        opened[0].time_block(block, place * blocks + block, requests)
                        told.advance()

    def measure_more(self, name: Stage, blocks: int) -> None:
        """Time further blocks on the pair that is up; a fresh pair where none is, or where that one runs out
        of memory beside others: what was measured of it before stands."""
        if len(self._up) < len(Arm):
            self.measure_pair(name, blocks)
            return
        self._timed = self._pairs - 1, self._blocks
        text = f"time launch pair {self._pairs} further"
        with stage(self._job, name, 2 * blocks, text) as told, blamed_by_arm():
            self._with_second_try(
                told, partial(self._time, blocks, told), partial(self._time_in_place, told, blocks)
            )
        self._timed = None

    def _time_in_place(self, told: StageTold, blocks: int) -> None:
        """Time a fresh pair where further blocks of the last one were asked for. Raises `ArmInfeasible`."""
        told.text = f"time launch pair {self._pairs + 1} in its place"
        self._time_pair(told, self._begin_pair(), blocks)

    def _time(self, blocks: int, told: StageTold) -> None:
        """Time blocks on the pair that is up. Raises `ArmInfeasible`."""
        index = self._pairs - 1
        first, self._blocks = self._blocks, self._blocks + blocks
        counts = dict.fromkeys(Arm, first)
        order = abba(self._spec.seed, index, first, blocks)
        told.on(order[0])
        for place, (arm, following) in enumerate(zip(order, (*order[1:], None), strict=True)):
            block = counts[arm]
            counts[arm] += 1
            self._up[arm].time_block(block, 2 * first + place, self._requests(index, block))
            told.advance(following)

    def _requests(self, index: int, block: int) -> Sequence[GenerationRequest]:
        return self._job.context.material.requests(self._spec.plan.workload, self._spec.seed, index, block)

    def still_up(self, arm: Arm) -> OpenLaunch | None:
        """The launch of an arm that was timed last, unless its room was needed."""
        launch = self._up.get(arm)
        return None if launch is None or launch.closed else launch

    def take(self, arm: Arm) -> OpenLaunch | None:
        """The same, no longer counted as up: whoever takes it ends it."""
        launch = self.still_up(arm)
        self._up.pop(arm, None)
        return launch

    def retire(self) -> None:
        """End what is up. Before that further workloads are measured in it, and the first time the candidate
        is profiled in its launch."""
        self.measure_further()
        candidate = self.still_up(Arm.CANDIDATE)
        if candidate is not None and not self._profiled and profiles_candidates(self._job):
            self._profiled = True
            profile_candidate(
                self._job, self._spec.plan.workload, candidate, self._second_tries, self._reopen
            )
        self._close()

    def measure_further(self) -> None:
        """Measure further workloads in what is up, once; where they took too long every process was ended."""
        if not self._further.measure(list(self._up.values())):
            self.end()

    def _reopen(self, told: StageTold, launches: list[OpenLaunch]) -> None:
        """Put fresh launches into the places of these, which were ended, and warm them up as any that is
        timed. Raises `ArmInfeasible`."""
        opened, failed = open_launches(
            self._job, told.stage, [each.wanted for each in launches], record=False
        )
        self._up = {launch.wanted.arm: launch for launch in opened}
        if failed:
            self._job.limits.check()  # what was ended as the time was up did not fail to come up
            told.on(failed[0].arm)
            raise failed[0]
        launches[:] = opened
        for launch in launches:
            told.on(launch.wanted.arm)
            launch.warm_up(self._spec.plan.workload)

    def make_room(self) -> None:
        """End what waits: a launch that scores needs its room."""
        self._ahead.close()

    def give_way(self) -> None:
        """End what is up and what waits, and load no pairs at once any more."""
        self._close()
        self._ahead.give_way()

    def end(self) -> None:
        """End what is up and what waits."""
        self._close()
        self._ahead.close()

    def _close(self) -> None:
        up, self._up = list(self._up.values()), {}
        self._job.spare.clear()
        close(up)
