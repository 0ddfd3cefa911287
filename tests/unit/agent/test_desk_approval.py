"""What the desk chooses where the user is asked first: what waits holds up nothing but itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.campaign.decision.choosing import choose
from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Queued
from agent.campaign.queue.order import QUEUE_TARGET, proposals
from agent.proposers.confirmation import PROPOSER as CONFIRMATION
from agent.proposers.dedupe import Earlier, refusal
from agent.proposers.port import Trial
from agent.ranking.values import Directive
from configs.campaign import ApprovalSpec
from db.states import DirectiveKind, HypothesisState
from experiments.measurement.judging import Outcome
from tests.unit.agent.test_desk import BASELINE, COMPILED, PRUNED, SPACE, desk, queued, trial

LEFT_S = 4000.0
THREADS = SPACE.with_change(BASELINE, {"serving.threads": 2})
JUDGED = trial(9, BASELINE, THREADS, Outcome.REFUTED, 0.0)
BOTH = SPACE.with_change(COMPILED, {"serving.threads": 2})
CHAIN = (
    trial(1, BASELINE, COMPILED, Outcome.SUPPORTED, -0.5),
    trial(2, COMPILED, BOTH, Outcome.SUPPORTED, -0.1),
)


def asking(above_s: float, *queue: Queued, trials: tuple[Trial, ...] = (JUDGED,), approved: int = 0) -> Desk:
    found = desk(*queue, trials=trials)
    spec = found.facts.spec.model_copy(update={"approve_above": ApprovalSpec(wall_s=above_s)})
    given = (
        [Directive(DirectiveKind.APPROVAL, 41, "you", "12:03", hypothesis_id=approved)] if approved else []
    )
    measured = replace(found.baseline, load_s=6.0)
    return replace(found, facts=replace(found.facts, spec=spec), directives=given, baseline=measured)


def cost_s(number: int, *queue: Queued) -> float:
    places = asking(1.0, *queue).ranking.places
    return next(place.cost_s for place in places if place.hypothesis_id == number)


def between(*queue: Queued) -> float:
    """A term that lets the second in order run unasked and not the first."""
    first, second = (place.cost_s for place in asking(1.0, *queue).ranking.places)
    assert second < first, "the scene needs a first that costs more"
    return (first + second) / 2


QUEUE = (queued(1, COMPILED), queued(2, PRUNED))


def test_what_waits_does_not_hold_up_what_comes_behind_it() -> None:
    choice = choose(asking(between(*QUEUE), *QUEUE), LEFT_S)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 2
    assert choice.reason == "taken before H-001, which waits for approval"


def test_what_is_approved_goes_in_its_place() -> None:
    choice = choose(asking(between(*QUEUE), *QUEUE, approved=1), LEFT_S)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 1


def test_where_only_what_waits_is_left_the_campaign_waits_with_the_quote() -> None:
    choice = choose(asking(1.0, *QUEUE), LEFT_S)
    assert (choice.hypothesis, choice.draft) == (None, None)
    assert choice.waits == (1, 2)
    assert choice.reason.startswith(
        "nothing is left but what waits for your approval: H-001 (expected to take "
    )
    assert choice.reason.endswith("if all of its plan is measured) and 1 more")


def test_what_the_budget_does_not_bear_is_not_waited_for() -> None:
    choice = choose(asking(1.0, *QUEUE), 5.0)
    assert choice.waits == ()
    assert "nearly spent" in choice.reason


def test_the_quote_is_at_least_what_is_expected() -> None:
    for place in asking(1.0, *QUEUE).ranking.places:
        assert place.most_s is not None
        assert place.most_s >= place.cost_s


def test_nothing_is_quoted_where_nobody_is_asked() -> None:
    assert all(place.most_s is None for place in desk(*QUEUE).ranking.places)


def test_a_confirmation_that_costs_too_much_is_put_into_the_queue_to_be_approved() -> None:
    choice = choose(asking(1.0, trials=CHAIN), LEFT_S)
    assert choice.draft is not None
    assert choice.asks
    assert not choose(asking(LEFT_S, trials=CHAIN), LEFT_S).asks


def test_a_confirmation_in_the_queue_is_waited_for_and_run_once_approved() -> None:
    last = replace(queued(7, BOTH), proposer=CONFIRMATION)
    assert choose(asking(1.0, last, trials=CHAIN), LEFT_S).waits == (7,)
    choice = choose(asking(1.0, last, trials=CHAIN, approved=7), LEFT_S)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 7


def test_a_confirmation_in_the_queue_leaves_with_the_best_that_it_confirms() -> None:
    last = replace(queued(7, COMPILED), proposer=CONFIRMATION)
    assert "is the best now" in asking(1.0, last, trials=CHAIN).leaving[7]
    assert asking(1.0, replace(last, candidate=BOTH), trials=CHAIN).leaving == {}


def chain_with(state: HypothesisState) -> Desk:
    """The best stands on two steps, and their sum was proposed against the baseline before."""
    found = asking(LEFT_S, trials=CHAIN)
    before = (BASELINE.digest, BOTH.digest, state)
    return replace(found, facts=replace(found.facts, proposed=(before,)))


def test_what_was_withdrawn_for_a_step_on_the_way_is_confirmed_at_the_end() -> None:
    draft = choose(chain_with(HypothesisState.WITHDRAWN), LEFT_S).draft
    assert draft is not None
    assert (draft.control, draft.candidate) == (BASELINE, BOTH)
    earlier = Earlier(4, BASELINE.digest, BOTH.digest, "withdrawn", void=True)
    assert refusal(draft, SPACE, [earlier]) is None
    by_another = refusal(replace(draft, proposer="roofline"), SPACE, [earlier])
    assert by_another is not None
    assert by_another.duplicate_of == 4


@pytest.mark.parametrize(
    ("before", "confirmed"),
    [
        ((HypothesisState.INFEASIBLE,), False),
        ((HypothesisState.INCONCLUSIVE,), True),
        ((HypothesisState.INCONCLUSIVE, HypothesisState.INCONCLUSIVE), False),
        ((HypothesisState.SUPPORTED,), True),
    ],
    ids=["does not run", "broke once", "broke twice", "on another metric"],
)
def test_what_was_tried_is_not_confirmed_once_more(
    before: tuple[HypothesisState, ...], confirmed: bool
) -> None:
    found = asking(LEFT_S, trials=CHAIN)
    proposed = tuple((BASELINE.digest, BOTH.digest, state) for state in before)
    assert (
        choose(replace(found, facts=replace(found.facts, proposed=proposed)), LEFT_S).draft is not None
    ) == (confirmed)


def test_another_s_proposal_of_the_same_is_run_for_it_at_the_end() -> None:
    """As one that was never worth its price before."""
    twin = replace(queued(7, BOTH), pinned=False)
    choice = choose(asking(LEFT_S, twin, trials=CHAIN), LEFT_S)
    assert choice.draft is None
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 7


def test_proposers_are_asked_for_others_beside_what_waits() -> None:
    free = len(proposals(desk(*QUEUE, trials=(JUDGED,))))
    assert len(proposals(asking(1.0, *QUEUE))) >= free
    assert free <= QUEUE_TARGET
