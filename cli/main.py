"""The `autoinfer` command: its table of commands, its global options, and how errors reach the user.

Nothing heavy is imported here: a command's module is loaded when it is called (`cli.console.lazy`), and
modules under `cli/` import the database, networkx or torch inside their functions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from cli.console.failures import INTERRUPTED, Told, tell
from cli.console.lazy import Entry, LazyGroup, command_path
from cli.console.options import GlobalOptions, hoist_globals, wants_json
from configs.garbage import look_seldom
from configs.library_threads import compute_in_one_thread

_RUN, _LOOK, _STEER, _KEEP = "Run", "Look", "Steer", "Machine and data"

COMMANDS = (
    Entry("run", "cli.run:run", "Run an autonomous campaign until its budget ends.", _RUN),
    Entry("plan", "cli.plan:plan", "What a campaign would meet: memory, legal levers, time, cost.", _RUN),
    Entry("enqueue", "cli.enqueue:enqueue", "Put a hypothesis of your own into the queue.", _RUN),
    Entry(
        "reproduce",
        "cli.reproduce:reproduce",
        "Run an experiment again in fresh processes and compare.",
        _RUN,
    ),
    Entry("export", "cli.export:export", "Write what to deploy of a campaign: its recipe.", _RUN),
    Entry("build", "cli.build:build", "Build the checkpoint of a recipe.", _RUN),
    Entry("check", "cli.check:check", "Does a recipe still hold? Measured again in fresh processes.", _RUN),
    Entry(
        "verify",
        "cli.verify:verify",
        "Reproduce every supported verdict of a campaign; say which agree.",
        _RUN,
    ),
    Entry("promote", "cli.promote:promote", "Confirm on another target what was found on the first.", _RUN),
    Entry("judge", "cli.judge:judge", "Judge times from a CSV: latency alone, without a campaign.", _RUN),
    Entry("aa", "cli.aa:aa", "Measure how much launches vary here, and what that says of the judge.", _RUN),
    Entry("replay", "cli.replay:replay", "Planners against a table of measured configurations.", _RUN),
    Entry("table", "cli.table:app", "Measure every configuration of a grid, and export it.", _RUN),
    Entry(
        "worker",
        "cli.worker:worker",
        "Take jobs from the queue and run them here or on rented machines.",
        _RUN,
    ),
    Entry(
        "summary",
        "cli.summary:summary",
        "What is being validated, what was found, what was ruled out.",
        _LOOK,
    ),
    Entry(
        "report",
        "cli.report:report",
        "A campaign as one file: result, path, findings, and what it rests on.",
        _LOOK,
    ),
    Entry("story", "cli.story:story", "A campaign as a story, from its beginning to what comes next.", _LOOK),
    Entry("queue", "cli.queue:queue", "The order of what comes next, with the reason for each place.", _LOOK),
    Entry("hypotheses", "cli.hypotheses:hypotheses", "All hypotheses and what became of them.", _LOOK),
    Entry("experiments", "cli.experiments:experiments", "All experiments: past, running, planned.", _LOOK),
    Entry("findings", "cli.findings:findings", "What verdicts together say, each within its scope.", _LOOK),
    Entry("answers", "cli.answers:answers", "What became of the questions that a campaign asks.", _LOOK),
    Entry("show", "cli.show:show", "Everything about one thing, named by its label or digest.", _LOOK),
    Entry(
        "graph",
        "cli.graph:app",
        "Ask how models, knobs, hypotheses, experiments and findings hang together.",
        _LOOK,
    ),
    Entry("log", "cli.log:log", "The running log of events.", _LOOK),
    Entry("model", "cli.model:model", "What a language model was asked, and what it answered.", _LOOK),
    Entry("dashboard", "cli.dashboard:dashboard", "All of it in a browser, live.", _LOOK),
    Entry("mcp", "cli.mcp:mcp", "The same for coding agents: read, and propose where you allow it.", _LOOK),
    Entry("campaign", "cli.campaign:app", "List, pause, resume or stop campaigns.", _STEER),
    Entry(
        "focus", "cli.steer:focus", "Rank one lever's hypotheses as if they paid five times as much.", _STEER
    ),
    Entry("boost", "cli.steer:boost", "Rank one lever's hypotheses as if they paid twice as much.", _STEER),
    Entry("ban", "cli.steer:ban", "Test nothing of one lever any more.", _STEER),
    Entry("cap", "cli.steer:cap", "Give one lever at most so many tests, so much time or share.", _STEER),
    Entry("reserve", "cli.steer:reserve", "Give one lever at least a share of all tests.", _STEER),
    Entry("question", "cli.question:question", "Settle one hypothesis before all else.", _STEER),
    Entry("pin", "cli.pin:pin", "Put one hypothesis first.", _STEER),
    Entry("move", "cli.move:move", "Put one hypothesis at a place of the queue.", _STEER),
    Entry("approve", "cli.approve:approve", "Let what waits for your approval be tested.", _STEER),
    Entry("budget", "cli.budget:app", "What may be spent on rented machines, in dollars.", _STEER),
    Entry("stop", "cli.stop:stop", "End every run on rented machines.", _STEER),
    Entry("reconcile", "cli.reconcile:reconcile", "Find runs that only a provider knows of.", _STEER),
    Entry("finding", "cli.finding:app", "Findings of your own; verdicts of another database.", _STEER),
    Entry("withdraw", "cli.withdraw:withdraw", "Take a hypothesis out of the queue.", _STEER),
    Entry("note", "cli.note:note", "Write down work done outside; may mark findings stale.", _STEER),
    Entry(
        "doctor",
        "cli.doctor:doctor",
        "Check this machine and say what to do where something is wrong.",
        _KEEP,
    ),
    Entry("devices", "cli.devices:devices", "What GPUs and processors do now, or a recording of it.", _KEEP),
    Entry("engines", "cli.engines:app", "List what serves models here, or install it.", _KEEP),
    Entry("modal", "cli.modal:app", "Put autoinfer on Modal, see what it costs, end it.", _KEEP),
    Entry("config", "cli.config:app", "Show the settings and where each value comes from.", _KEEP),
    Entry("artifacts", "cli.artifacts:app", "List, measure or prune what stages left on the disk.", _KEEP),
    Entry("reference", "cli.reference:app", "Train the packaged reference model.", _KEEP),
    Entry("drafter", "cli.drafter:app", "Train, measure or show a drafter for speculative decoding.", _KEEP),
    Entry("token", "cli.token:app", "Make, list or revoke tokens to the dashboard.", _KEEP),
    Entry("db", "cli.database:app", "Bring the database up to date.", _KEEP),
)
"""Every command of `autoinfer`, in the order of its help."""


class AutoinferGroup(LazyGroup):
    """The commands of `COMMANDS`."""

    entries = COMMANDS


app = typer.Typer(
    name="autoinfer",
    cls=AutoinferGroup,
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"autoinfer {version('autoinfer')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def autoinfer(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Where all state lies.", show_default=False),
    ] = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL", help="The database, such as sqlite:////home/me/a.db.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Read settings from this file.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Make a language model answer faster on the hardware you have, by itself, and show the work.

    Begin with: autoinfer doctor, then autoinfer run. The global options may stand before or after a command.
    """
    ctx.obj = GlobalOptions(data_dir=data_dir, db=db, config=config, debug=debug)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def call(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; every error is told on standard error."""
    given = hoist_globals(arguments)
    told = Told(wants_json(given), debug="--debug" in given, program="autoinfer", arguments=tuple(given))
    try:
        _readable(given)
        code = get_command(app).main(args=given, prog_name="autoinfer", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_went_away()
    except SystemExit as ending:
        # Typer meets a broken pipe with an exit of its own.
        if isinstance(ending.__context__, BrokenPipeError):
            return _reader_went_away()
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.TyperException as error:
        return tell(error, replace(told, asked=command_path(get_command(app), told.program, given)))
    except Exception as error:
        return tell(error, told)
    return code if isinstance(code, int) else 0


def _readable(arguments: Sequence[str]) -> None:
    """Refuse words whose bytes are no text in the terminal's encoding: nothing could store or print them."""
    from configs.errors import UsageError

    for place, word in enumerate(arguments, start=1):
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(word).decode(errors="replace")
            raise UsageError(
                f"Word {place} of the command, {shown!r}, is not text in {sys.getfilesystemencoding()}.",
                "Write it in the encoding of the terminal; a file by that name must be renamed.",
            ) from None


def _reader_went_away() -> int:
    """End quietly (`autoinfer log | head`), and keep Python from flushing into the pipe again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    return 0


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line of this process and end it with the exit code."""
    compute_in_one_thread()
    look_seldom()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without Unicode gets question marks, not a crash
    sys.exit(call(sys.argv[1:] if arguments is None else arguments))
