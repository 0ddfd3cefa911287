"""`autoinfer promote`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json
from cli.reproduce import AT_ONCE, WORKER_LOG

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from agent.campaign.rerun.confirm import Confirmation
    from agent.campaign.rerun.promote import Asked
    from configs.settings import Settings
    from db.session import Database
    from experiments.remote.quoting import Price


def promote(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="E-ID|H-ID", help="A judged test or its hypothesis.")],
    target: Annotated[
        str, typer.Option("--target", metavar="TARGET", help="Where: cpu, cuda:1, or rented: modal:H100!.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to the quote.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the verdict.")] = True,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run a worker for it here, where none is there yet.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Confirm on another target what was found on the first: quoted first, then tested and compared.

    Ends with exit code 1 when the other target does not say the same.
    """
    from sqlalchemy import select

    from agent.campaign.rerun.promote import ask, promotable, promote, quote_words
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from db.labels import Noun, format_label, parse_label
    from db.models import Job
    from db.states import EvidenceRelation
    from knowledge.queries.lookup import labelled

    settings = settings_of(ctx)
    with database_of(ctx) as database:
        with database.read() as session:
            noun, _ = parse_label(what)
            if noun not in (Noun.EXPERIMENT, Noun.HYPOTHESIS):
                raise UsageError(
                    f"{what} is neither an experiment nor a hypothesis.", "Name one, such as E-0020 or H-021."
                )
            asked = ask(session, promotable(session, noun, labelled(session, noun, what)), target)
        price = _price(settings, database, asked) if asked.there.rented else None
        fresh_id = asked.unfinished
        agreed = True
        if fresh_id is None:
            if not as_json:
                say(f"{asked.label} on {asked.there.device}: {quote_words(asked, price)}.")
            agreed = yes or _agree(asked)
            with database.write() as session:
                fresh_id = promote(session, asked, price, agreed=agreed).experiment_id
        with database.read() as session:
            job_id = session.scalars(select(Job.id).where(Job.experiment_id == fresh_id)).one()
            agreed = agreed and not _is_asked(session, job_id)
        fresh, job = format_label(Noun.EXPERIMENT, fresh_id), format_label(Noun.JOB, job_id)
        done = None
        if agreed and wait:
            done = _wait(ctx, settings, database, asked, fresh_id, with_worker=worker, quiet=as_json)
    if as_json:
        print_json(_as_json(asked, price, fresh, job, agreed, done))
    elif done is not None:
        say(f"{done.reason}.")
    elif not agreed:
        say(
            f"{fresh} waits for your approval: autoinfer approve {job}",
            f"Once approved it is run by: autoinfer worker --target {asked.there.device}",
        )
    else:
        say(f"{fresh} waits for a worker of {asked.there.device}; its verdict: autoinfer show {fresh}")
    if done is not None and done.relation not in (EvidenceRelation.REPLICATES, EvidenceRelation.INFORMS):
        raise typer.Exit(1)


def _price(settings: Settings, database: Database, asked: Asked) -> Price:
    """The executor's quote of a rented target.

    Raises `UsageError` where no budget covers it, or one has no room.
    """
    from agent.plan.job_time import planned_seconds
    from cli.executors.executor import make_remote_executor
    from cli.worker import check_budget
    from configs.errors import UsageError
    from db import money
    from experiments.remote.quoting import price_by_history

    target = asked.there.device
    executor = make_remote_executor(settings, target.partition(":")[0], target)
    check_budget(database, target)
    with database.read() as session:
        price = price_by_history(session, executor, asked.spec, target, planned_seconds)
        standings = money.covering(session, asked.facts.id, target)
        why, _ = money.refusal(standings, target, price.bound, price.bound)
    if why is not None:
        raise UsageError(why, "See what is left with: autoinfer budget list")
    return price


def _agree(asked: Asked) -> bool:
    """Ask on a terminal; without one a rented target waits, and nothing is queued for another.

    Raises `UsageError` where nobody can be asked and nothing can wait, and when the answer is no.
    """
    from configs.errors import UsageError

    if sys.stdin.isatty() and sys.stdout.isatty():
        if typer.confirm("Queue it?", default=False):
            return True
        raise UsageError("Nothing was queued.", "Agree beforehand with --yes")
    if asked.there.rented:
        return False
    raise UsageError(
        f"Nobody is there to agree to the time on {asked.there.device}, so nothing was queued.",
        "Agree beforehand with --yes",
    )


def _is_asked(session: Session, job_id: int) -> bool:
    """Whether the price of the job still waits for the user's approval."""
    from db.models import JobQuote

    quote = session.get(JobQuote, job_id)
    return quote is not None and quote.needs_approval


def _wait(
    ctx: typer.Context,
    settings: Settings,
    database: Database,
    asked: Asked,
    fresh_id: int,
    *,
    with_worker: bool,
    quiet: bool,
) -> Confirmation:
    """Wait for the verdict, with a worker of our own where none takes jobs for the target."""
    import time

    from agent.campaign.rerun.confirm import wait_for
    from agent.campaign.resources.waiting import served_devices
    from agent.campaign.resources.worker_process import WorkerProcess
    from cli.console.interrupt import Interrupt
    from cli.console.output import say
    from cli.executors.executor import LOCAL
    from cli.executors.worker_command import remote_worker_command, worker_command

    device = asked.there.device
    with database.read() as session:
        served = device in served_devices(session)
    command = (
        remote_worker_command(ctx, settings, device, AT_ONCE)
        if asked.there.rented
        else worker_command(ctx, settings, device, LOCAL)
    )
    process = WorkerProcess(command, settings.log_dir / WORKER_LOG)
    ours = with_worker and not served
    if not quiet:
        say(f"It runs on {device}; what it does: autoinfer log --follow")
    interrupt = Interrupt()

    def wait() -> None:
        interrupt.check()
        if ours:
            process.keep_alive()
        (process.wait if ours else time.sleep)(settings.job_poll_s)

    try:
        with interrupt:
            return wait_for(database, fresh_id, wait, process.stop)
    finally:
        process.stop()


def _as_json(
    asked: Asked, price: Price | None, fresh: str, job: str, agreed: bool, done: Confirmation | None
) -> dict[str, object]:
    from dataclasses import asdict

    quoted = price or asked.price
    return {
        "original": asked.label,
        "experiment": fresh,
        "job": job,
        "target": asked.there.device,
        "quote": {
            "expected_s": quoted.expected_s,
            "bound_s": quoted.bound_s,
            "expected_usd": quoted.expected_usd,
            "bound_usd": quoted.bound_usd,
            "basis": quoted.basis,
        },
        "waits_for_approval": not agreed,
        "confirmation": None if done is None else asdict(done),
    }
