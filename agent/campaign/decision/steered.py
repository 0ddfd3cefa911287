"""What steering asks of the campaign's facts: how much each lever has used, what settles a question, and
which disputes between findings have their turn. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence

from agent.campaign.known.facts import Facts, Queued
from agent.ranking.shares import is_used_up
from agent.ranking.values import DISPUTE_EVERY, Directive, Used
from db.labels import Noun, format_label
from db.states import DirectiveKind
from experiments.space.configuration import Configuration
from experiments.space.space import Space
from knowledge.acts.allowances import ALLOTTING


def used_by(
    facts: Facts, space: Space, directives: Sequence[Directive], cost_s: Callable[[Configuration], float]
) -> Used:
    """What the campaign's tests have used by lever: those that have a verdict, with the seconds that they
    took, and those under test, with what `cost_s` expects of them. Nothing where no directive asks."""
    if not any(each.kind in ALLOTTING for each in directives):
        return Used()
    tests = [(each.control, each.candidate, each.cost_s) for each in facts.trials]
    tests += [(control, candidate, cost_s(candidate)) for control, candidate in facts.flying]
    counts, seconds = Counter[str](), defaultdict[str, float](float)
    for control, candidate, took_s in tests:
        for lever in space.levers_between(control, candidate):
            counts[lever] += 1
            seconds[lever] += took_s
    return Used(len(tests), counts, seconds)


def used_up(directives: Sequence[Directive], used: Used) -> frozenset[str]:
    """The levers of which a cap lets nothing more run, so that nothing need be proposed of them."""
    caps = [each for each in directives if each.kind == DirectiveKind.CAP and is_used_up(each, used)]
    return frozenset(each.lever for each in caps if each.lever is not None)


def disputes_in_turn(facts: Facts, banned: Collection[str]) -> tuple[int, ...]:
    """The hypotheses that take a dispute between findings apart and change no `banned` lever, the oldest
    first, where it is such a test's turn: of `DISPUTE_EVERY` tests one, once the others have been."""
    waiting = [each.id for each in waiting_disputes(facts, banned)]
    tests = len(facts.trials) + len(facts.flying)
    if (facts.disputes_tested + 1) * DISPUTE_EVERY > tests + 1:
        return ()
    return tuple(sorted(waiting))


def waiting_disputes(facts: Facts, banned: Collection[str]) -> list[Queued]:
    """What waits to take a dispute between findings apart and changes no `banned` lever."""
    return [each for each in facts.queue if each.disputes and not set(each.lever.split("+")) & set(banned)]


def settling(facts: Facts, directives: Sequence[Directive]) -> dict[int, str]:
    """What in the queue settles the question of the night: the hypothesis itself, and what separates the
    causes of its confounded tests; each with the label of the question."""
    asked = [each for each in directives if each.kind == DirectiveKind.QUESTION]
    if not asked:
        return {}
    about = max(asked, key=lambda each: each.event_id).hypothesis_id
    if about is None:
        return {}
    tests = {
        format_label(Noun.EXPERIMENT, each.experiment_id)
        for each in facts.trials
        if each.hypothesis_id == about
    }
    label = format_label(Noun.HYPOTHESIS, about)
    return {
        each.id: label
        for each in facts.queue
        if about in (each.id, each.stands_for) or each.separates in tests
    }
