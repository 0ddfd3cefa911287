"""May a verdict be believed? Each ground for it as a check that holds, fails or is open. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from db.states import VerdictOutcome
from experiments.rejudging import ALIKE, ANOTHER
from knowledge.figures import listed, signed
from knowledge.queries.found.fresh_runs import FreshView
from knowledge.queries.measured.experiment_detail import ExperimentDetail
from knowledge.queries.measured.quality_tests import QualityTestView
from knowledge.queries.view import View
from knowledge.replication import Agreement

DIGITS = 8
"""Hexadecimal digits of a hash that a check shows."""


class CheckState(StrEnum):
    """Whether a ground holds; `open` where nothing tells."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


class CheckView(View):
    """One ground to believe a verdict, as a claim, with what it rests on."""

    claim: str
    state: CheckState
    because: str


def checks_of(
    detail: ExperimentDetail,
    pair_effects: Sequence[float],
    tests: Sequence[QualityTestView],
) -> tuple[CheckView, ...]:
    """Return the grounds for the verdict of a test; none where nothing was judged.

    `pair_effects` are the effects of the launch pairs in per cent.
    """
    if detail.verdict is None or detail.candidate is None:
        return ()
    found = [_registered(detail), *_judged_again(detail), _differs(detail)]
    if pair_effects:
        found.append(_agree(pair_effects))
    if detail.level is not None and detail.level.e_value is not None:
        found.append(_level(detail))
    found.append(_quality(detail, tests))
    found.append(_reproduced(detail))
    return tuple(found)


def _registered(detail: ExperimentDetail) -> CheckView:
    digest = detail.preregistration_digest
    if digest is None:
        return CheckView(
            claim="Registered before the first sample", state=CheckState.FAILS, because="no plan was sealed"
        )
    if detail.changed_since_sealed is not None:
        return CheckView(
            claim="Registered before the first sample",
            state=CheckState.FAILS,
            because=detail.changed_since_sealed,
        )
    return CheckView(
        claim="Registered before the first sample",
        state=CheckState.HOLDS,
        because=f"plan {digest[:DIGITS]}, unchanged since",
    )


def _judged_again(detail: ExperimentDetail) -> Sequence[CheckView]:
    """What the judge says of the stored samples now, where it was asked again."""
    if detail.judged_again is None:
        return ()
    again = detail.judged_again
    state = CheckState.HOLDS if ALIKE in again else CheckState.FAILS if ANOTHER in again else CheckState.OPEN
    return (CheckView(claim="The installed judge agrees", state=state, because=again),)


def _differs(detail: ExperimentDetail) -> CheckView:
    claim = "The arms differ only by the claim"
    assert detail.verdict is not None
    confounders = detail.verdict.judge.get("confounders")
    if detail.outcome is VerdictOutcome.CONFOUNDED or confounders:
        names = confounders if isinstance(confounders, list) else []
        told = listed([str(each.get("key", each)) if isinstance(each, dict) else str(each) for each in names])
        return CheckView(claim=claim, state=CheckState.FAILS, because=told or detail.verdict.reason)
    if not detail.launches:
        return CheckView(claim=claim, state=CheckState.OPEN, because="nothing was launched")
    names = [each.name for each in detail.resolved_differences]
    because = f"resolved: {listed(names)}" if names else "nothing that both arms resolved differs"
    return CheckView(claim=claim, state=CheckState.HOLDS, because=because)


def _agree(effects: Sequence[float]) -> CheckView:
    told = f"{listed([signed(each) for each in effects])} %"
    if len(effects) == 1:
        return CheckView(claim="Fresh launch pairs agree", state=CheckState.OPEN, because=f"one pair: {told}")
    agree = all(each < 0 for each in effects) or all(each > 0 for each in effects)
    return CheckView(
        claim=f"{len(effects)} fresh launch pairs agree on the direction",
        state=CheckState.HOLDS if agree else CheckState.FAILS,
        because=told,
    )


def _level(detail: ExperimentDetail) -> CheckView:
    level = detail.level
    assert level is not None
    assert level.e_value is not None
    supported = detail.outcome is VerdictOutcome.SUPPORTED
    reached = level.e_value >= level.e_value_needed
    state = CheckState.HOLDS if reached else CheckState.FAILS if supported else CheckState.OPEN
    return CheckView(
        claim="Evidence beyond what the campaign's online control asks for",
        state=state,
        because=f"e-value {level.e_value:.3g}, {level.e_value_needed:.3g} needed as test {level.test}",
    )


def _quality(detail: ExperimentDetail, tests: Sequence[QualityTestView]) -> CheckView:
    assert detail.verdict is not None
    state = str((detail.verdict.quality or {}).get("state", "not measured"))
    told = ", ".join(f"{each.name} {each.state}" for each in tests)
    return CheckView(
        claim="Quality held",
        state={"held": CheckState.HOLDS, "worse": CheckState.FAILS}.get(state, CheckState.OPEN),
        because=told or state,
    )


def _reproduced(detail: ExperimentDetail) -> CheckView:
    if detail.reproduces is not None:
        return CheckView(
            claim="A rerun in the same campaign",
            state=CheckState.HOLDS,
            because=f"{detail.reproduces} again, in fresh processes",
        )
    if not detail.fresh_runs:
        because = "runs again now" if detail.reproduced_by else "not run again yet"
        return CheckView(claim="Reproduced", state=CheckState.OPEN, because=because)
    told = listed([f"{each.experiment} {_said(each)}" for each in detail.fresh_runs])
    said = {each.agreement for each in detail.fresh_runs}
    state = (
        CheckState.FAILS
        if Agreement.DIFFERS in said
        else CheckState.HOLDS
        if said == {Agreement.AGREES}
        else CheckState.OPEN
    )
    return CheckView(claim="Reproduced", state=state, because=told)


def _said(fresh: FreshView) -> str:
    """What a fresh run said: its outcome where it agrees, and else what that means."""
    if fresh.agreement is Agreement.AGREES:
        return fresh.outcome.value
    return "differs" if fresh.agreement is Agreement.DIFFERS else "leaves it open"
