"""Hypotheses: the list, and what each row of it is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, literal, or_, select
from sqlalchemy.orm import Session, aliased, load_only

from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Configuration, Hypothesis, Verdict
from db.states import HypothesisState
from knowledge.latency_only import latency_only
from knowledge.queries.at_work import Interrupted, in_a_word
from knowledge.queries.ended_tests import EndedTest
from knowledge.queries.found.shaken import shaken
from knowledge.queries.left_alone import left_alone
from knowledge.queries.view import (
    ChangeView,
    EffectView,
    Page,
    View,
    changes_between,
    prediction_view,
    verdict_effect,
)
from knowledge.stored import LEVER_JOINT


class HypothesisSort(StrEnum):
    """The order of a list of hypotheses."""

    STANDING = "standing"
    """Under test, then the queue in its order, then the others, newest change first."""
    CHANGED = "changed"
    """Newest change of state first."""
    NUMBER = "number"
    """Newest first."""
    PREDICTED = "predicted"
    """Largest predicted gain first."""
    MEASURED = "measured"
    """Largest measured gain first, the unmeasured last."""


class HypothesisRow(View):
    """A hypothesis as one line; `measured` is the effect of its own verdict (no reproduction), `predicted`
    has an 80 % interval. `latency_only`: the weights of its campaign are made up. Of one under test that
    nothing is done about any more, `interrupted` or `ended` says how that came; `doubt` what speaks by now
    against one that was supported, as a clause."""

    id: str
    campaign: str
    claim: str
    state: HypothesisState
    state_reason: str | None
    lever: str
    metric: str
    change: tuple[ChangeView, ...]
    predicted: EffectView | None
    measured: EffectView | None
    verdict_reason: str | None
    experiment: str | None
    min_effect: float
    proposer: str
    pinned: bool
    rank: int | None
    rank_reason: str | None
    latency_only: bool
    created_at: datetime
    state_changed_at: datetime
    interrupted: Interrupted | None = None
    ended: EndedTest | None = None
    doubt: str | None = None

    @property
    def standing(self) -> str:
        """Its state in a word, which is another one where its test was interrupted or has ended."""
        return in_a_word(self.state.value, self.interrupted, self.ended)


_Page = Page[HypothesisRow]  # made once: pydantic forgets what nobody holds


@dataclass(frozen=True)
class Asked:
    """Which hypotheses: all that are given must hold; `text` is looked for in claim, rationale, lever and
    label."""

    campaign_id: int | None = None
    states: Collection[HypothesisState] = ()
    lever: str | None = None
    proposer: str | None = None
    text: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The same as SQL."""
        found: list[ColumnElement[bool]] = []
        if self.campaign_id is not None:
            found.append(Hypothesis.campaign_id == self.campaign_id)
        if self.states:
            found.append(Hypothesis.state.in_(list(self.states)))
        if self.lever is not None:
            joined = literal(LEVER_JOINT) + Hypothesis.lever + LEVER_JOINT
            found.append(joined.contains(f"{LEVER_JOINT}{self.lever}{LEVER_JOINT}", autoescape=True))
        if self.proposer is not None:
            found.append(Hypothesis.proposer == self.proposer)
        if self.text is not None and (words := self.text.strip()):
            columns = (Hypothesis.claim, Hypothesis.rationale, Hypothesis.lever)
            among = [column.icontains(words, autoescape=True) for column in columns]
            if (number := _numbered(words)) is not None:
                among.append(Hypothesis.id == number)
            found.append(or_(*among))
        return found


class FacetsView(View):
    """What there is to choose from: hypotheses by state, by single lever and by proposer."""

    states: dict[str, int]
    levers: dict[str, int]
    proposers: dict[str, int]


CONTROL, CANDIDATE = aliased(Configuration), aliased(Configuration)
_CAMPAIGN = aliased(Campaign)
_OWN = aliased(Verdict)
FIRST_VERDICT = (
    select(func.min(_OWN.id))
    .where(_OWN.hypothesis_id == Hypothesis.id)
    .correlate(Hypothesis)
    .scalar_subquery()
)
"""The id of the verdict on a hypothesis' first experiment of its own."""
_STATES_IN_ORDER = (HypothesisState.TESTING, HypothesisState.QUEUED, HypothesisState.PROPOSED)


