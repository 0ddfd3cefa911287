"""Samples of an experiment: every raw value behind a figure, in pages, and all of them as a stream of CSV."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Path, Query, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, spreadsheet_cell
from dashboard.pages.experiment import LATEST, number_of
from dashboard.routes import LABEL_LENGTH, Server
from dashboard.web.answers import CSV
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment
from db.session import Database
from db.states import Arm
from knowledge.latency_only import plan_is_latency_only
from knowledge.queries.measured.samples import SamplesAsked, SampleView, samples_page, stored_samples
from knowledge.queries.view import View

PATH = "/experiments/{label}/samples"
PIECE_ROWS = 500
"""Rows of CSV that are sent at a time."""

PAGE_ROWS, MOST_ROWS = 50, 1000


class SamplesFilters(Filters):
    """Which samples, and from where on."""

    arm: Arm | None = None
    launch: int | None = Field(default=None, ge=0, le=10**6, description="Index of the launch in its arm.")
    stage: str | None = Field(default=None, max_length=32)
    metric: str | None = Field(default=None, max_length=64)
    limit: int = Field(default=PAGE_ROWS, ge=1, le=MOST_ROWS)
    offset: int = Field(default=0, ge=0, le=10**9)

    def asked(self) -> SamplesAsked:
        """The filters as the read side takes them."""
        return SamplesAsked(arm=self.arm, launch=self.launch, stage=self.stage, metric=self.metric)

    def query(self, **changes: Any) -> str:
        """The query of the address with other values, from the first page on."""
        values = {**self.model_dump(mode="json", exclude_defaults=True), "offset": 0, **changes}
        given = SamplesFilters(**values).model_dump(mode="json", exclude_defaults=True)
        return f"?{urlencode(given)}" if given else ""


class SamplesView(View):
    """Some of the raw samples of an experiment, launch by launch; `metrics` are those there are;
    `latency_only`: its weights are made up."""

    id: str
    latency_only: bool
    samples: tuple[SampleView, ...]
    total: int
    metrics: tuple[str, ...]


def read(session: Session, request: Request[SamplesFilters], ground: Ground) -> SamplesView:
    """Read the page of samples that the filters name."""
    experiment_id = number_of(session, request.path["label"])
    asked = request.filters
    samples, total, metrics = samples_page(
        session, experiment_id, asked.asked(), limit=asked.limit, offset=asked.offset
    )
    return SamplesView(
        id=format_label(Noun.EXPERIMENT, experiment_id),
        latency_only=plan_is_latency_only(session.get_one(Experiment, experiment_id).plan),
        samples=samples,
        total=total,
        metrics=metrics,
    )


def command(request: Request[SamplesFilters]) -> str:
    """The same on the command line."""
    return shlex.join(["autoinfer", "show", request.path["label"], "--samples"])


def add_experiment_routes(app: FastAPI, server: Server) -> None:
    """Add the ways to the newest experiment, `/latest` and `/experiments/latest`, and the stream of all
    samples of one as CSV with the filters of their page, `/experiments/E-0012/samples.csv`.

    They come before the pages, one of which would take `latest` for a label.
    """
    router = APIRouter(tags=["pages"])

    @router.get(f"/{LATEST}", include_in_schema=False)
    @router.get(f"/experiments/{LATEST}", include_in_schema=False)
    def latest() -> RedirectResponse:
        with server.database.read() as session:
            newest = format_label(Noun.EXPERIMENT, number_of(session, LATEST))
        return RedirectResponse(f"/experiments/{newest}")

    @router.get(
        f"{PATH}.csv",
        name="experiment_samples.csv",
        responses={200: {"content": CSV}},
        response_class=Response,
    )
    def samples_csv(
        label: Annotated[str, Path(max_length=LABEL_LENGTH)], filters: Annotated[SamplesFilters, Query()]
    ) -> StreamingResponse:
        """Every raw sample of an experiment, streamed."""
        with server.database.read() as session:
            experiment_id = number_of(session, label)
            made_up = plan_is_latency_only(session.get_one(Experiment, experiment_id).plan)
        what = "samples-latency-only" if made_up else "samples"
        name = f"{format_label(Noun.EXPERIMENT, experiment_id)}-{what}.csv"
        return StreamingResponse(
            csv_pieces(server.database, experiment_id, filters.asked()),
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    app.include_router(router)


def csv_pieces(database: Database, experiment_id: int, asked: SamplesAsked) -> Iterator[str]:
    """The samples as CSV with a head, in pieces of `PIECE_ROWS` rows."""
    columns = tuple(SampleView.model_fields)
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns)
    with database.read() as session:
        for count, sample in enumerate(stored_samples(session, experiment_id, asked), start=1):
            writer.writerow([spreadsheet_cell(getattr(sample, name)) for name in columns])
            if count % PIECE_ROWS == 0:
                yield written.getvalue()
                written.seek(0)
                written.truncate()
    yield written.getvalue()


PAGE = Page(
    name="experiment_samples",
    title="Samples of an experiment",
    path=PATH,
    filters=SamplesFilters,
    shows=SamplesView,
    read=read,
    command=command,
    kinds=(EventKind.STAGE_FINISHED, EventKind.EXPERIMENT_JUDGED),
    lasts_s=ALWAYS_S,
)
