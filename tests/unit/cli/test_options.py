from hypothesis import given
from hypothesis import strategies as st

from cli.console.options import VALUED_GLOBALS, hoist_globals, wants_json

words = st.sampled_from(
    [
        "queue",
        "--json",
        "--limit",
        "3",
        "x y",
        "--",
        "--debug",
        "--db",
        "u",
        "--db=u",
        "--data-dir",
        "d",
        "--config=f",
    ]
)


def test_globals_after_a_command_come_to_the_front() -> None:
    assert hoist_globals(["queue", "--db", "URL", "--limit", "3", "--debug", "--data-dir=D"]) == [
        "--db",
        "URL",
        "--debug",
        "--data-dir=D",
        "queue",
        "--limit",
        "3",
    ]


def test_what_follows_two_dashes_stays() -> None:
    assert hoist_globals(["note", "--", "--db", "is no option here"]) == [
        "note",
        "--",
        "--db",
        "is no option here",
    ]


@given(st.lists(words))
def test_hoisting_loses_nothing_adds_nothing_and_keeps_the_order_of_the_rest(line: list[str]) -> None:
    hoisted = hoist_globals(line)
    assert sorted(hoisted) == sorted(line)
    assert hoist_globals(hoisted) == hoisted
    rest = [word for word in line if word not in ("--debug", *VALUED_GLOBALS) and "=" not in word]
    kept = iter(word for word in hoisted)
    if not any(word in VALUED_GLOBALS for word in line) and "--" not in line:
        assert all(word in kept for word in rest)  # a subsequence, in order


def test_json_is_asked_for_only_before_two_dashes() -> None:
    assert wants_json(["queue", "--json"])
    assert not wants_json(["note", "--", "--json"])
