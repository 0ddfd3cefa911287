"""`autoinfer reconcile`: runs that a provider knows of and this database does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from experiments.remote.ending import Stranger


def reconcile(
    ctx: typer.Context,
    executor: Annotated[
        list[str] | None,
        typer.Option(
            "--executor", metavar="NAME", help="Ask this executor; all that were used if not given."
        ),
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="End those that this database made.")] = False,
    end_others: Annotated[
        bool, typer.Option("--end-others", help="End those too that another database made, or nobody.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List runs that are alive on rented machines and that no open run of this database stands for.

    Those of another database of yours are listed as another's: look before you end them.
    """
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from cli.executors.executor import remote_executors
    from configs.errors import EXIT_FAILURE, AutoinferError
    from db.remote_runs import executors_known
    from experiments.remote.ending import strangers

    found: list[Stranger] = []
    faults: dict[str, str] = {}
    with database_of(ctx) as database:
        make = remote_executors(settings_of(ctx))
        with database.read() as session:
            asked = executor or executors_known(session)
        for name in asked:
            try:
                found += strangers(database, name, make(name, None), end=end or end_others, others=end_others)
            except AutoinferError as error:
                if executor:
                    raise
                faults[name] = str(error)
    if as_json:
        runs = [
            {
                "executor": each.executor,
                "ref": each.ref,
                "ours": each.ours,
                "job": each.job,
                "ended": each.ended,
                "fault": each.fault,
            }
            for each in found
        ]
        print_json({"asked": list(asked), "runs": runs, "faults": faults})
    else:
        for each in found:
            state = "ended" if each.ended else f"NOT ended: {each.fault}" if each.fault else "alive"
            whose = f"made for {each.job} of this database" if each.job else "another database's, or nobody's"
            say(f"{each.ref} at {each.executor}, {whose}: {state}")
        for name, fault in faults.items():
            say(f"{name} could not be asked: {fault}")
        if not asked:
            say("This database has used no remote executor; name one with --executor NAME.")
        elif not found and not faults:
            say(f"Every run that is alive at {', '.join(asked)} is known here.")
        for line in _what_to_do(found):
            say("", line)
    if faults or any(each.fault for each in found):
        raise typer.Exit(EXIT_FAILURE)


def _what_to_do(found: list[Stranger]) -> list[str]:
    """How to end what is left alive, this database's own and that of others apart."""
    alive = [each for each in found if not each.ended and each.fault is None]
    lines = []
    if any(each.ours for each in alive):
        lines.append("End those of this database with: autoinfer reconcile --end")
    if any(not each.ours for each in alive):
        lines.append("Others may be at work: end theirs too only if nobody is, with: --end-others")
    return lines
