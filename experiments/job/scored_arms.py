"""Both arms of a claim about scores, loaded at the same time, for nothing is timed.

They are loaded so where memory and cores have room for both, and where neither drafts: scoring with a
drafter needs more room than timing it. The control is scored first, as the candidate is compared with what
it gave. So a candidate that does not come up beside it is loaded again once the control was scored, and
where the control does not, nothing is kept: it is loaded again alone, for it may have lacked the candidate's
room, and the candidate after it. Whatever is loaded a second time is told, whatever kind of failure it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.job.launching import open_launches
from experiments.job.open_launch import OpenLaunch, Wanted, close
from experiments.job.running_job import RunningJob
from experiments.job.staging import StageTold
from experiments.measurement.drafting_due import METHOD, is_drafting
from experiments.measurement.evidence import Arm


def load_together(told: StageTold, loaded: dict[Arm, OpenLaunch], both: Sequence[Wanted]) -> None:
    """Load `both` arms to score, and put into `loaded` what is up then: both, the control alone, or neither,
    where each is to be loaded by itself. Whoever asks ends them, and whoever scores one records it.

    Raises `Infeasible` as `launching.open_launches`.
    """
    job = told.job
    if not _have_room(job) or any(is_drafting(each.configuration.get(METHOD)) for each in both):
        return
    opened, failed = open_launches(job, told.stage, both, record=False)
    loaded.update((launch.wanted.arm, launch) for launch in opened)
    if failed:
        job.limits.check()  # what was ended as the time was up is not loaded again
    if any(each.arm is Arm.CONTROL for each in failed):
        loaded.clear()
        close(opened)
    for each in failed:
        beside, again = "the control", "it is loaded again once that was scored"
        if each.arm is Arm.CONTROL:
            beside, again = "the candidate", "both are loaded again, one after the other"
        told.not_up(
            f"{each.arm.value} {both[each.place].index} did not come up beside {beside} "
            f"({each.reason.kind}), and {again}: {each.reason.cause}"
        )


def _have_room(job: RunningJob) -> bool:
    """Whether both may be up at once."""
    return min(job.spec.at_once or 1, job.context.cores) >= len(Arm)
