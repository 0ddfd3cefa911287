"""`autoinfer finding`: findings of one's own, and verdicts that go to another database and come from one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import CampaignFilter, CampaignLabel, Json
from cli.withdraw import Why, take_back

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from knowledge.findings.exchange import VerdictFile

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    help="Write down findings of your own, and exchange verdicts with another database.",
)

_HELPS = "helps"

MOST_DISPUTES = 5
"""Disputes that an import tells; how many more there are is told."""


@app.command("add")
def add(
    ctx: typer.Context,
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="What is so, in a sentence.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KNOB=VALUE", help="The change that it is about; may be given again."),
    ] = None,
    says: Annotated[
        str,
        typer.Option("--says", metavar="WHAT", help="helps, does-not-help, breaks-quality or does-not-run."),
    ] = _HELPS,
    effect: Annotated[
        str | None,
        typer.Option(
            "--effect",
            metavar="EFFECT",
            help="The effect that was seen, such as tpot=-5% or, with its standard deviation, tpot=-5%±2%.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The model; the campaign's if not given.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="The hardware; the campaign's if not given."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="The engine; the campaign's if not given.")
    ] = None,
    version: Annotated[
        list[str] | None,
        typer.Option(
            "--version", metavar="PACKAGE=VERSION", help="A version it was seen with; may be given again."
        ),
    ] = None,
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Write down what you know from elsewhere, marked as yours, with where it holds."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from db.labels import Noun, format_label
    from knowledge.findings.told import Telling, parse_saying, tell
    from knowledge.machines import machines_named
    from knowledge.queries.found.finding_detail import finding_detail

    telling = Telling(
        claim,
        tuple(set_ or ()),
        parse_saying(says),
        effect,
        model,
        target,
        engine,
        tuple(version or ()),
    )
    with writing(ctx) as session:
        found = tell(session, telling, _campaign(session, campaign))
        view = finding_detail(session, found.id)
        label = format_label(Noun.FINDING, found.id)
    if as_json:
        print_json(view)
        return
    named = (str(view.scope[name]) for name in ("model", "target", "engine") if view.scope.get(name))
    where = machines_named(" · ".join(named))
    say(
        f"{label} is written down as yours, for {where}. {telling.meaning}".rstrip(),
        f"Take it back with: autoinfer finding withdraw {label}",
    )


@app.command("withdraw")
def withdraw(
    ctx: typer.Context,
    finding: Annotated[str, typer.Argument(metavar="F-ID", help="A finding of your own, such as F-006.")],
    why: Why = None,
    as_json: Json = False,
) -> None:
    """Take back a finding that you wrote down; it stays, marked as withdrawn."""
    from db.labels import Noun
    from knowledge.findings.told import take_back as withdraw_finding

    def take(session: Session, number: int) -> dict[str, str | None]:
        found = withdraw_finding(session, number, why)
        return {"status": found.status.value, "reason": found.status_reason}

    take_back(ctx, Noun.FINDING, finding, take, why, as_json=as_json)


@app.command("export")
def export(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to this file.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="NAME", help="What this database is called there; the host's name."),
    ] = None,
    campaign: CampaignFilter = None,
    as_json: Json = False,
) -> None:
    """Write the verdicts of this database, so that another one can learn from them."""
    import socket

    from cli.console.opening import reading
    from cli.console.output import print_json, say
    from cli.console.output_file import write_output
    from knowledge.figures import counted
    from knowledge.findings.importing import export_verdicts
    from knowledge.queries.lookup import campaign_filter

    with reading(ctx) as session:
        file = export_verdicts(session, origin or socket.gethostname(), campaign_filter(session, campaign))
    if output is None:
        print(file.model_dump_json(indent=1))
        return
    write_output(output, file.model_dump_json(indent=1) + "\n")
    if as_json:
        print_json({"output": str(output), "origin": file.origin, "verdicts": len(file.verdicts)})
        return
    say(f"Wrote {counted(len(file.verdicts), 'verdict')} of {file.origin} to {output}.")


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `finding export` wrote elsewhere.")],
    as_json: Json = False,
) -> None:
    """Take in the verdicts of another database, before a first campaign here too; findings are derived from
    all of them together."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from db.labels import Noun, format_label
    from knowledge.figures import counted, listed
    from knowledge.findings.importing import import_verdicts

    verdicts = _read(file)
    with writing(ctx, create=True) as session:
        done = import_verdicts(session, verdicts)
    labels = {
        added: [format_label(Noun.FINDING, each.finding_id) for each in done.findings if each.added is added]
        for added in (True, False)
    }
    if as_json:
        print_json(
            {
                "origin": verdicts.origin,
                "new": done.new,
                "known": done.known,
                "findings_added": labels[True],
                "findings_changed": labels[False],
                "disputes": list(done.disputes),
            }
        )
        return
    known = f"; {done.known} {'was' if done.known == 1 else 'were'} here already" if done.known else ""
    say(f"{counted(done.new, 'verdict')} of {verdicts.origin} taken in{known}.")
    for what, found in (("New", labels[True]), ("Changed", labels[False])):
        if found:
            say(f"{what}: {listed(found)}.")
    for question in done.disputes[:MOST_DISPUTES]:
        say(f"Disputed: {question}")
    if len(done.disputes) > MOST_DISPUTES:
        say(f"{len(done.disputes) - MOST_DISPUTES} more: autoinfer log --kind finding.disputed")


def _read(path: Path) -> VerdictFile:
    from configs.errors import UsageError
    from knowledge.findings.exchange import MOST_BYTES, read_file

    hint = "Give the file that `autoinfer finding export --output FILE` wrote."
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is larger than {MOST_BYTES // 2**20} MiB.", hint)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.", hint) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text.", hint) from None
    return read_file(text, str(path))


def _campaign(session: Session, text: str | None) -> int | None:
    from db.labels import Noun
    from knowledge.queries.lookup import labelled, newest_campaign

    return newest_campaign(session) if text is None else labelled(session, Noun.CAMPAIGN, text)
