"""What it costs to run again what was measured on rented machines: refused where no budget has room for it,
as a campaign is, before anything is submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.resources.paid import HeldForPrice, held_where
from configs.errors import AutoinferError, UsageError
from configs.quantities import format_usd
from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Experiment, Job, RemoteRun
from db.money import covering, refusal, usd
from db.session import Database


class NoRoom(AutoinferError):
    """No budget will have room for a fresh run, whatever those in flight cost."""


def check_affordable(
    session: Session, campaign_id: int, asked: Iterable[tuple[int, str]], command: str
) -> None:
    """Raise `UsageError` where no budget covers a rented target, or has room for any fresh run there.

    `asked` are experiments with the device that each is to run on; `command` asks for that. A fresh run is
    taken to be quoted what the first one was at most; what it really is quoted must have room when it is
    submitted.
    """
    by_target: dict[str, list[int]] = {}
    for number, device in asked:
        if is_rented(device):
            by_target.setdefault(device, []).append(number)
    for target, experiments in by_target.items():
        bounds = [each for each in (_first_bound(session, number) for number in experiments) if each]
        standings = covering(session, campaign_id, target)
        told = (
            f"the first runs there were quoted {format_usd(usd(sum(bounds)))} at most in all"
            if bounds
            else "what the first runs there were quoted is not known"
        )
        give = f"Give it one: {command} --budget-usd " + (f"{usd(sum(bounds)):.2f}" if bounds else "USD")
        if not standings:
            raise UsageError(
                f"No budget in dollars covers {target}, so no fresh run may be submitted there; {told}.", give
            )
        why = None if not bounds else refusal(standings, target, min(bounds), min(bounds))[0]
        if why is not None:
            raise UsageError(f"No fresh run could be submitted on {target}; {told}. {why}", give)


def price_watch(
    database: Database, experiment_id: int, device: str, say: Callable[[str], None]
) -> Callable[[], None]:
    """What is called between looks at a fresh run of the experiment on this device: it says once that the
    price waits for the user's approval, and raises `NoRoom` where no budget will ever have room for it."""
    asks = False

    def look() -> None:
        nonlocal asks
        if not is_rented(device):
            return
        with database.read() as session:
            held = _held_fresh_run(session, experiment_id)
        if held is None:
            return
        if held.never:
            label = format_label(Noun.EXPERIMENT, experiment_id)
            raise NoRoom(held.why, f"Give it more: autoinfer reproduce {label} --budget-usd USD")
        if held.asks and not asks:
            asks = True
            say(f"once you approve its price: {held.why} Approve with: {held.approve}")

    return look


def _held_fresh_run(session: Session, experiment_id: int) -> HeldForPrice | None:
    """The fresh run of an experiment that is held for its price; None for none."""
    fresh = select(Experiment.id).where(Experiment.reproduces_experiment_id == experiment_id)
    return held_where(session, Job.experiment_id.in_(fresh))


def _first_bound(session: Session, experiment_id: int) -> int | None:
    """What the run of an experiment was quoted at most, millionths of a dollar; None where none was."""
    query = select(RemoteRun.reserved_microusd).where(RemoteRun.experiment_id == experiment_id)
    return session.scalar(query.order_by(RemoteRun.id.desc()).limit(1))
