"""Hypotheses: what is being validated, what is settled, the list, and predicted against measured."""

from __future__ import annotations

from enum import StrEnum
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.charts.glyph import Glyph, Scale, glyph, scale_of
from dashboard.charts.predicted_measured import PredictedMeasured, predicted_measured
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from db.models.base import NAME_LENGTH
from db.states import HypothesisState
from knowledge.queries.claims.hypotheses import (
    Asked,
    FacetsView,
    HypothesisRow,
    HypothesisSort,
    facets,
    list_hypotheses,
)
from knowledge.queries.claims.model_answers import AskedView, asked_of_model
from knowledge.queries.claims.predictions import PredictionsView, predictions
from knowledge.queries.claims.proposers import ProposerView, proposers
from knowledge.queries.lookup import campaign_filter, newest_campaign
from knowledge.queries.standing import GROUPS, Group, StandingView, standing
from knowledge.queries.view import EffectView, View

PATH = "/hypotheses"
PAGE_ROWS = 50
MOST_ROWS = 500
LARGEST_OFFSET = 2**31
MOST_DRAWN = 100
"""Points of the chart beside the list; its own page draws more."""

CHANGED_BY = tuple(
    kind
    for kind in EventKind
    if kind.value.partition(".")[0] in ("campaign", "hypothesis", "queue", "experiment", "directive", "model")
)
"""Events that change a hypothesis, its place or what is known of it, and those of a language model."""


class StateWord(StrEnum):
    """A state, or a group of them such as `active`."""

    PROPOSED = "proposed"
    QUEUED = "queued"
    TESTING = "testing"
    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    CONFOUNDED = "confounded"
    INFEASIBLE = "infeasible"
    WITHDRAWN = "withdrawn"
    ACTIVE = "active"
    RULED_OUT = "ruled-out"
    OPEN = "open"

    @property
    def states(self) -> tuple[HypothesisState, ...]:
        """The states that it stands for."""
        return GROUPS[Group(self.value)] if self.value in set(Group) else (HypothesisState(self.value),)


class HypothesesFilters(Filters):
    """Which hypotheses, in which order, from where on."""

    q: str | None = Field(
        default=None, max_length=200, description="Text in claim, rationale or lever; or a label."
    )
    state: tuple[StateWord, ...] = Field(default=(), description="States, or groups such as `active`.")
    lever: str | None = Field(
        default=None, max_length=NAME_LENGTH, description="A lever that the change touches."
    )
    proposer: str | None = Field(default=None, max_length=64, description="Who proposed it.")
    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")
    sort: HypothesisSort = HypothesisSort.STANDING
    reverse: bool = False
    limit: int = Field(default=PAGE_ROWS, ge=1, le=MOST_ROWS)
    offset: int = Field(default=0, ge=0, le=LARGEST_OFFSET)

    @property
    def states(self) -> tuple[HypothesisState, ...]:
        """The states that are asked for, groups resolved, each once."""
        found = [state for word in self.state for state in word.states]
        return tuple(dict.fromkeys(found))

    @property
    def narrowed(self) -> bool:
        """Whether anything is left out."""
        return bool(self.q or self.state or self.lever or self.proposer or self.campaign)

    def href(self, **changes: Any) -> str:
        """The address of the list with other values; it begins on the first page unless that is one."""
        values = {**self.model_dump(mode="json", exclude_defaults=True), "offset": 0, **changes}
        given = HypothesesFilters(**values).model_dump(mode="json", exclude_defaults=True)
        return f"{PATH}?{urlencode(given, doseq=True)}" if given else PATH

    def in_predictions(self) -> str:
        """The address of predicted against measured, of the same hypotheses."""
        kept = ("q", "state", "lever", "proposer", "campaign")
        given = self.model_dump(mode="json", exclude_defaults=True, include=set(kept))
        return f"/predictions?{urlencode(given, doseq=True)}" if given else "/predictions"

    def sorted_by(self, sort: str) -> str:
        """The address of the list by this column; by the other end where it is sorted so already."""
        return self.href(sort=sort, reverse=self.sort == sort and not self.reverse)


