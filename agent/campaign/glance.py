"""A campaign at a glance: what the loop reads while something is measured, and how soon it looks again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.learning.learn import unlearnt
from agent.campaign.queue.order import newest_cause
from agent.campaign.rerun.confirm_queue import out_there, unlearnt_there
from agent.campaign.resources.devices import ALIVE, Devices, devices_now, of_its_loop
from configs.targets import is_rented
from db.models import Campaign, Job
from db.states import CampaignState, JobState
from experiments.job.spec import BUILD
from knowledge.queries.devices import devices_of_campaign


@dataclass(frozen=True)
class Seen:
    """What tells whether there is a step to take; a few statements, whatever the size of the campaign.

    `builds`: jobs of it that build for tests to come, which is no measurement; `measures`: another job of it
    waits or runs; `unlearnt`: experiments that ended and were not concluded yet; `newest_cause`: id of the
    newest event that may change the order of the queue. `elsewhere` are the targets that it confirms on,
    `out_there` those for which a job of its queue waits or runs, `unlearnt_there` confirmations that ended
    and were not concluded yet.
    """

    state: CampaignState
    has_baseline: bool
    measures: bool
    unlearnt: tuple[int, ...]
    newest_cause: int
    wall_s: float
    spent_s: float
    devices: Devices
    builds: tuple[int, ...] = ()
    elsewhere: tuple[str, ...] = ()
    out_there: Mapping[str, JobState] = field(default_factory=dict)
    unlearnt_there: tuple[int, ...] = ()

    @property
    def flying(self) -> bool:
        """Whether a job of it is out on its own target."""
        return self.measures or bool(self.builds)

    @property
    def idle(self) -> bool:
        """Whether nothing of the campaign is out, on its own target or on another."""
        return not self.flying and not self.out_there

    @property
    def is_paid(self) -> bool:
        """Whether the campaign measures on rented machines."""
        return any(map(is_rented, self.devices.every))

    @property
    def free_there(self) -> tuple[str, ...]:
        """The other targets that may get a confirmation now: one at a time each, while the campaign runs."""
        if self.state is not CampaignState.RUNNING or not self.has_baseline:
            return ()
        return tuple(each for each in self.elsewhere if each not in self.out_there)

    @property
    def free(self) -> tuple[str, ...]:
        """Devices that may get an experiment now, the next one first: none unless the campaign runs.

        While the baseline is measured there are none, for without it there is nothing to test.
        """
        if self.state is not CampaignState.RUNNING or (self.measures and not self.has_baseline):
            return ()
        return self.devices.free


def look(session: Session, campaign_id: int) -> Seen:
    """The campaign at one moment: what ends after it is seen as flying, and learnt at the next look."""
    campaign = session.get_one(Campaign, campaign_id)
    jobs = _jobs_out(session, campaign_id)
    devices = devices_now(session, campaign_id, devices_of_campaign(campaign))
    elsewhere = tuple(map(str, campaign.spec.get("confirm_on") or ()))
    return Seen(
        state=campaign.state,
        has_baseline=campaign.baseline_configuration_id is not None,
        measures=any(kind != BUILD for kind in jobs.values()),
        unlearnt=tuple(unlearnt(session, campaign_id)),
        newest_cause=newest_cause(session, campaign_id),
        wall_s=float(campaign.budget["wall_s"]),
        spent_s=float(campaign.budget.get("spent_s", 0.0)),
        devices=devices,
        builds=tuple(number for number, kind in jobs.items() if kind == BUILD),
        elsewhere=elsewhere,
        out_there=out_there(session, campaign_id) if elsewhere else {},
        unlearnt_there=tuple(unlearnt_there(session, campaign_id)) if elsewhere else (),
    )


def nothing_soon(session: Session, campaign_id: int) -> bool:
    """Whether the next look may wait: the campaign is paused, its baseline is measured, or each of its
    devices has a job of it or runs one of anybody's, whose measurement many looks would disturb."""
    campaign = session.get_one(Campaign, campaign_id)
    if campaign.state is CampaignState.PAUSED:
        return True
    if campaign.baseline_configuration_id is None and _jobs_out(session, campaign_id):
        return True
    return devices_now(session, campaign_id, devices_of_campaign(campaign)).is_all_taken


def _jobs_out(session: Session, campaign_id: int) -> dict[int, str]:
    """The kinds of the jobs of its loop that are out: what is to be confirmed on another target holds nothing
    up."""
    mine = (Job.campaign_id == campaign_id, Job.state.in_(ALIVE), of_its_loop())
    return {row.id: row.kind for row in session.execute(select(Job.id, Job.kind).where(*mine))}
