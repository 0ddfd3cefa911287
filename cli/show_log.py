"""The log of an experiment, as `autoinfer show E-… --log` prints it: what was kept, and on while it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from db.session import Database
    from experiments.executors.port import Executor
    from experiments.worker.run_logs import ExperimentRuns


def show_log(ctx: typer.Context, experiment_id: int, *, follow: bool, as_json: bool) -> None:
    """Print the logs of all attempts of the experiment; with `follow`, until it has ended.

    Raises `AutoinferError` when nothing of them is kept here.
    """
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from cli.executors.executor import make_executor
    from db.labels import Noun, format_label

    label = format_label(Noun.EXPERIMENT, experiment_id)
    settings = settings_of(ctx)
    with database_of(ctx) as database:
        executor = make_executor(settings, _executor_name(database, experiment_id))
        reader = _Reader(database, executor, experiment_id)
        if as_json:
            runs = reader.look()
            texts = [reader.rest(key) for key in runs.keys]
            _check_kept(label, runs, any(text is not None for text in texts))
            attempts = [{"attempt": number, "text": text} for number, text in enumerate(texts, start=1)]
            print_json({"id": label, "ended": runs.ended, "attempts": attempts})
            return
        while True:
            runs = reader.look()  # first: what is written after this look is read by the next one
            printed = reader.print_new(runs)
            if runs.ended or not follow:
                break
            time.sleep(settings.log_poll_s)
        if not runs.ended and not printed:
            say(f"{label} has written nothing yet; wait for it with: autoinfer show {label} --log --follow")
        _check_kept(label, runs, printed)


class _Reader:
    """Reads on from where it was in the log of each attempt."""

    def __init__(self, database: Database, executor: Executor, experiment_id: int) -> None:
        self._database = database
        self._executor = executor
        self._id = experiment_id
        self._cursors: dict[str, int] = {}

    def look(self) -> ExperimentRuns:
        """The attempts that there are by now."""
        from experiments.worker.run_logs import ExperimentRuns, runs_of

        return runs_of(self._database, self._id) or ExperimentRuns((), ended=True, host=None)

    def rest(self, key: str) -> str | None:
        """What the attempt has written since the last call; None where nothing of it is kept."""
        texts: list[str] = []
        while (chunk := self._executor.logs(key, self._cursors.get(key, 0))) is not None:
            self._cursors[key] = chunk.cursor
            if not chunk.text:
                return "".join(texts)
            texts.append(chunk.text)
        return None

    def print_new(self, runs: ExperimentRuns) -> bool:
        """Print what is new; returns whether anything of any attempt is kept."""
        for attempt, key in enumerate(runs.keys, start=1):
            begins = key not in self._cursors
            text = self.rest(key)
            if text is not None and begins and len(runs.keys) > 1:
                typer.echo(f"== attempt {attempt} ==")
            if text:
                typer.echo(text, nl=False)
        return bool(self._cursors)


def _check_kept(label: str, runs: ExperimentRuns, kept: bool) -> None:
    import socket

    from configs.errors import AutoinferError

    if kept or not runs.ended:
        return
    shown = f"What was measured is in the database: autoinfer show {label}"
    if not runs.keys:
        raise AutoinferError(f"{label} has no log: no worker has run it here.", shown)
    if runs.host is not None and runs.host != socket.gethostname():
        raise AutoinferError(f"{label} ran on {runs.host}, and its log is there.", shown)
    raise AutoinferError(f"The log of {label} was deleted with the folder of its run.", shown)


def _executor_name(database: Database, experiment_id: int) -> str:
    from sqlalchemy import select

    from db.models import Campaign, Experiment, RemoteRun

    with database.read() as session:
        if session.scalar(select(RemoteRun.id).where(RemoteRun.experiment_id == experiment_id).limit(1)):
            return "local"  # what was copied of a rented machine's log lies where this machine's logs do
        campaign = session.get_one(Campaign, session.get_one(Experiment, experiment_id).campaign_id)
        return str(campaign.spec.get("executor", "local"))
