"""`autoinfer modal`: deploy, status, stop, bill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from datetime import date

    from experiments.executors.modal.deployment import State
    from knowledge.queries.spent.bills import CountedDay

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="Put autoinfer on Modal, see what it costs, end it."
)


@app.command()
def deploy(
    startup: Annotated[
        str,
        typer.Option(
            "--startup", metavar="TIME", help="How long a container may take until it begins a job."
        ),
    ] = "20m",
    as_json: Json = False,
) -> None:
    """Write the app on Modal, or bring it up to date; nothing costs anything until a job runs."""
    from cli.console.output import print_json, say
    from configs.quantities import parse_duration_s
    from experiments.executors.modal import deployment
    from experiments.executors.modal.protocol import APP_NAME

    startup_s = int(parse_duration_s(startup))
    if not as_json:
        say("Puts the code on Modal, and builds the image where it changed: the first time takes minutes.")
    done = deployment.deploy(startup_s)
    if as_json:
        print_json({"app": APP_NAME, **done.model_dump(mode="json")})
        return
    say(
        f"The app {APP_NAME} takes jobs of version {done.version} (autoinfer {done.autoinfer}, {done.vllm}, "
        f"code {done.code}).",
        "Try it: autoinfer modal status",
    )


@app.command()
def status(as_json: Json = False) -> None:
    """What is deployed on Modal, which calls run there, and what they cost so far."""
    from cli.console.output import console, print_json, say, table
    from configs.quantities import format_duration
    from experiments.executors.modal import deployment

    found = deployment.status()
    if as_json:
        print_json(_document(found))
        return
    say(_in_words(found))
    if found.running:
        rows = [
            (each.call_id, each.key, each.gpu or "none", format_duration(each.seconds), f"{each.usd:.2f} USD")
            for each in found.running
        ]
        console().print(table(("call", "job", "GPU", "for", "so far"), rows, wide=("call",)))
        say(f"Together {found.usd:.2f} USD so far, an estimate by {found.rates}; the bill is Modal's.")


@app.command()
def stop(as_json: Json = False) -> None:
    """End every call on Modal with its container, and the app; results that are there stay for seven days."""
    from cli.console.output import print_json, say
    from experiments.executors.modal import deployment
    from experiments.executors.modal.protocol import APP_NAME
    from knowledge.figures import counted

    ended = deployment.stop()
    if as_json:
        print_json({"app": APP_NAME, "stopped": True, "cancelled": list(ended)})
        return
    were = f"{counted(len(ended), 'running call')} {'was' if len(ended) == 1 else 'were'} ended"
    say(f"{were}, and the app {APP_NAME} too. Again: autoinfer modal deploy")


@app.command()
def bill(
    ctx: typer.Context,
    days: Annotated[int, typer.Option("--days", min=1, max=90, help="How many days, today among them.")] = 7,
    as_json: Json = False,
) -> None:
    """What Modal bills for the app by day, beside what the runs of this database count for."""
    from datetime import UTC, datetime, timedelta

    from cli.console.opening import reading
    from cli.console.output import console, print_json, say, table
    from configs.errors import DatabaseMissing
    from configs.quantities import format_usd
    from experiments.executors.modal.bill import billed_by_day
    from experiments.executors.modal.executor import ModalExecutor
    from knowledge.queries.spent.bills import CountedDay, counted_by_day

    now = datetime.now(UTC)
    first = now.date() - timedelta(days=days - 1)
    billed = billed_by_day(days, now)
    counted: dict[date, CountedDay] = {}
    try:
        with reading(ctx) as session:
            counted = counted_by_day(session, ModalExecutor.name, first)
    except DatabaseMissing:  # nothing ran from here
        pass
    rows = [
        (each, billed.get(each, 0.0), counted.get(each, CountedDay())) for each in sorted({*billed, *counted})
    ]
    if as_json:
        print_json(
            {
                "days": [
                    {
                        "day": day.isoformat(),
                        "billed_usd": usd,
                        "counted_usd": here.counted_usd,
                        "open_usd": here.open_usd,
                        "runs": here.runs,
                        "difference_usd": usd - here.counted_usd,
                    }
                    for day, usd, here in rows
                ]
            }
        )
        return
    if not rows:
        say(f"Modal billed nothing for the app since {first}, and nothing ran there from here.")
        return
    cells = [
        (
            day.isoformat(),
            format_usd(usd),
            format_usd(here.counted_usd),
            format_usd(usd - here.counted_usd),
            format_usd(here.open_usd),
            str(here.runs),
        )
        for day, usd, here in rows
    ]
    names = ("day (UTC)", ">Modal's bill", ">counted here", ">difference", ">in flight, at most", ">runs")
    console().print(table(names, cells))
    say(
        "Modal bills by app and whole hour, and counts what every database of the account runs; a run counts "
        "here, by time and rates, to the day on which it was submitted."
    )


def _in_words(found: State) -> str:
    from datetime import datetime

    from cli.console.output import when
    from experiments.executors.modal.client import HOW_TO_DEPLOY
    from experiments.executors.modal.protocol import APP_NAME, FUNCTION_NAME
    from knowledge.figures import counted

    if found.functions is None:
        return f"There is no app {APP_NAME!r} on Modal. {HOW_TO_DEPLOY}"
    if not found.ours:
        there = ", ".join(found.functions) or "no function"
        return f"The app on Modal has {there}, and this autoinfer calls {FUNCTION_NAME}. {HOW_TO_DEPLOY}"
    told = found.deployment
    deployed = ""
    if told is not None:
        at = when(datetime.fromisoformat(told.deployed_at))
        deployed = f", deployed at {at} from autoinfer {told.autoinfer} ({told.vllm})"
    number = len(found.running)
    runs = "nothing runs" if not number else f"{counted(number, 'call')} {'runs' if number == 1 else 'run'}"
    return f"The app {APP_NAME} has {FUNCTION_NAME}{deployed}; {runs}."


def _document(found: State) -> dict[str, Any]:
    from experiments.executors.modal.protocol import APP_NAME

    return {
        "app": APP_NAME,
        "deployed": found.functions is not None,
        "takes_our_jobs": found.ours,
        "functions": list(found.functions or ()),
        "deployment": None if found.deployment is None else found.deployment.model_dump(mode="json"),
        "running": [
            {"call": each.call_id, "job": each.key, "gpu": each.gpu, "seconds": each.seconds, "usd": each.usd}
            for each in found.running
        ],
        "usd_so_far": found.usd,
        "rates": found.rates,
    }
