"""Every supported verdict of a campaign once more in fresh processes, in the order of what its best rests on.

New engine processes, new samples, the same sealed plan. Of the first run nothing is read but what it claims;
what both share is the plan, the evaluation texts, the noise profile of the target, and artifacts, which are
built anew where they are gone. A process that was killed is gone on with by the next call
(`knowledge.queries.found.verification`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.rerun.reproduce import (
    no_longer_sealed,
    other_hardware,
    reproduce,
    unfinished_reproduction,
)
from agent.campaign.rerun.software import cannot_run_here, other_versions_here
from agent.campaign.resources.allowance import more_dollars
from agent.campaign.resources.devices import device_of
from agent.campaign.resources.fresh_price import NoRoom, check_affordable, price_watch
from agent.ground.stored_checkpoint import absent_for_jobs
from configs.errors import UsageError
from configs.quantities import format_duration
from configs.targets import CPU, check_one_device, devices_of, is_rented
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment
from db.noise import SERIES_NAME
from db.session import Database
from db.states import ExperimentKind
from knowledge.figures import counted
from knowledge.queries.found.verification import (
    ANSWERED,
    Standing,
    VerificationView,
    VerifiedRow,
    verification,
)


@dataclass(frozen=True)
class Runner:
    """How a fresh run gets its worker: `wait(device)` is called between looks and keeps one alive, where one
    is to be kept; `stop` ends it. `here`: that worker is on this machine, whose hardware is looked at, and
    `unreachable` says in a sentence why machines can't be rented from it, None where they can."""

    wait: Callable[[str], None]
    stop: Callable[[], None] = lambda: None
    here: bool = True
    unreachable: Callable[[str], str | None] = lambda device: None


@dataclass(frozen=True)
class Limits:
    """`target`: the device to run on, each verdict's own if None; `budget_s`: seconds after which nothing
    more is begun; `more_usd`: dollars that the campaign's budget is given for rented machines; `afresh`:
    begin anew where an earlier verification was left unfinished."""

    target: str | None = None
    budget_s: float | None = None
    more_usd: float = 0.0
    afresh: bool = False


Tell = Callable[[VerifiedRow, int, int], None]
"""Called with a verdict before its fresh run and after it, its number among all, and how many there are."""


def verify(
    database: Database,
    campaign_id: int,
    runner: Runner,
    limits: Limits,
    tell: Tell = lambda row, number, total: None,
    seconds: Callable[[], float] = monotonic,
) -> VerificationView:
    """Reproduce what is supported and has no answer yet; returns how all of it stands.

    What was confirmed on another target than the campaign's is reproduced on that one, where it is to be had.
    What interrupts it leaves the rest to the next call; where nothing of it can run now, nothing is kept.
    Raises `UsageError` for an A/A series, for a target that is none and for a rented one that no budget has
    room on, and whatever `runner.wait` raises.
    """
    begun = seconds()
    with database.write() as session:
        _check(session, campaign_id, limits)
        if limits.more_usd:
            more_dollars(session, campaign_id, limits.more_usd, None)
        found = verification(session, campaign_id)
        if not found.verdicts:
            return found
        begins = found.begun_event is None or found.whole or limits.afresh
        open_ = [row for row in found.verdicts if begins or row.standing not in ANSWERED]
        runs = [_asked(session, row, limits, runner) for row in open_]
        check_affordable(
            session,
            campaign_id,
            [(each.id, each.device) for each in runs if not each.elsewhere and each.broken is None],
            f"autoinfer verify {format_label(Noun.CAMPAIGN, campaign_id)}",
        )
    kept_from = {each.row.experiment: _kept_from(each, runner, limits, 0.0) for each in runs}
    why_none = {label: kept for label, kept in kept_from.items() if kept and kept[0] is not Standing.ALTERED}
    if len(why_none) == len(runs):
        return _nothing_runs(found, why_none, tell)
    if begins:
        with database.write() as session:
            _begin(session, campaign_id, found)
            found = verification(session, campaign_id)
    left: dict[str, VerifiedRow] = {}
    total = len(found.verdicts)
    try:
        for number, row in enumerate(found.verdicts, start=1):
            if row.standing in ANSWERED:
                continue
            with database.read() as session:
                asked = _asked(session, row, limits, runner)
            kept = _kept_from(asked, runner, limits, seconds() - begun)
            if kept is None:

                def say(why: str, row: VerifiedRow = row, number: int = number) -> None:
                    tell(_standing(row, Standing.RUNS, why), number, total)

                differ = f"; {asked.differ}" if asked.differ else ""
                say(f"on {asked.device}{differ}")
                kept = _run(database, asked, found.after_experiment, runner, say)
            if kept is not None:
                left[row.experiment] = _standing(row, *kept)
            tell(left.get(row.experiment) or _row(database, campaign_id, row.experiment), number, total)
    finally:
        with database.write() as session:
            ended = _end(session, campaign_id, left)
    return ended


