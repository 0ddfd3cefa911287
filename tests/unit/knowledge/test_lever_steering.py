"""Caps and minimum shares: given, replaced, lifted, and refused where they contradict what holds."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from configs.errors import UsageError
from db.models import Directive, Event
from db.states import DirectiveKind, VerdictOutcome
from knowledge.acts import lever_steering, night
from knowledge.acts.allowances import Allowance, parse_least, parse_most
from knowledge.acts.directives import stored_allowance
from knowledge.queries.order.lever_use import lever_use
from tests.history.campaign_history import History

LEVERS = ("threads", "dtype", "compile", "pruning")
BAN, BOOST, CAP, FOCUS, RESERVE = (
    DirectiveKind.BAN,
    DirectiveKind.BOOST,
    DirectiveKind.CAP,
    DirectiveKind.FOCUS,
    DirectiveKind.RESERVE,
)


def give(history: History, kind: DirectiveKind, lever: str, amount: str | None = None) -> Directive:
    parse = {CAP: parse_most, RESERVE: parse_least}.get(kind)
    allowance = None if parse is None or amount is None else parse(amount)
    with history.database.write() as session:
        return lever_steering.give_directive(session, 1, kind, lever, LEVERS, allowance)


def holding(history: History) -> list[tuple[str, str | None, str]]:
    with history.database.read() as session:
        rows = session.scalars(select(Directive).where(Directive.active).order_by(Directive.id))
        return [(each.kind.value, each.lever, stored_allowance(each).words) for each in rows]


@pytest.mark.parametrize(
    ("text", "allowance", "words"),
    [
        ("3", Allowance(tests=3), "3 tests"),
        ("1", Allowance(tests=1), "1 test"),
        (" 20m ", Allowance(time_s=1200.0), "20 min"),
        ("1h30m", Allowance(time_s=5400.0), "1 h 30 min"),
        ("30%", Allowance(share=0.3), "30 % of all tests"),
        ("12.5 %", Allowance(share=0.125), "12.5 % of all tests"),
    ],
)
def test_a_cap_is_of_tests_of_time_or_of_a_share(text: str, allowance: Allowance, words: str) -> None:
    found = parse_most(text)
    assert found == allowance
    assert found.words == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "no test at all is a ban"),
        ("9" * 30, "are more than any cap"),
        ("100%", "is none"),
        ("0%", "lets nothing run"),
        ("-5%", "lets nothing run"),
        ("nan%", "not a percentage"),
        ("three", "neither a number of tests, nor a time, nor a share"),
        ("-3", "neither a number of tests"),
        ("1.5", "neither a number of tests"),
        ("٣", "neither a number of tests"),
        ("", "neither a number of tests"),
    ],
)
def test_a_cap_that_is_none_is_refused_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_most(text)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["0%", "101%", "-1%", "3", "20m", ""])
def test_a_minimum_share_is_a_share_above_none_and_of_all_at_most(text: str) -> None:
    with pytest.raises(UsageError):
        parse_least(text)
    assert parse_least("100%") == Allowance(share=1.0)


def test_a_cap_is_stored_with_its_amount_and_told_with_the_event_that_is_cited(history: History) -> None:
    given = give(history, CAP, "pruning", "20m")
    with history.database.read() as session:
        event = session.get_one(Event, given.event_id)
    assert (event.kind, event.text) == ("directive.given", "Give pruning at most 20 min.")
    assert given.value == {"time_s": 1200.0}


def test_a_later_amount_replaces_the_earlier_and_the_same_is_given_once(history: History) -> None:
    first = give(history, CAP, "pruning", "3")
    assert give(history, CAP, "pruning", "3").id == first.id
    give(history, CAP, "pruning", "30%")
    give(history, RESERVE, "dtype", "20%")
    give(history, RESERVE, "dtype", "40%")
    assert holding(history) == [
        ("cap", "pruning", "30 % of all tests"),
        ("reserve", "dtype", "40 % of all tests"),
    ]


def test_a_minimum_share_may_grow_into_all_tests_but_not_beyond(history: History) -> None:
    for lever, amount in (("dtype", "30%"), ("threads", "30%"), ("compile", "40%")):
        give(history, RESERVE, lever, amount)
    with pytest.raises(UsageError) as refused:
        give(history, RESERVE, "dtype", "31%")
    assert refused.value.message == (
        "The minimum shares would be more than all tests: "
        "30 % for threads + 40 % for compile + 31 % for dtype = 101 %."
    )
    assert "At most 30 % is left for dtype" in refused.value.hint
    with pytest.raises(UsageError) as refused:
        give(history, RESERVE, "pruning", "1%")
    assert refused.value.hint.startswith("Nothing is left")
    assert len(holding(history)) == 3


@pytest.mark.parametrize(
    ("other", "amount"),
    [(FOCUS, None), (BOOST, None), (CAP, "3"), (CAP, "20m"), (CAP, "30%"), (RESERVE, "30%")],
)
def test_a_ban_contradicts_all_that_is_said_of_its_lever_in_either_order(
    history: History, other: DirectiveKind, amount: str | None
) -> None:
    give(history, other, "threads", amount)
    with pytest.raises(UsageError, match=f"threads has a {other.value} .*, which a ban contradicts"):
        give(history, BAN, "threads")
    give(history, BAN, "dtype")
    with pytest.raises(UsageError, match=f"dtype has a ban .*, which a {other.value} contradicts") as refused:
        give(history, other, "dtype", amount)
    assert refused.value.hint == "Lift it first: autoinfer ban dtype --clear"


def test_a_cap_below_the_minimum_share_is_refused_in_either_order(history: History) -> None:
    give(history, RESERVE, "pruning", "30%")
    with pytest.raises(UsageError, match="at most 20 % of all tests and at least 30 % of all tests"):
        give(history, CAP, "pruning", "20%")
    give(history, CAP, "dtype", "20%")
    with pytest.raises(UsageError, match="dtype can't have at most 20 % of all tests and at least 30 %"):
        give(history, RESERVE, "dtype", "30%")
    give(history, CAP, "pruning", "30%")
    give(history, RESERVE, "dtype", "20%")
    give(history, FOCUS, "dtype")
    assert len(holding(history)) == 5


def test_a_cap_of_tests_holds_beside_a_minimum_share(history: History) -> None:
    give(history, CAP, "pruning", "2")
    give(history, RESERVE, "pruning", "30%")
    assert len(holding(history)) == 2


def test_what_changes_a_banned_lever_is_no_question_of_the_night_and_the_reverse(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    give(history, BAN, "threads")
    with (
        history.database.write() as session,
        pytest.raises(UsageError, match="threads, which is banned"),
    ):
        night.ask(session, number)
    with history.database.write() as session:
        lever_steering.lift_directives(session, 1, BAN, "threads")
        night.ask(session, number)
    with pytest.raises(UsageError, match="H-001 is the question of the night and changes threads"):
        give(history, BAN, "threads")
    give(history, BAN, "dtype")


def test_tests_are_counted_by_lever_from_those_with_a_verdict_and_those_under_way(history: History) -> None:
    one = history.propose({"serving.threads": 1})
    both = history.propose({"serving.threads": 1, "serving.dtype": "bfloat16"})
    running = history.propose({"serving.dtype": "bfloat16"})
    history.propose({"serving.compile": "default"})
    history.judge(one, VerdictOutcome.SUPPORTED)
    history.judge(both, VerdictOutcome.REFUTED)
    history.start_testing(running)
    time, tests = give(history, CAP, "threads", "20m"), give(history, RESERVE, "dtype", "30%")
    with history.database.read() as session:
        use = lever_use(session, 1)
    assert (use.tests, dict(use.of_lever)) == (3, {"threads": 2, "dtype": 2})
    assert use.words(tests) == "2 of 3 tests so far"
    assert use.words(time) == "1 min 24 s so far"
