"""`autoinfer aa`: fresh launches of one configuration against each other, and what they say of the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from agent.noise.measure import Progress
    from agent.noise.series import AaAsked
    from configs.campaign import CampaignSpec
    from configs.settings import Settings
    from db.session import Database

WORKER_LOG = "worker.log"
"""The file in the log folder that the worker of a series writes to."""

DEFAULT_LAUNCHES = 8
"""Launches of a series when nobody says: four pairs, a minute on the reference model."""

MOST_LAUNCHES = 10_000
"""The most launches of a series: a day of them on the reference model."""

LEAST_COMPARED = 4
"""Launches that make a pair of each kind where half of them is measured otherwise."""

MOST_BLOCKS = 64
"""The most blocks a launch: what is timed within a launch says nothing of other launches."""


def aa(
    ctx: typer.Context,
    series: Annotated[
        str | None,
        typer.Argument(
            metavar="[C-ID]",
            help="Show what this series says, and measure nothing.",
            show_default=False,
        ),
    ] = None,
    launches: Annotated[
        int | None,
        typer.Option(
            "--launches",
            metavar="N",
            help=f"How many fresh launches, an even number; {DEFAULT_LAUNCHES} if not given.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KNOB=VALUE",
            help="A knob of the configuration; the engine's own default if none is given.",
        ),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks", metavar="N", help="Blocks a launch; as many as a quick pair has if not given."
        ),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside", metavar="COMMAND", help="Run this beside half of the pairs and tell what it does."
        ),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Launch half of the pairs one after the other, each alone.")
    ] = False,
    campaign: Annotated[
        str, typer.Option("--campaign", metavar="NAME|FILE", help="Whose plan and space are used.")
    ] = "default",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="HF_ID[@REVISION]|DIR",
            help="A model of the hub, a checkpoint folder, or `reference`.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="DEVICE", help="Where to measure.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="The engine that serves the model.")
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start a new series even where one was interrupted.")
    ] = False,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run a worker for it here, or use others.")
    ] = True,
    json: Json = False,
) -> None:
    """Measure how much launches vary here: pairs of equal launches, timed as tests time their arms.

    The launches join the noise profile of the target. An interrupted series is continued by the same command.
    """
    from cli.console.opening import database_of, settings_of

    if series is not None:
        _refuse_beside_a_series(ctx)
        with database_of(ctx) as database:
            _show(database, series, json)
        return
    wanted = _even(DEFAULT_LAUNCHES if launches is None else launches)
    from cli.running.beside import command_beside

    words = command_beside(beside)
    _check_condition(wanted, words, alone=alone)
    from cli.executors.executor import check_folders
    from cli.running.asked import campaign_asked
    from configs.targets import check_one_device

    asked = campaign_asked(campaign, {"model": model, "target": target, "engine": engine})
    spec, where = asked.spec, asked.where
    check_one_device(spec.target, "An A/A series")
    settings = settings_of(ctx)
    with database_of(ctx, create=True, upgrade=True) as database:
        if worker:
            check_folders(settings, spec.devices)
        series_id = _start_or_continue(
            database,
            spec,
            where,
            assignments=set_ or [],
            blocks=_blocks(spec.plan.quick_blocks if blocks is None else blocks),
            launches=wanted,
            beside=words,
            alone=alone,
            new=new,
            worked_here=worker,
        )
        _drive(ctx, database, settings, spec, series_id, words, with_worker=worker, as_json=json)


def _refuse_beside_a_series(ctx: typer.Context) -> None:
    from configs.errors import UsageError

    given = [
        name
        for name in ctx.params
        if name not in ("series", "json") and str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")
    ]
    if given:
        raise UsageError(
            f"A series that is shown is not measured: --{given[0].rstrip('_').replace('_', '-')} has no "
            "meaning there.",
            "Leave it out, or leave out the series to measure.",
        )


def _even(launches: int) -> int:
    from configs.errors import UsageError
    from knowledge.figures import counted

    if launches < 2 or launches % 2 or launches > MOST_LAUNCHES:
        raise UsageError(
            f"{counted(launches, 'launch', 'launches')} can't be put in pairs, which is what is measured."
            if launches <= MOST_LAUNCHES
            else f"{launches} launches are more than the {MOST_LAUNCHES} that a series may have.",
            f"Give --launches an even number from 2 to {MOST_LAUNCHES}.",
        )
    return launches


def _check_condition(launches: int, beside: tuple[str, ...], *, alone: bool) -> None:
    from configs.errors import UsageError

    if alone and beside:
        raise UsageError("--alone and --beside are two questions.", "Ask them in two series.")
    if (alone or beside) and launches < LEAST_COMPARED:
        raise UsageError(
            f"{launches} launches are one pair, and half of the pairs is to be measured otherwise.",
            f"Give --launches {LEAST_COMPARED} at least; 20 and more say something.",
        )


def _blocks(blocks: int) -> int:
    from configs.errors import UsageError

    if not 2 <= blocks <= MOST_BLOCKS:
        raise UsageError(
            f"A launch can't be timed in {blocks} blocks here.",
            f"Give --blocks a number from 2 to {MOST_BLOCKS}.",
        )
    return blocks


def _start_or_continue(
    database: Database,
    spec: CampaignSpec,
    where: str,
    *,
    assignments: list[str],
    blocks: int,
    launches: int,
    beside: tuple[str, ...],
    alone: bool,
    new: bool,
    worked_here: bool,
) -> int:
    from agent.campaign.beginning.survey import survey
    from agent.noise.series import AaAsked, configuration_of, create_series, interrupted_series, resize

    ground = survey(spec, where, worked_here=worked_here)
    asked = AaAsked(configuration_of(spec, ground, assignments), blocks, launches, beside, alone)
    with database.write() as session:
        found = None if new else interrupted_series(session, spec, ground, asked)
        if found is None:
            return create_series(session, spec, ground, asked)
        resize(session, found, launches)
        return found


def _drive(
    ctx: typer.Context,
    database: Database,
    settings: Settings,
    spec: CampaignSpec,
    series_id: int,
    beside: tuple[str, ...],
    *,
    with_worker: bool,
    as_json: bool,
) -> None:
    import time

    from agent.campaign.resources.worker_process import WorkerProcess
    from agent.noise.measure import SeriesLoop
    from agent.noise.report import as_document, series_report
    from agent.noise.series import read_series
    from cli.console.interrupt import Interrupt
    from cli.console.output import print_json, say
    from cli.executors.executor import JOBS_FOLDER
    from cli.executors.worker_command import worker_command
    from cli.sheets.aa import print_report
    from experiments.job.aa_beside import Beside, series_mark

    process = None
    if with_worker:
        command = worker_command(ctx, settings, spec.target, spec.executor, beside)
        process = WorkerProcess(command, settings.log_dir / WORKER_LOG)
    teller = _Teller(database, quiet=as_json)
    with database.read() as session:
        _, asked = read_series(session, series_id)
    teller.header(series_id, spec, asked)
    interrupt = Interrupt()

    def tell(progress: Progress) -> None:
        teller.tell(progress)
        interrupt.check()

    def wait(seconds: float) -> None:
        time.sleep(seconds)
        interrupt.check()

    loop = SeriesLoop(database, series_id, worker=process, tell=tell, wait=wait, lease_s=settings.lease_s)
    try:
        with interrupt:
            loop.run()
    except KeyboardInterrupt:
        if not as_json:
            say("", "Interrupted; what was measured is kept, and the same command goes on.")
        raise
    finally:
        if asked.beside and with_worker:
            # a job that was killed could not end what had left its process group
            mark = series_mark(settings.data_dir / JOBS_FOLDER, series_id)
            Beside(asked.beside, settings.data_dir, mark).end()
    with database.read() as session:
        told = series_report(session, series_id)
    print_json(as_document(told)) if as_json else print_report(told)


def _show(database: Database, series: str, as_json: bool) -> None:
    from agent.noise.report import as_document, series_report
    from cli.console.output import print_json
    from cli.sheets.aa import print_report
    from db.labels import Noun
    from knowledge.queries.lookup import labelled

    with database.read() as session:
        told = series_report(session, labelled(session, Noun.CAMPAIGN, series))
    print_json(as_document(told)) if as_json else print_report(told)


class _Teller:
    """Says what happens while a series is measured."""

    def __init__(self, database: Database, *, quiet: bool) -> None:
        import time

        self._database = database
        self._quiet = quiet
        self._clock = time.monotonic
        self._began_s = self._clock()
        self._told = 0

    def header(self, series_id: int, spec: CampaignSpec, asked: AaAsked) -> None:
        from cli.console.output import say
        from cli.console.words import configuration_words
        from db.labels import Noun, format_label

        if self._quiet:
            return
        label = format_label(Noun.CAMPAIGN, series_id)
        otherwise = ""
        if asked.alone:
            otherwise = ", half of the pairs one launch after the other"
        elif asked.beside:
            otherwise = f", half of the pairs beside {' '.join(asked.beside)}"
        say(
            f"{label} measures {asked.launches} launches of {spec.model} on {spec.target} in "
            f"{asked.pairs} pairs, {asked.blocks} blocks each{otherwise}: "
            f"{configuration_words(asked.configuration)}"
        )

    def tell(self, progress: Progress) -> None:
        from cli.console.output import say
        from configs.quantities import format_duration

        if self._quiet:
            return
        if progress.experiment_id is None:
            say(f"Waiting: {progress.waits}.")
            return
        self._told += 1
        each_s = (self._clock() - self._began_s) / self._told
        left = progress.planned - progress.done
        rest = f", about {format_duration(each_s * left)} left" if left > 0 else ""
        say(f"pair {progress.done} of {progress.planned}: {self._measured(progress.experiment_id)}{rest}")

    def _measured(self, experiment_id: int) -> str:
        from agent.noise.report import load_pair
        from db.labels import Noun, format_label
        from knowledge.figures import percent

        with self._database.read() as session:
            metric, value, effect_log = load_pair(session, experiment_id)
        shown = f"{metric} {value:.2f}"
        return (
            f"{format_label(Noun.EXPERIMENT, experiment_id)}, {shown}, second seat {percent(effect_log, 2)}"
        )