def _nothing_runs(
    found: VerificationView, why: Mapping[str, tuple[Standing, str]], tell: Tell
) -> VerificationView:
    """What stood before, with why nothing of it runs here now. Nothing is kept of that: another machine, or
    more time, says otherwise."""
    rows: list[VerifiedRow] = []
    for number, row in enumerate(found.verdicts, start=1):
        if row.experiment in why:
            row = _standing(row, *why[row.experiment])
            tell(row, number, len(found.verdicts))
        rows.append(row)
    return found.model_copy(update={"verdicts": tuple(rows)})


@dataclass(frozen=True)
class _Asked:
    """A verdict to reproduce: its experiment, the hardware it was measured on, the device to run on, and
    whether it is `elsewhere`, on another target than the campaign's; `unpaid` says why no fresh run may be
    rented there, `no_model` that the campaign's model is not on this machine, `cannot` why the software of
    this machine can't run it and `differ` in what that is another one than then, `broken` what of it was
    altered since it was sealed and what can be done about that."""

    id: int
    row: VerifiedRow
    target: str
    device: str
    elsewhere: bool
    unpaid: str | None = None
    no_model: str | None = None
    cannot: str | None = None
    differ: str | None = None
    broken: str | None = None


def _asked(session: Session, row: VerifiedRow, limits: Limits, runner: Runner) -> _Asked:
    number = parse_label_of(Noun.EXPERIMENT, row.experiment)
    experiment = session.get_one(Experiment, number)
    campaign = session.get_one(Campaign, experiment.campaign_id)
    own = device_of(session, number) or devices_of(str(campaign.spec.get("target", CPU)))[0]
    no_model = absent_for_jobs(campaign)
    found = no_longer_sealed(session, experiment)
    broken = None if found is None else " ".join(found)
    elsewhere = experiment.kind is ExperimentKind.PROMOTE
    unpaid = None
    # one that is under way may be what the budget was spent on
    if elsewhere and broken is None and unfinished_reproduction(session, number) is None:
        command = f"autoinfer verify {format_label(Noun.CAMPAIGN, campaign.id)}"
        try:
            check_affordable(session, campaign.id, [(number, own)], command)
        except UsageError as error:
            unpaid = f"{error.message} {error.hint}"
    device = own if elsewhere else limits.target or own
    cannot = differ = None
    if runner.here and not is_rented(device):
        cannot = cannot_run_here(session, experiment, device)
        differ = other_versions_here(session, experiment, device)
    return _Asked(number, row, experiment.target, device, elsewhere, unpaid, no_model, cannot, differ, broken)


def _kept_from(asked: _Asked, runner: Runner, limits: Limits, spent_s: float) -> tuple[Standing, str] | None:
    """What keeps it from being run now, and as what it stands then; None where nothing does."""
    if asked.broken is not None:
        return Standing.ALTERED, asked.broken.rstrip(".")
    absent = asked.unpaid or _absent(asked, runner)
    if absent is not None:
        return Standing.NOT_HERE, absent.rstrip(".")
    took_s = asked.row.wall_s or 0.0
    if limits.budget_s is None or spent_s + took_s <= limits.budget_s:
        return None
    left = format_duration(max(0.0, limits.budget_s - spent_s))
    return Standing.WAITS, f"{left} of the budget is left, and the first run took {format_duration(took_s)}"