def list_hypotheses(
    session: Session,
    *,
    campaign_id: int | None = None,
    states: Collection[HypothesisState] = (),
    lever: str | None = None,
    proposer: str | None = None,
    text: str | None = None,
    sort: HypothesisSort = HypothesisSort.STANDING,
    reverse: bool = False,
    limit: int,
    offset: int = 0,
) -> Page[HypothesisRow]:
    """Return the hypotheses that all the filters leave, in the order asked for."""
    where = Asked(campaign_id, states, lever, proposer, text).conditions()
    total = session.scalar(select(func.count()).select_from(Hypothesis).where(*where)) or 0
    order = _order(sort, reverse)
    chosen = select(Hypothesis.id).where(*where)
    if sort is HypothesisSort.MEASURED:
        first = _first_verdicts()
        chosen = chosen.outerjoin(first, first.c.hypothesis_id == Hypothesis.id).outerjoin(
            Verdict, Verdict.id == first.c.verdict_id
        )
    numbers = session.scalars(chosen.order_by(*order).limit(limit).offset(offset)).all()
    found = {
        row.Hypothesis.id: HypothesisRow(**row_fields(row))
        for row in session.execute(_rows().where(Hypothesis.id.in_(numbers)))
    }
    testing = [number for number in numbers if found[number].state is HypothesisState.TESTING]
    for number, told in left_alone(session, testing).items():
        found[number] = found[number].model_copy(update=told._asdict())
    supported = [number for number in numbers if found[number].state is HypothesisState.SUPPORTED]
    for number, doubt in doubts_of_supported(session, {each: found[each] for each in supported}).items():
        found[number] = found[number].model_copy(update={"doubt": doubt})
    return _Page(
        items=tuple(found[number] for number in numbers),
        total=total,
        limit=limit,
        offset=offset,
    )


def doubts_of_supported(session: Session, rows: Mapping[int, HypothesisRow]) -> dict[int, str]:
    """What speaks by now against these hypotheses, by their ids, of those of which it does."""
    tests = {number: row.experiment for number, row in rows.items() if row.experiment is not None}
    ids = {label: parse_label_of(Noun.EXPERIMENT, label) for label in tests.values()}
    found = shaken(session, ids.values())
    return {number: found[ids[label]] for number, label in tests.items() if ids[label] in found}


def facets(session: Session, campaign_id: int | None = None) -> FacetsView:
    """Return what there is to choose from, of a campaign or of all; one statement."""
    columns = (Hypothesis.state, Hypothesis.lever, Hypothesis.proposer)
    query = select(*columns, func.count()).group_by(Hypothesis.campaign_id, *columns)  # as an index has them
    states: dict[str, int] = {}
    levers: dict[str, int] = {}
    proposers: dict[str, int] = {}
    for state, lever, proposer, count in session.execute(query.where(*Asked(campaign_id).conditions())):
        _add(states, state.value, count)
        _add(proposers, proposer, count)
        for each in lever.split(LEVER_JOINT):
            _add(levers, each, count)
    return FacetsView(
        states=states, levers=dict(sorted(levers.items())), proposers=dict(sorted(proposers.items()))
    )


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


def _numbered(words: str) -> int | None:
    """The id that a text names as a label does; None where it does not."""
    try:
        return parse_label_of(Noun.HYPOTHESIS, words)
    except UsageError:
        return None


def _order(sort: HypothesisSort, reverse: bool) -> tuple[ColumnElement[Any], ...]:
    """Columns to order by, the id last, so that the order is whole."""
    if sort is HypothesisSort.STANDING:
        standing: ColumnElement[Any] = case(
            {state: place for place, state in enumerate(_STATES_IN_ORDER)}, value=Hypothesis.state, else_=9
        )
        order = (standing.asc(), Hypothesis.rank.asc().nulls_last(), Hypothesis.state_changed_at.desc())
        turned = (standing.desc(), Hypothesis.rank.desc().nulls_last(), Hypothesis.state_changed_at.asc())
        return (*(turned if reverse else order), _by_id(reverse))
    column: Mapping[HypothesisSort, Any] = {
        HypothesisSort.CHANGED: Hypothesis.state_changed_at,
        HypothesisSort.NUMBER: Hypothesis.id,
        HypothesisSort.PREDICTED: Hypothesis.prediction["log_ratio_mean"].as_float(),
        HypothesisSort.MEASURED: Verdict.effect_log,
    }
    newest_first = sort in (HypothesisSort.CHANGED, HypothesisSort.NUMBER)
    by = column[sort]
    return ((by.desc() if newest_first != reverse else by.asc()).nulls_last(), _by_id(reverse))


