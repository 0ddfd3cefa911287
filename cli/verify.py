"""`autoinfer verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import CampaignToo, Json, named_once

if TYPE_CHECKING:
    from agent.campaign.resources.worker_process import WorkerProcess
    from knowledge.queries.found.verification import VerificationView, VerifiedRow


def verify(
    ctx: typer.Context,
    campaign: Annotated[
        str | None, typer.Argument(metavar="[C-ID]", help="The campaign; the newest one if not given.")
    ] = None,
    campaign_too: CampaignToo = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="DEVICE", help="Run on this device: the same hardware, or none."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="Begin nothing more after it: 30m, 2h.")
    ] = None,
    budget_usd: Annotated[
        str | None,
        typer.Option(
            "--budget-usd",
            metavar="USD",
            help="Add so many dollars to the campaign's budget, for rented machines.",
        ),
    ] = None,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Begin anew where an earlier verification was left unfinished.")
    ] = False,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run workers for it here, or wait for others.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Reproduce every supported verdict of a campaign in fresh processes, and say which agree.

    Ends with exit code 0 only if all do, and with 3 if all do that can be reproduced here. What was
    interrupted is gone on with.
    """
    import time

    from agent.campaign.rerun.verify import Limits, Runner
    from agent.campaign.rerun.verify import verify as run_all
    from cli.console.interrupt import Interrupt
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from cli.executors.executor import unreachable_by
    from cli.reproduce import fresh_worker, how_it_runs
    from configs.errors import EXIT_FAILURE, EXIT_OPEN
    from configs.quantities import parse_duration_s, parse_usd
    from db.models import Campaign
    from knowledge.queries.lookup import campaign_of

    settings = settings_of(ctx)
    limits = Limits(
        target,
        None if budget is None else parse_duration_s(budget),
        0.0 if budget_usd is None else parse_usd(budget_usd),
        afresh,
    )
    processes: dict[str, WorkerProcess] = {}
    with database_of(ctx) as database:
        with database.read() as session:
            campaign_id = campaign_of(session, named_once(campaign, campaign_too))
            row = session.get_one(Campaign, campaign_id)
            session.expunge(row)
        interrupt = Interrupt()
        told = ""

        def wait(device: str) -> None:
            interrupt.check()
            if not worker:
                nonlocal told
                before, told = told, how_it_runs(database, device, with_worker=False)
                if told != before and not as_json:
                    say(f"        {told}")
                time.sleep(settings.job_poll_s)
                return
            if device not in processes:
                stop()  # one at a time: nothing else runs beside a measurement
                processes[device] = fresh_worker(ctx, settings, row, device)
            processes[device].keep_alive()
            processes[device].wait(settings.job_poll_s)

        def stop() -> None:
            for each in processes.values():
                each.stop()
            processes.clear()

        runner = Runner(wait, stop, worker, unreachable_by(settings))
        tell = _quiet if as_json else _tell
        try:
            with interrupt:
                found = run_all(database, campaign_id, runner, limits, tell)
        finally:
            stop()
    if as_json:
        print_json(
            {
                **found.model_dump(mode="json"),
                "sentence": found.sentence,
                "all_agree": found.all_agree,
                "all_here_agree": found.all_here_agree,
            }
        )
    else:
        _print(found)
        if not found.whole:
            say(_goes_on(found))
    if not found.all_here_agree:
        raise typer.Exit(EXIT_FAILURE)
    if not found.all_agree:
        raise typer.Exit(EXIT_OPEN)


def _quiet(row: VerifiedRow, number: int, total: int) -> None:
    """With --json nothing is told before the end."""


def _tell(row: VerifiedRow, number: int, total: int) -> None:
    from cli.console.output import say
    from cli.console.words import effect_words
    from knowledge.queries.found.verification import Standing

    if row.standing is Standing.RUNS:
        claimed = effect_words(row.claimed)
        say(
            f"{number} of {total}  {row.experiment}  {row.claim.rstrip('.')}: claimed {claimed}; "
            f"it runs again {row.why}"
        )
    else:
        fresh = "" if row.fresh is None else f"{row.fresh.experiment}  "
        say(f"        {fresh}{row.standing.value}: {row.why}")


def _print(found: VerificationView) -> None:
    from cli.console.output import console, say, table
    from cli.console.words import effect_words
    from knowledge.queries.found.verification import Standing

    if found.verdicts:
        out = console()
        out.print()
        out.print(
            table(
                ("verdict", "claimed", "reproduced", "difference", "by", "says", "why"),
                [
                    (
                        row.experiment + (" *" if row.recommended else ""),
                        effect_words(row.claimed),
                        effect_words(None if row.fresh is None else row.fresh.effect),
                        effect_words(None if row.fresh is None else row.fresh.difference),
                        "—" if row.fresh is None else row.fresh.experiment,
                        row.standing.value,
                        row.why + _built(row),
                    )
                    for row in found.verdicts
                ],
                wide=("why",),
            )
        )
        if any(row.recommended for row in found.verdicts):
            say("* what the best of the campaign rests on")
    say(f"{found.sentence}.")
    for row in found.verdicts:
        if row.standing in (Standing.NOT_HERE, Standing.ALTERED):
            say(f"{row.experiment} was not checked: {row.why}.")
    if found.verdicts:
        say(f"A verdict {found.rule}.")


def _goes_on(found: VerificationView) -> str:
    """How what is left is gone on with: elsewhere, where nothing of it can be reproduced here."""
    from knowledge.queries.found.verification import SETTLED, Standing

    left = {row.standing for row in found.verdicts} - SETTLED
    command = f"autoinfer verify {found.campaign}"
    if left == {Standing.NOT_HERE}:
        return f"Go on with the rest where that is to be had, with the same database: {command}"
    return f"The rest is gone on with by: {command}"


def _built(row: VerifiedRow) -> str:
    """What had to be built anew."""
    built = () if row.fresh is None else row.fresh.built
    return f"; built anew: {', '.join(built)}" if built else ""
