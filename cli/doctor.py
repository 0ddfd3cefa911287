"""`autoinfer doctor`."""

from __future__ import annotations

import typer

from cli.console.options import Json


def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Check this machine and say what to do where something is wrong.

    Ends with exit code 1 when something must be mended; what only the engine needs that measures here is a
    warning, because looking at a database elsewhere needs none.
    """
    from cli.console.opening import settings_of
    from cli.console.output import console, print_json, state, table
    from cli.health.check_result import Verdict
    from cli.health.checks import run_checks

    checks = run_checks(settings_of(ctx))
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    if as_json:
        runs = not failed and not any(check.stops_runs for check in checks)
        print_json(
            {"ok": not failed, "can_run_campaigns": runs, "checks": [check.as_json() for check in checks]}
        )
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
        out.print(_summary(bool(failed), [check.name for check in checks if check.stops_runs]))
    if failed:
        raise typer.Exit(1)


def _summary(failed: bool, missing: list[str]) -> str:
    if failed:
        return "Something must be mended first."
    if missing:
        return (
            f"No campaign can run here without {' and '.join(missing)}; everything else is in order, so what "
            "ran elsewhere can be looked at."
        )
    return "This machine can run campaigns."
