"""Log of an experiment: the end of what its run, or the launches of one of its stages, wrote."""

from __future__ import annotations

import shlex

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.page import READING_S, Filters, Ground, Page, Request
from dashboard.pages.experiment import number_of
from dashboard.rented import RUNS
from db.address import parse_address
from db.labels import Noun, format_label
from db.models import Job, StageRun
from db.remote_runs import keys_of
from experiments.worker.claiming import run_key_in
from experiments.worker.log_tails import TAIL_BYTES, log_tails, stages_with_logs
from knowledge.queries.view import View


class ExperimentLogFilters(Filters):
    """Which attempt, the last one if none is given, and of which stage's launches; else the run's own log."""

    attempt: int | None = Field(default=None, ge=1, le=10**6)
    stage: str | None = Field(default=None, max_length=32, pattern="^[a-z_]+$")


class TailView(View):
    """The end of one log of `bytes` bytes; `cut`: it began before `text`."""

    name: str
    bytes: int
    text: str
    cut: bool


class ExperimentLogView(View):
    """The logs of one attempt of an experiment; `kept` is false where its folder is not on this machine.

    `host` is the machine that ran the last attempt, `stages` those that began in this one, as they are
    recorded at its end or as launches have written so far, `tail_bytes` the most of a log that is shown.
    """

    id: str
    attempt: int
    attempts: int
    stage: str | None
    stages: tuple[str, ...]
    host: str | None
    kept: bool
    tail_bytes: int
    logs: tuple[TailView, ...]


def read(session: Session, request: Request[ExperimentLogFilters], ground: Ground) -> ExperimentLogView:
    """Read the ends of the logs that the filters name."""
    experiment_id = number_of(session, request.path["label"])
    asked = request.filters
    query = (
        select(Job.id, Job.created_at, Job.attempt, Job.device)
        .where(Job.experiment_id == experiment_id)
        .order_by(Job.id.desc())
        .limit(1)
    )
    job = session.execute(query).first()
    remote = [] if job is None else keys_of(session, job.id)
    attempts = len(remote) or (0 if job is None else job.attempt)
    attempt = min(asked.attempt or attempts, attempts)
    stages = session.scalars(
        select(StageRun.stage)
        .where(StageRun.experiment_id == experiment_id, StageRun.attempt == attempt)
        .order_by(StageRun.id)
    )
    seen: tuple[str, ...] = ()
    tails = None
    if job is not None and attempt:
        shown = parse_address(ground.settings.database_url).shown
        # A run on a rented machine is shared by the attempts of the workers that looked after it.
        key = remote[attempt - 1] if remote else run_key_in(shown, job.id, job.created_at, attempt)
        tails = log_tails(ground.settings.data_dir / RUNS, key, asked.stage)
        seen = stages_with_logs(ground.settings.data_dir / RUNS, key)
    return ExperimentLogView(
        id=format_label(Noun.EXPERIMENT, experiment_id),
        attempt=attempt,
        attempts=attempts,
        stage=asked.stage,
        stages=tuple(dict.fromkeys((*stages, *seen))),
        host=job.device.partition("/")[0] if job is not None and job.device else None,
        kept=tails is not None,
        tail_bytes=TAIL_BYTES,
        logs=tuple(
            TailView(name=each.name, bytes=each.bytes, text=each.text, cut=each.cut) for each in tails or ()
        ),
    )


def command(request: Request[ExperimentLogFilters]) -> str:
    """The same on the command line."""
    return shlex.join(["autoinfer", "show", request.path["label"], "--log"])


PAGE = Page(
    name="experiment_log",
    title="Log of an experiment",
    path="/experiments/{label}/log",
    filters=ExperimentLogFilters,
    shows=ExperimentLogView,
    read=read,
    command=command,
    ticks=True,
    lasts_s=READING_S,
)
