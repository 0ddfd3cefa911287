"""The stream of tests of a campaign: at which level each could be supported, and what that bounds.

A test belongs to the *stream* when its plan was sealed with a level of support. All tests of hypotheses on
time do, whoever proposed them. Not in it: baselines and noise runs, which claim nothing; reproductions, which
can't make anything supported; claims on quality and bytes, which have no e-value and are told apart; and
tests from before there was such a control.

A supported claim may be false in two ways: what it claims is not so, or the quality that it must keep is
worse than a margin. The control is of the first alone, so both are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, fsum, log10

from sqlalchemy import case, func, select, text
from sqlalchemy.orm import Session

from db.models import Experiment, Verdict
from db.states import ExperimentKind, VerdictOutcome
from experiments.measurement.evidence import TIMED_METRICS, Metric
from knowledge.figures import counted
from knowledge.queries.view import View
from knowledge.stored import metric_of, number

SCORED_SHARE = 0.25
"""Share of alpha at which a claim on quality is supported: its second look alone, at one side
(`agent.judge.scored_claim`)."""

_TIMED = frozenset(metric.value for metric in TIMED_METRICS)


@dataclass(frozen=True)
class DispatchedTest:
    """One dispatched test: `support_alpha` is its level in the stream, None outside it; `guarded`: its
    quality was looked at."""

    experiment_id: int
    metric: str
    alpha: float
    support_alpha: float | None
    supported: bool
    guarded: bool = False


@dataclass(frozen=True)
class Tally:
    """So many tests that are alike; `spent_alpha` is the sum of their levels in the stream, None outside."""

    metric: str
    alpha: float
    supported: bool
    guarded: bool
    tests: int
    spent_alpha: float | None


class GuardView(View):
    """The guard of quality: `checked` tests whose quality was looked at, each of which lets one that is worse
    than a margin pass with a chance of alpha at most; `expected_false`, the sum of these and never more than
    the supported, bounds the expected number of supported ones whose quality is worse."""

    checked: int
    expected_false: float


class DiscoveryView(View):
    """What the online control says of a campaign.

    `tests` and `supported` count the stream; `expected_false` bounds the expected number of supported ones
    whose time is false: the lesser of alpha times `supported` and the sum of the levels spent. `quality` is
    what their guard may have let pass, which no online control bounds. `outside` is what is not in the
    stream.
    """

    procedure: str
    alpha: float
    tests: int
    supported: int
    spent_alpha: float
    expected_false: float
    quality: GuardView
    outside: OutsideView


class OutsideView(View):
    """Tests outside the stream, each at a level of its own: how many, how many of them are supported, and the
    sum of their levels, which bounds the expected number of those that are false in what they claim. Bytes
    are counted, so that claim adds nothing to it; its guard is one like the others."""

    tests: int
    supported: int
    expected_false: float
    quality: GuardView


class LevelView(View):
    """The level of one test: the `test`-th of its campaign's stream, supported from an e-value of
    `e_value_needed` on; `e_value` is what the judge found, None where it found none."""

    test: int
    support_alpha: float
    e_value_needed: float
    e_value: float | None


PROCEDURE = "e-LOND"
"""What sets the levels (`agent.discovery.e_lond`)."""

ON_AVERAGE = "on average over campaigns like this"
"""What the bounds are of: none is one given what this campaign found."""

IF_CHOSEN_BLINDLY = "if chosen without regard to earlier scores"
"""What the bound of claims that are scored asks, for all are scored on the same documents and items."""

UNGUARDED = (None, "not measured", "not known")
"""States of the quality in a verdict where nothing was scored: not yet, or of made-up weights
(`agent.judge.quality`)."""


def tests_of(session: Session, campaign_ids: Sequence[int]) -> Mapping[int, tuple[DispatchedTest, ...]]:
    """The dispatched tests of hypotheses, oldest first, by campaign; one statement."""
    query = (
        select(
            Experiment.campaign_id,
            Experiment.id,
            Experiment.plan["metric"].as_string(),
            Experiment.plan["alpha"].as_float(),
            Experiment.plan["support_alpha"].as_float(),
            Verdict.outcome,
            Verdict.quality["state"].as_string(),
        )
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.campaign_id.in_(campaign_ids), Experiment.kind == ExperimentKind.TEST)
        .order_by(Experiment.id)
    )
    found: dict[int, list[DispatchedTest]] = defaultdict(list)
    for campaign_id, experiment_id, metric, alpha, support_alpha, outcome, quality in session.execute(query):
        found[campaign_id].append(
            DispatchedTest(
                experiment_id,
                metric_of({} if metric is None else {"metric": metric}),
                alpha or 0.0,
                support_alpha,
                outcome is VerdictOutcome.SUPPORTED,
                quality not in UNGUARDED,
            )
        )
    return {each: tuple(found[each]) for each in campaign_ids}


def tallies_of(session: Session, campaign_ids: Sequence[int]) -> Mapping[int, tuple[Tally, ...]]:
    """The tests of `tests_of`, counted by the database: for pages, however many there are; one statement."""
    each = (
        select(
            Experiment.campaign_id,
            Experiment.plan["metric"].as_string().label("metric"),
            Experiment.plan["alpha"].as_float().label("alpha"),
            Experiment.plan["support_alpha"].as_float().label("support_alpha"),
            Verdict.outcome,
            Verdict.quality["state"].as_string().label("quality"),
        )
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.campaign_id.in_(campaign_ids), Experiment.kind == ExperimentKind.TEST)
        .subquery()
    ).c
    streamed = case((each.support_alpha.is_(None), 0), else_=1).label("streamed")
    alike = (each.campaign_id, each.metric, each.alpha, each.outcome, each.quality)
    query = select(*alike, func.count(), func.sum(each.support_alpha), streamed).group_by(
        *alike, text("streamed")
    )
    found: dict[int, list[Tally]] = defaultdict(list)
    for campaign_id, metric, alpha, outcome, quality, tests, spent_alpha, _ in session.execute(query):
        found[campaign_id].append(
            Tally(
                metric_of({} if metric is None else {"metric": metric}),
                alpha or 0.0,
                outcome is VerdictOutcome.SUPPORTED,
                quality not in UNGUARDED,
                tests,
                spent_alpha,
            )
        )
    return {each: tuple(found[each]) for each in campaign_ids}


def discovery_view(tested: Sequence[DispatchedTest], alpha: float) -> DiscoveryView:
    """What the levels of these tests bound; pure."""
    return tallied_view(
        [
            Tally(each.metric, each.alpha, each.supported, each.guarded, 1, each.support_alpha)
            for each in tested
        ],
        alpha,
    )


def tallied_view(tallies: Sequence[Tally], alpha: float) -> DiscoveryView:
    """The same of tests that were counted; pure."""
    stream = [each for each in tallies if each.spent_alpha is not None]
    supported = _supported(stream)
    beside = [each for each in tallies if each.spent_alpha is None]
    estimated = [each for each in beside if each.metric != Metric.STEP_WEIGHT_BYTES.value]
    own_levels = [
        each.tests * each.alpha * (1 if each.metric in _TIMED else SCORED_SHARE) for each in estimated
    ]
    spent = fsum(each.spent_alpha for each in stream if each.spent_alpha is not None)
    return DiscoveryView(
        procedure=PROCEDURE,
        alpha=alpha,
        tests=_tests(stream),
        supported=supported,
        spent_alpha=spent,
        expected_false=min(alpha * supported, spent),
        quality=_guard(stream),
        outside=OutsideView(
            tests=_tests(beside),
            supported=_supported(beside),
            expected_false=min(float(_supported(estimated)), fsum(own_levels)),
            quality=_guard(beside),
        ),
    )


def _tests(tallies: Sequence[Tally]) -> int:
    return sum(each.tests for each in tallies)


def _supported(tallies: Sequence[Tally]) -> int:
    return _tests([each for each in tallies if each.supported])


def _guard(tallies: Sequence[Tally]) -> GuardView:
    """A guard that lets too many pass does so before anybody knows what is supported: each that was asked
    counts, not those alone that came to be supported."""
    guarded = [each for each in tallies if each.guarded]
    levels = [each.tests * each.alpha for each in guarded]
    return GuardView(checked=_tests(guarded), expected_false=min(float(_supported(tallies)), fsum(levels)))


def level_of(session: Session, experiment: Experiment, details: Mapping[str, object]) -> LevelView | None:
    """The level of an experiment of the stream, with the e-value of its verdict's `details`; else None.

    A reproduction runs under the plan of the original, and so at its level, and has no place of its own.
    """
    support_alpha = number(experiment.plan.get("support_alpha"))
    if support_alpha is None:
        return None
    place = (
        select(func.count())
        .select_from(Experiment)
        .where(
            Experiment.campaign_id == experiment.campaign_id,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.id <= (experiment.reproduces_experiment_id or experiment.id),
            Experiment.plan["support_alpha"].as_float().is_not(None),
        )
    )
    return LevelView(
        test=session.scalar(place) or 0,
        support_alpha=support_alpha,
        e_value_needed=1 / support_alpha,
        e_value=number(details.get("e_value")),
    )


def discovery_sentence(found: DiscoveryView) -> str | None:
    """What a person is told of the supported on time; None where there is none."""
    if not found.supported:
        return None
    be, their = _verb(found.supported)
    return (
        f"at most {_count(found.expected_false)} of the {found.supported} supported on time {be} expected to "
        f"be false in {their} time (online control at {100 * found.alpha:g} %, of the time alone)"
        f"{_quality_words(found.quality, their, found.alpha)}, {ON_AVERAGE}"
    )


def outside_sentence(found: DiscoveryView) -> str | None:
    """The same for what is not in the stream, such as claims on bits; None where none of it is supported."""
    outside = found.outside
    if not outside.supported:
        return None
    if not found.supported:
        be, their = _verb(outside.supported)
        quality = _quality_words(outside.quality, their, found.alpha)
        return (
            f"at most {_count(outside.expected_false)} of the {outside.supported} supported {be} expected to "
            f"be false in {their} claim (each at a level of its own, without online control){quality}, "
            f"{ON_AVERAGE} {IF_CHOSEN_BLINDLY}"
        )
    quality = _quality_words(outside.quality, "their", found.alpha)
    return (
        f"{counted(outside.supported, 'other claim is', 'other claims are')} supported outside this control, "
        f"each at a level of its own: at most {_count(outside.expected_false)} of them expected to be false "
        f"in their claim ({outside.tests} tested){quality}, {ON_AVERAGE} {IF_CHOSEN_BLINDLY}"
    )


def _quality_words(found: GuardView, their: str, alpha: float) -> str:
    """What the guard adds; a claim may have none, where its campaign scores nothing beside it."""
    if not found.checked:
        return "; no quality was checked"
    each = " each" if found.checked > 1 else ""
    return (
        f" and {_count(found.expected_false)} in {their} quality ({found.checked} checked at "
        f"{100 * alpha:g} %{each})"
    )


def _verb(count: int) -> tuple[str, str]:
    return ("is", "its") if count == 1 else ("are", "their")


def _count(value: float) -> str:
    """A count that may be a fraction, rounded up to two figures, so that it stays a bound."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (floor(log10(value)) - 1)
    return f"{ceil(value / unit - 1e-9) * unit:.6g}"