def _by_id(reverse: bool) -> ColumnElement[Any]:
    return Hypothesis.id.asc() if reverse else Hypothesis.id.desc()


def _first_verdicts() -> Any:
    """The verdict of each hypothesis' first experiment of its own."""
    return (
        select(Verdict.hypothesis_id, func.min(Verdict.id).label("verdict_id"))
        .where(Verdict.hypothesis_id.is_not(None))
        .group_by(Verdict.hypothesis_id)
        .subquery()
    )


def with_verdict(query: Select[Any]) -> Select[Any]:
    """Add to hypotheses both configurations, the verdict of the first experiment of its own, and of what kind
    its campaign's weights are."""
    return (
        query.join(CONTROL, CONTROL.id == Hypothesis.control_configuration_id)
        .join(CANDIDATE, CANDIDATE.id == Hypothesis.candidate_configuration_id)
        .join(_CAMPAIGN, _CAMPAIGN.id == Hypothesis.campaign_id)
        .outerjoin(Verdict, Verdict.id == FIRST_VERDICT)
        .add_columns(
            CONTROL.knobs.label("control_knobs"),
            CANDIDATE.knobs.label("candidate_knobs"),
            _CAMPAIGN.spec["weights"].as_string().label("weights"),
            Verdict,
        )
    )


def row_fields(row: Any) -> dict[str, Any]:
    """Return the fields of a row from what a query `with_verdict` gave."""
    hypothesis: Hypothesis = row.Hypothesis
    verdict: Verdict | None = row.Verdict
    return {
        "id": hypothesis_label(hypothesis.id),
        "campaign": format_label(Noun.CAMPAIGN, hypothesis.campaign_id),
        "claim": hypothesis.claim,
        "state": hypothesis.state,
        "state_reason": hypothesis.state_reason,
        "lever": hypothesis.lever,
        "metric": hypothesis.metric,
        "change": changes_between(row.control_knobs, row.candidate_knobs),
        "predicted": prediction_view(hypothesis.prediction, hypothesis.metric),
        "measured": None if verdict is None else verdict_effect(verdict),
        "verdict_reason": None if verdict is None else verdict.reason,
        "experiment": None if verdict is None else format_label(Noun.EXPERIMENT, verdict.experiment_id),
        "min_effect": hypothesis.min_effect,
        "proposer": hypothesis.proposer,
        "pinned": hypothesis.pinned,
        "rank": hypothesis.rank,
        "rank_reason": hypothesis.rank_reason,
        "latency_only": latency_only({"weights": row.weights}),
        "created_at": hypothesis.created_at,
        "state_changed_at": hypothesis.state_changed_at,
    }


_SHOWN = (
    Hypothesis.campaign_id,
    Hypothesis.claim,
    Hypothesis.state,
    Hypothesis.state_reason,
    Hypothesis.lever,
    Hypothesis.metric,
    Hypothesis.prediction,
    Hypothesis.min_effect,
    Hypothesis.proposer,
    Hypothesis.pinned,
    Hypothesis.rank,
    Hypothesis.rank_reason,
    Hypothesis.created_at,
    Hypothesis.state_changed_at,
)
_SHOWN_OF_VERDICT = (
    Verdict.experiment_id,
    Verdict.effect_log,
    Verdict.interval_low_log,
    Verdict.interval_high_log,
    Verdict.reason,
    Verdict.judge,
)
"""What `row_fields` reads: the others are long, and JSON takes time to be read."""


@cache
def _rows() -> Select[Any]:
    """Lines of hypotheses, to be narrowed; built once, for that takes as long as running it."""
    return with_verdict(select(Hypothesis)).options(load_only(*_SHOWN), load_only(*_SHOWN_OF_VERDICT))


def hypothesis_label(hypothesis_id: int) -> str:
    """Return the label of a hypothesis."""
    return format_label(Noun.HYPOTHESIS, hypothesis_id)
