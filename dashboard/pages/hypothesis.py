"""One hypothesis: what it claims, what would refute it, how it moved in the queue, what its tests found."""

from __future__ import annotations

from sqlalchemy.orm import Session

from dashboard.charts.glyph import Glyph, glyph, scale_of
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from dashboard.pages.hypotheses import CHANGED_BY
from db.labels import Noun
from knowledge.queries.claims.hypothesis_detail import HypothesisDetail, hypothesis_detail
from knowledge.queries.lookup import labelled
from knowledge.queries.view import EffectView

WORDS = {
    "proposed": "Not ranked yet.",
    "queued": "Waits for its test.",
    "testing": "Under test.",
    "supported": "Supported.",
    "refuted": "Refuted.",
    "inconclusive": "Left open.",
    "confounded": "Confounded.",
    "infeasible": "Can’t run.",
    "withdrawn": "Withdrawn.",
}
"""What a state says at the head of the page."""

PREDICTED, PROPOSED = "Predicted", "When proposed"
"""The names of marks that no test measured."""


class HypothesisFilters(Filters):
    """Nothing: the address names the hypothesis."""


class HypothesisView(HypothesisDetail):
    """A hypothesis as its page shows it."""

    @property
    def word(self) -> str:
        """Its state as a sentence."""
        if self.approval is not None and self.approval.waits:
            return "Waits for your approval."
        if self.ended is not None:
            return f"{self.ended.word.capitalize()}."
        if self.interrupted:
            return "Interrupted under test."
        return WORDS[self.state.value]

    @property
    def reason(self) -> str | None:
        """Why it stands where it does: how its test ended or the verdict, else what ended it, else its place
        in the queue."""
        if self.ended is not None:
            return f"{self.ended.clause}."
        return self.verdict_reason or self.state_reason or self.rank_reason

    @property
    def tests_s(self) -> float | None:
        """Seconds that its experiments took; None where none has ended."""
        known = [each.wall_s for each in self.experiments if each.wall_s is not None]
        return sum(known) if known else None

    def marks(self) -> tuple[tuple[str, EffectView, Glyph], ...]:
        """What was predicted and what each test measured, on one scale."""
        told = self.predictions
        rows = [
            (PROPOSED if told.is_of_proposal else PREDICTED, told.shown),
            (PROPOSED, told.earlier),
            *((each.id, each.effect) for each in self.experiments),
        ]
        effects = [effect for _, effect in rows if effect is not None]
        scale = scale_of(effects, self.min_effect)
        return tuple(
            (name, effect, glyph(effect, self.min_effect, scale))
            for name, effect in rows
            if effect is not None
        )


def read(session: Session, request: Request[HypothesisFilters], ground: Ground) -> HypothesisView:
    """Read the hypothesis that the address names; `UsageError` where there is none."""
    found = hypothesis_detail(session, labelled(session, Noun.HYPOTHESIS, request.path["label"]))
    return HypothesisView.model_construct(**dict(found))


def command(request: Request[HypothesisFilters]) -> str:
    """The same on the command line."""
    return f"autoinfer show {request.path['label'].upper()}"


def table(view: HypothesisView) -> Table:
    """Its moves in the queue as rows."""
    columns = ("at", "from_rank", "to_rank", "reason", "cause", "cause_event", "ranking_event")
    return Table(
        columns,
        (
            (
                each.at.isoformat(),
                each.from_rank,
                each.to_rank,
                each.reason,
                each.cause,
                each.event_id,
                each.ranking_event_id,
            )
            for each in view.moves
        ),
    )


PAGE = Page(
    name="hypothesis",
    title="Hypothesis",
    path="/hypotheses/{label}",
    filters=HypothesisFilters,
    shows=HypothesisView,
    read=read,
    command=command,
    table=table,
    kinds=CHANGED_BY,
    lasts_s=ALWAYS_S,
)