def _run(
    database: Database, asked: _Asked, after: int, runner: Runner, say: Callable[[str], None]
) -> tuple[Standing, str] | None:
    """Run one again; what it stands as where that gave no answer."""
    look_at_price = price_watch(database, asked.id, asked.device, say)

    def wait() -> None:
        look_at_price()
        runner.wait(asked.device)

    try:
        told = reproduce(
            database,
            asked.id,
            wait,
            runner.stop,
            device=asked.device,
            after=after,
        )
    except NoRoom as error:
        return Standing.WAITS, f"no budget has room for it: {error.message.rstrip('.')}"
    except UsageError as error:
        return Standing.NOT_HERE, error.message.rstrip(".")
    return (Standing.BROKE, told.rstrip(".")) if isinstance(told, str) else None


def _standing(row: VerifiedRow, standing: Standing, why: str) -> VerifiedRow:
    return row.model_copy(update={"standing": standing, "why": why})


def _row(database: Database, campaign_id: int, label: str) -> VerifiedRow:
    with database.read() as session:
        found = verification(session, campaign_id).verdicts
    return next(each for each in found if each.experiment == label)


def _check(session: Session, campaign_id: int, limits: Limits) -> None:
    """Raise `UsageError` for what can't be verified, or not there."""
    label = format_label(Noun.CAMPAIGN, campaign_id)
    if session.get_one(Campaign, campaign_id).name == SERIES_NAME:
        raise UsageError(
            f"{label} is an A/A series, which supports nothing.", f"See what it says: autoinfer aa {label}"
        )
    if limits.target is None:
        return
    if is_rented(limits.target):
        raise UsageError(
            f"{limits.target} is another target, where a verdict is confirmed and not reproduced.",
            f"Confirm one there with: autoinfer promote E-ID --target {limits.target}",
        )
    check_one_device(limits.target, "A fresh run")


def _absent(asked: _Asked, runner: Runner) -> str | None:
    """Why a verdict can't be reproduced from this machine, or by workers elsewhere; None where it can.

    A rented machine is looked at by its executor; a device of another target than the campaign's is always
    looked at from here, as `agent.campaign.rerun.promote` does.
    """
    if is_rented(asked.device):
        return runner.unreachable(asked.device) if runner.here else None
    if not runner.here and not asked.elsewhere:
        return None
    other = other_hardware(asked.device, asked.target)
    return other or (asked.no_model if runner.here else None) or asked.cannot


def _begin(session: Session, campaign_id: int, found: VerificationView) -> None:
    newest = session.scalar(select(func.max(Experiment.id))) or 0
    events.append(
        session,
        EventKind.CAMPAIGN_VERIFYING,
        f"{counted(len(found.verdicts), 'supported verdict')} of {found.campaign} "
        f"{'is' if len(found.verdicts) == 1 else 'are'} to be reproduced in fresh processes",
        subject=found.campaign,
        campaign_id=campaign_id,
        data={"after_experiment": newest, "experiments": [row.experiment for row in found.verdicts]},
    )


def _end(session: Session, campaign_id: int, left: Mapping[str, VerifiedRow]) -> VerificationView:
    """Tell what came of it, with what could not be run and why, so that any page can show it."""
    found = verification(session, campaign_id)
    rows = tuple(
        left.get(row.experiment, row) if row.standing not in ANSWERED else row for row in found.verdicts
    )
    ended = found.model_copy(update={"verdicts": rows})
    events.append(
        session,
        EventKind.CAMPAIGN_VERIFIED,
        ended.sentence,
        subject=ended.campaign,
        campaign_id=campaign_id,
        data={
            "left": {
                row.experiment: {"standing": row.standing.value, "why": row.why}
                for row in rows
                if row.experiment in left
            },
            "standings": {row.experiment: row.standing.value for row in rows},
            "fresh": {row.experiment: row.fresh.experiment for row in rows if row.fresh is not None},
            "all_agree": ended.all_agree,
            "all_here_agree": ended.all_here_agree,
        },
    )
    return ended
