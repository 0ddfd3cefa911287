"""Predicted against measured: a chart of the newest outcomes, and the same as a table."""

from __future__ import annotations

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.charts.predicted_measured import PredictedMeasured, predicted_measured
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from dashboard.pages.hypotheses import HypothesesFilters, StateWord
from dashboard.pages.hypotheses import command as list_command
from db.event_kinds import EventKind
from db.models.base import NAME_LENGTH
from knowledge.queries.claims.hypotheses import Asked
from knowledge.queries.claims.predictions import MOST_POINTS, PredictionsView, predictions
from knowledge.queries.lookup import campaign_filter


class PredictionsFilters(Filters):
    """Whose predictions, as in the list of hypotheses."""

    q: str | None = Field(
        default=None, max_length=200, description="Text in claim, rationale or lever; or a label."
    )
    state: tuple[StateWord, ...] = Field(default=(), description="States, or groups such as `active`.")
    lever: str | None = Field(
        default=None, max_length=NAME_LENGTH, description="A lever that the change touches."
    )
    proposer: str | None = Field(default=None, max_length=64, description="Who proposed it.")
    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")
    limit: int = Field(default=200, ge=1, le=MOST_POINTS)

    def listed(self) -> HypothesesFilters:
        """The same as filters of the list."""
        return HypothesesFilters(**self.model_dump(exclude={"limit"}), sort="measured")


class PredictedView(PredictionsView):
    """The points with their chart."""

    def chart(self) -> PredictedMeasured | None:
        """Predicted against measured, laid out."""
        return predicted_measured(self.points)


def read(session: Session, request: Request[PredictionsFilters], ground: Ground) -> PredictedView:
    """Read the outcomes that the filters name, the newest first."""
    asked = request.filters
    which = Asked(
        campaign_filter(session, asked.campaign),
        asked.listed().states,
        asked.lever,
        asked.proposer,
        asked.q,
    )
    return PredictedView.model_construct(**dict(predictions(session, which, asked.limit)))


def command(request: Request[PredictionsFilters]) -> str:
    """The same on the command line."""
    return list_command(Request({}, request.filters.listed()))


def table(view: PredictedView) -> Table:
    """The points as rows; effects are relative, −0.12 for 12 % less."""
    ends = ("relative", "low", "high")
    columns = ("hypothesis", "experiment", "outcome", "claim", "inside")
    return Table(
        (*columns, *(f"{of}_{end}" for of in ("predicted", "measured") for end in ends)),
        (
            (
                each.hypothesis,
                each.experiment,
                each.outcome.value,
                each.claim,
                each.inside,
                *(getattr(each.predicted, end) for end in ends),
                *(getattr(each.measured, end) for end in ends),
            )
            for each in view.points
        ),
    )


PAGE = Page(
    name="predictions",
    title="Predicted against measured",
    path="/predictions",
    filters=PredictionsFilters,
    shows=PredictedView,
    read=read,
    command=command,
    table=table,
    kinds=(EventKind.EXPERIMENT_JUDGED,),
    lasts_s=ALWAYS_S,
)
