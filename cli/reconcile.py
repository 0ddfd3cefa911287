"""`autoinfer reconcile`: runs that a provider knows of and this database does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Json

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
    end: Annotated[bool, typer.Option("--end", help="End what is found.")] = False,
    as_json: Json = False,
) -> None:
    """List runs that are alive on rented machines and that this database knows nothing of.

    They may belong to another database of yours: look before you end them.
    """
    from cli.executor import remote_executors
    from cli.opening import database_of, settings_of
    from cli.output import print_json, say
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
                found += strangers(database, name, make(name, None), end=end)
            except AutoinferError as error:
                if executor:
                    raise
                faults[name] = str(error)
    if as_json:
        runs = [
            {"executor": each.executor, "ref": each.ref, "ended": each.ended, "fault": each.fault}
            for each in found
        ]
        print_json({"asked": list(asked), "runs": runs, "faults": faults})
    else:
        for each in found:
            state = "ended" if each.ended else f"NOT ended: {each.fault}" if each.fault else "alive"
            say(f"{each.ref} at {each.executor}: {state}")
        for name, fault in faults.items():
            say(f"{name} could not be asked: {fault}")
        if not asked:
            say("This database has used no remote executor; name one with --executor NAME.")
        elif not found and not faults:
            say(f"Every run that is alive at {', '.join(asked)} is known here.")
        elif found and not end:
            say("", "End them with: autoinfer reconcile --end")
    if faults or any(each.fault for each in found):
        raise typer.Exit(EXIT_FAILURE)
