"""The time of devices that went into checkpoints built beside the baseline, which no experiment counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.quantities import format_duration
from db.models import Job
from db.states import JobState
from experiments.job.spec import BUILD
from knowledge.figures import counted


@dataclass(frozen=True)
class BuiltAhead:
    """Builds that were begun for tests to come: `built` came to a checkpoint, `unfinished` did not, or have
    not yet; together they took `device_s` of devices."""

    built: int = 0
    unfinished: int = 0
    device_s: float = 0.0

    @property
    def words(self) -> str | None:
        """How many and how long, such as "9 checkpoints built beside its baseline in 4 min 20 s"; None where
        none was begun."""
        if not (self.built or self.unfinished):
            return None
        rest = f" ({self.unfinished} more begun)" if self.unfinished else ""
        took = format_duration(self.device_s)
        return f"{counted(self.built, 'checkpoint')} built beside its baseline{rest} in {took}"


def built_ahead(session: Session, campaign_ids: Sequence[int], present: datetime) -> Mapping[int, BuiltAhead]:
    """What campaigns built ahead, by campaign, one statement; without those that did not."""
    jobs = select(Job.campaign_id, Job.state, Job.started_at, Job.finished_at).where(
        Job.campaign_id.in_(campaign_ids), Job.kind == BUILD
    )
    found: dict[int, BuiltAhead] = defaultdict(BuiltAhead)
    for campaign_id, state, started, finished in session.execute(jobs):
        if campaign_id is not None and started is not None:
            before, done = found[campaign_id], state is JobState.DONE
            found[campaign_id] = BuiltAhead(
                before.built + done,
                before.unfinished + (not done),
                before.device_s + ((finished or present) - started).total_seconds(),
            )
    return found
