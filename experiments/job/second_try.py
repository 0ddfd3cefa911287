"""The second try of what ran out of memory beside launches that it does not need.

How many launches may be up at once goes by a plan, and what each takes while it works is known when it has
worked. So one that runs out of memory while others are up beside it, which whatever was asked of it does not
need, may have lacked their room. All are ended then, and the same is asked once more of fresh processes that
have the device to themselves: a launch pair what is timed in it, that the judge asked for or further
workloads; one launch of the candidate its profile; one of the control its scores and the check of its
drafting, as of the reference in its place. What runs out of memory there too has failed, as has what fails
for another reason, or with nothing beside it. The second try has what is left of its stage's time, and is
told by the stage's detail (`not_up`) and the job's log. Nothing is loaded at once any more afterwards but a
pair's two launches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from experiments.job.open_launch import ArmInfeasible, OpenLaunch
from experiments.job.running_job import RunningJob
from experiments.job.staging import StageTold

OUT_OF_MEMORY = "out_of_memory"
"""The kind of a failure that may be for want of the room that others take."""

PAIR_ANEW = "what its pair was asked for is measured anew in a fresh one that has their room"
PROFILED_ANEW = "it is profiled anew in a fresh launch that has their room"
SCORED_ANEW = "what it was asked for is done anew in a fresh launch that has their room"

Given = TypeVar("Given")


class SecondTries:
    """Those of one test; `end_all` ends every launch of it that is up."""

    def __init__(self, job: RunningJob, end_all: Callable[[], None]) -> None:
        self._job, self._end_all = job, end_all
        self.made = False
        """Whether there was one."""

    def due(self, failed: ArmInfeasible, own: Collection[OpenLaunch]) -> bool:
        """Whether what was asked of its `own` launches may have failed for want of the memory of others."""
        others = self._job.guard.up - sum(not each.closed for each in own)
        return failed.reason.kind == OUT_OF_MEMORY and others > 0

    def of(
        self,
        told: StageTold,
        index: int,
        own: Callable[[], Collection[OpenLaunch]],
        first: Callable[[], Given],
        again: Callable[[], Given],
        anew: str,
    ) -> Given:
        """What `first` gives, or, where a second try is due, `again`, with nothing up by then.

        `own` are the launches that it needs, of this index, and `anew` says what is done again. Raises what
        `first` does where none is due, and what `again` does.
        """
        try:
            return first()
        except ArmInfeasible as failed:
            if not self.due(failed, own()):
                raise
            self._job.limits.check()  # what was ended as the time was up is not asked anew
            self.made = True
            self._end_all()
            told.not_up(
                f"{failed.arm.value} {index} ran out of memory while others were up beside it "
                f"({failed.reason.kind}), and {anew}: {failed.reason.cause}"
            )
            told.restart()
        return again()
