"""A finding: what is said, where alone it holds, how strongly, and the verdicts behind it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.orm import Session

from dashboard.charts.forest import Effect, Forest, forest_chart
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request
from dashboard.pages.knowledge import KINDS
from db.labels import Noun
from knowledge.figures import SHARES
from knowledge.findings.rules import Rule, Strength
from knowledge.queries.found.finding_detail import FindingDetail, finding_detail
from knowledge.queries.lookup import labelled
from knowledge.queries.view import EffectView
from knowledge.stored import number

RULES: Mapping[str, str] = {
    Rule.EFFECT: "a supported verdict says so",
    Rule.NO_EFFECT: "a refuted verdict says so",
    Rule.QUALITY: "a verdict refuted by its quality says so",
    Rule.INFEASIBLE: "it did not run",
    Rule.AGREED: "verdicts that agree",
    Rule.CONTRADICTED: "verdicts that disagree",
}
"""Why a finding says what it says, by the rule that derived it."""

STRENGTHS: Mapping[str, str] = {
    Strength.SINGLE: "rests on one result",
    Strength.REPRODUCED: "rests on one campaign, in which reruns agree",
    Strength.REPLICATED: "rests on campaigns that agree",
    Strength.WEAKENED: "weakened by later measurements",
    Strength.MIXED: "its verdicts disagree",
}
"""What stands behind a finding, by its strength."""


class FindingPage(FindingDetail):
    """A finding in full, and its forest plot."""

    @property
    def said_because(self) -> str:
        """Why it says so; the rule's name where that is none of verdicts about a change."""
        return RULES.get(self.rule, f"by the rule {self.rule}")

    @property
    def strength_words(self) -> str:
        """What stands behind it."""
        return STRENGTHS.get(self.strength, self.strength)

    @property
    def forest(self) -> Forest | None:
        """Campaigns on one axis; None where nothing was measured, or nothing with an interval."""
        found = self.pooled
        if found is None:
            return None
        several = len(found.campaigns) > 1
        margin = number(self.scope.get("min_effect"))
        metric = found.effect.metric
        return forest_chart(
            [_drawn(each.effect, each.weight) for each in found.campaigns],
            _drawn(found.effect) if several else None,
            None if found.predicted is None else _drawn(found.predicted),
            None if not margin else 100 * margin if metric in SHARES else -100 * margin,
        )


def _drawn(effect: EffectView, weight: float = 1.0) -> Effect:
    """An effect as the axis has it: of a share, more is better, and so to the right."""
    factor = -100 if effect.metric in SHARES else 100
    middle = effect.relative
    ends = [middle if each is None else each for each in (effect.low, effect.high)]
    low, high = sorted(factor * each for each in ends)
    return Effect(factor * middle, low, high, weight)


class FindingFilters(Filters):
    """Nothing more is asked of a finding."""


def read(session: Session, request: Request[FindingFilters], ground: Ground) -> FindingPage:
    """Read the finding that the path names."""
    found = finding_detail(session, labelled(session, Noun.FINDING, request.path["label"]))
    return FindingPage.model_construct(**dict(found))


def command(request: Request[FindingFilters]) -> str:
    """The same on the command line."""
    return f"autoinfer show {request.path['label']}"


PAGE = Page(
    name="finding",
    title="Finding",
    path="/knowledge/{label}",
    filters=FindingFilters,
    shows=FindingPage,
    read=read,
    command=command,
    kinds=KINDS,
    lasts_s=ALWAYS_S,
)
