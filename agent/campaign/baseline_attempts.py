"""The attempts at a campaign's baseline: how many came to nothing, and whether another one is worth it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.fewer_bits import WORTH_FEWER_BITS, steps
from agent.campaign.resources.device_faults import AT_ONCE, GaveOut, device_gave_out
from agent.campaign.resources.devices import device_of
from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Campaign, Experiment
from db.states import ExperimentKind, ExperimentState, StageOutcome
from experiments.engines.port import DEVICE_BUSY
from experiments.job.result import BROKE
from experiments.measurement.evidence import Stage
from experiments.recording import load_stages

MAX_BASELINE_ATTEMPTS = 2
"""Baseline experiments that may come to nothing before the campaign gives up."""

WORTH_ANOTHER_BASELINE = (BROKE, "lost", "crashed", DEVICE_BUSY)
"""Failures of a baseline that may not come again: the job broke or was taken away, the engine's process was
killed (by whoever looks after memory, say), or somebody else was on a rented device. What the engine says
against model or configuration holds the second time too, and a full disk is full then. A stage that took too
long would mostly take as long again, but the one of `_hung_in_noise`."""


@dataclass(frozen=True)
class Attempts:
    """Those that count: `count` of them, the newest with its label, why it failed and the kind of that.

    `gone` tells of the device of the newest, where that gave out, `found_others` that others were on it, and
    it is to rest; `is_last` that none is worth making any more.
    """

    count: int
    label: str
    cause: str
    is_last: bool
    gone: GaveOut | None
    found_others: bool = False
    kind: str | None = None


def baseline_attempts(
    session: Session, campaign_id: int, newest_id: int | None, begun: Collection[int] = ()
) -> Attempts:
    """The attempts so far; `newest_id` is the newest that this process began, `begun` are all of these. Those
    of another process don't count: whoever takes the campaign up again may have put right why they failed.
    Nor do those that lost their device, or met a full disk, before the newest, nor those that found others on
    a device of one's own."""
    tried = session.scalars(
        select(Experiment)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.BASELINE,
            Experiment.state != ExperimentState.CANCELLED,
        )
        .order_by(Experiment.id)
    ).all()
    newest = tried[-1] if tried and tried[-1].id == newest_id else None
    gone = None if newest is None else device_gave_out(session, newest.id)
    found_others = newest is not None and _found_others(session, newest)
    counted = [each for each in tried if each.failure_kind not in AT_ONCE or each.id == newest_id]
    counted = [each for each in counted if not _found_others(session, each)]
    counted = _of_what_it_begins_from_now(counted, steps(session.get_one(Campaign, campaign_id)))
    counted = [each for each in counted if each.id in begun or each.id == newest_id]
    if not counted:
        return Attempts(0, "", "", is_last=False, gone=gone, found_others=found_others)
    last = counted[-1]
    return Attempts(
        len(counted),
        format_label(Noun.EXPERIMENT, last.id),
        last.failure or "no cause was recorded",
        is_last=len(counted) >= MAX_BASELINE_ATTEMPTS or not _may_not_come_again(session, last),
        gone=gone,
        found_others=found_others,
        kind=last.failure_kind,
    )


def _may_not_come_again(session: Session, failed: Experiment) -> bool:
    return failed.failure_kind in WORTH_ANOTHER_BASELINE or _hung_in_noise(session, failed)


def _hung_in_noise(session: Session, failed: Experiment) -> bool:
    """Whether it took too long in the launches that measure the noise: the sweep had loaded and timed that
    very configuration within its limits just before, so a launch hung, as now and then a kernel does."""
    return any(
        each.stage is Stage.NOISE and each.outcome == StageOutcome.TIMED_OUT
        for each in load_stages(session, failed.id)
    )


def _found_others(session: Session, experiment: Experiment) -> bool:
    if experiment.failure_kind != DEVICE_BUSY:
        return False
    return not is_rented(device_of(session, experiment.id) or "")


def _of_what_it_begins_from_now(tried: Sequence[Experiment], steps_taken: int) -> list[Experiment]:
    """The attempts without those after each of which the campaign went on to fewer bits."""
    left: list[Experiment] = []
    for each in tried:
        if steps_taken and each.failure_kind in WORTH_FEWER_BITS:
            steps_taken -= 1
        else:
            left.append(each)
    return left
