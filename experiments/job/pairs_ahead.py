"""Launch pairs of a test, loaded before they are timed where that costs nothing.

The validation takes several pairs of fresh processes, and a judge that asks for one mostly asks for the
others too. Where the device's memory and the processor's cores have room for them, they are loaded with the
first one, at the same time, so that loading is waited for once. A shape's are loaded with the quick pair:
nothing is scored there, which would need their room, and a load takes ten times as long as what is asked of
it. Nothing is loaded while something is timed: all are up before the first of them is asked, and wait then
as the other arm of a pair does. Each is a fresh process of its own, as it would be otherwise, and belongs to
the stage that asks for it. What waits holds memory all the same: where a launch that is asked for something
meanwhile runs out of it, those that wait give way (`second_try`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from experiments.job.launching import open_launches, recorded
from experiments.job.open_launch import ArmInfeasible, OpenLaunch, Wanted, close
from experiments.job.running_job import RunningJob
from experiments.job.schedule import seats
from experiments.job.second_try import OUT_OF_MEMORY
from experiments.job.staging import StageTold
from experiments.measurement.evidence import Arm, Stage

ARMS = len(Arm)


class PairsAhead:
    """Opens the pairs of one test; `wanted` makes what to open of an arm and the pair's index."""

    def __init__(
        self, job: RunningJob, seed: int, validation_pairs: int, wanted: Callable[[Arm, int], Wanted]
    ) -> None:
        self._job, self._seed, self._wanted = job, seed, wanted
        self._left = validation_pairs
        self._ahead: dict[int, list[OpenLaunch]] = {}

    def open(self, told: StageTold, index: int) -> tuple[list[OpenLaunch], list[ArmInfeasible]]:
        """The launches of a pair in the order of its seats, as `launching.open_launches`; they are recorded.

        Where not all that are loaded at once come up, the pairs that did are kept and the others are ended,
        which the stage's detail and the job's log tell, and no more are loaded at once. Where memory was
        short for one, those that would wait are ended too: what is asked for is then measured with all the
        room, for it could run out of it later and would be blamed. One that was not asked for yet is loaded
        again when it is. The one that is asked for is opened again by itself, with every other one ended:
        that it has no room beside others is not its fault.
        """
        stage = told.stage
        if stage is Stage.VALIDATION:
            self._left -= 1
        if index not in self._ahead:
            more = self._more(stage)
            if not more and not self._ahead:
                return open_launches(self._job, stage, self._of(range(index, index + 1)))
            self._load(told, self._of(range(index, index + 1 + more)))
        if index in self._ahead:
            return recorded(stage, self._ahead.pop(index))
        self.close()
        return open_launches(self._job, stage, self._of(range(index, index + 1)))

    def give_way(self) -> None:
        """End what waits, and load nothing at once any more."""
        self._left = 0
        self.close()

    def close(self) -> None:
        """End what was loaded and not asked for; it is recorded nowhere."""
        self._end([*self._ahead])

    def _end(self, indices: Collection[int]) -> None:
        """End pairs that wait, by their indices."""
        close([launch for index in indices for launch in self._ahead.pop(index, [])])

    def _load(self, told: StageTold, wanted: Sequence[Wanted]) -> None:
        """Load pairs at the same time, the first of them asked for; see `open` for which are kept."""
        opened, failed = open_launches(self._job, told.stage, wanted, record=False)
        for launch in opened:
            self._ahead.setdefault(launch.wanted.index, []).append(launch)
        if failed:
            self._job.limits.check()  # what was ended as the time was up is not loaded again
            self._left = 0
            ended = {wanted[each.place].index for each in failed}
            if any(each.reason.kind == OUT_OF_MEMORY for each in failed):
                ended.update(self._ahead.keys() - {wanted[0].index})
            self._end(ended)
            for each in failed:
                told.not_up(
                    f"{each.arm.value} {wanted[each.place].index} did not come up beside others "
                    f"({each.reason.kind}), and its pair is loaded again once asked for: {each.reason.cause}"
                )

    def _more(self, stage: Stage) -> int:
        """Pairs to load beside the one that is asked for."""
        at_once = self._job.spec.at_once
        expected = stage is Stage.VALIDATION or self._job.context.latency_only
        if not expected or at_once is None:
            return 0
        room = min(at_once - self._job.guard.up, self._job.context.cores) // ARMS - 1
        return max(0, min(self._left, room))

    def _of(self, indices: range) -> list[Wanted]:
        return [self._wanted(arm, index) for index in indices for arm in seats(self._seed, index)]
