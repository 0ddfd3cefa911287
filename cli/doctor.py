"""`autoinfer doctor`."""

from __future__ import annotations

import typer

from cli.options import Json


def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Check this machine and say what to do where something is wrong.

    Ends with exit code 1 when something must be mended before a campaign can run; warnings do not count.
    """
    from cli.check_result import Verdict
    from cli.checks import run_checks
    from cli.opening import settings_of
    from cli.output import console, print_json, state, table

    checks = run_checks(settings_of(ctx))
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    if as_json:
        print_json({"ok": not failed, "checks": [check.as_json() for check in checks]})
    else:
        rows = [
            (
                state(check.verdict.value),
                check.name,
                check.found + (f"\n{check.advice}" if check.advice else ""),
            )
            for check in checks
        ]
        out = console()
        out.print(table(("", "check", "found"), rows, wide=("found",)))
        out.print()
        worst = "Something must be mended first." if failed else "This machine can run campaigns."
        out.print(worst)
    if failed:
        raise typer.Exit(1)