class HypothesesView(View):
    """A page of hypotheses: `total` counts all that match; `standing` is of the campaign asked for, else of
    the newest, None where there is none, and so is `asked`, what a language model was asked for it;
    `proposers` of the campaign asked for, else of all."""

    items: tuple[HypothesisRow, ...]
    total: int
    limit: int
    offset: int
    facets: FacetsView
    standing: StandingView | None
    predictions: PredictionsView
    proposers: tuple[ProposerView, ...]
    asked: AskedView | None

    def count(self, group: str) -> int:
        """How many there are of a group's states."""
        return sum(self.facets.states.get(state.value, 0) for state in GROUPS[Group(group)])

    def scale(self) -> Scale:
        """The scale that the rows' glyphs share."""
        effects = [each for row in self.items for each in (row.predicted, row.measured) if each is not None]
        return scale_of(effects, max((row.min_effect for row in self.items), default=0.0))

    def glyph(self, effect: EffectView, min_effect: float, scale: Scale) -> Glyph:
        """The marks of an effect."""
        return glyph(effect, min_effect, scale)

    def chart(self) -> PredictedMeasured | None:
        """Predicted against measured, laid out."""
        return predicted_measured(self.predictions.points)


def read(session: Session, request: Request[HypothesesFilters], ground: Ground) -> HypothesesView:
    """Read the page of hypotheses that the filters name."""
    asked = request.filters
    campaign_id = campaign_filter(session, asked.campaign)
    shown = campaign_id if campaign_id is not None else newest_campaign(session)
    page = list_hypotheses(
        session,
        campaign_id=campaign_id,
        states=asked.states,
        lever=asked.lever,
        proposer=asked.proposer,
        text=asked.q,
        sort=asked.sort,
        reverse=asked.reverse,
        limit=asked.limit,
        offset=asked.offset,
    )
    which = Asked(campaign_id, asked.states, asked.lever, asked.proposer, asked.q)
    return HypothesesView(
        items=page.items,
        total=page.total,
        limit=page.limit,
        offset=page.offset,
        facets=facets(session, campaign_id),
        standing=None if shown is None else standing(session, shown),
        predictions=predictions(session, which, MOST_DRAWN),
        proposers=proposers(session, campaign_id),
        asked=None if shown is None else asked_of_model(session, shown),
    )


def command(request: Request[HypothesesFilters]) -> str:
    """The same on the command line."""
    asked = request.filters
    words = ["autoinfer hypotheses", *(f"--state {state.value}" for state in asked.states)]
    for option, value in (
        ("campaign", asked.campaign),
        ("lever", asked.lever),
        ("proposer", asked.proposer),
        ("search", asked.q),
    ):
        if value:
            words.append(f"--{option} {quote(value)}")
    if asked.sort is not HypothesisSort.STANDING:
        words.append(f"--sort {asked.sort.value}")
    if asked.reverse:
        words.append("--reverse")
    if asked.offset:
        words.append(f"--offset {asked.offset}")
    return " ".join(words)


def table(view: HypothesesView) -> Table:
    """The hypotheses as rows; effects are relative, −0.12 for 12 % less."""
    effects = tuple(f"{of}_{end}" for of in ("predicted", "measured") for end in ("relative", "low", "high"))
    columns = ("id", "campaign", "state", "lever", "proposer", "claim", "metric", *effects, "min_effect")
    return Table((*columns, "experiment", "reason", "latency_only"), (_cells(row) for row in view.items))


def _cells(row: HypothesisRow) -> tuple[object, ...]:
    effects = [
        None if found is None else getattr(found, end)
        for found in (row.predicted, row.measured)
        for end in ("relative", "low", "high")
    ]
    told = (row.id, row.campaign, row.state.value, row.lever, row.proposer, row.claim, row.metric)
    reason = row.verdict_reason or row.state_reason or row.rank_reason
    return (*told, *effects, row.min_effect, row.experiment, reason, row.latency_only)


PAGE = Page(
    name="hypotheses",
    title="Hypotheses",
    path=PATH,
    filters=HypothesesFilters,
    shows=HypothesesView,
    read=read,
    command=command,
    table=table,
    kinds=CHANGED_BY,
    lasts_s=ALWAYS_S,
)
