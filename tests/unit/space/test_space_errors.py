"""What the space says to bad input: one sentence with the value, one with what to do."""

from __future__ import annotations

import pytest

from configs.errors import UsageError
from experiments.space.knob import Knob
from experiments.space.loading import load_space
from experiments.space.space import Space

REFERENCE = load_space("reference")

QUANTIZATION = Space(
    (
        Knob("quantization.method", ("none", "awq"), "none", "quantization"),
        Knob("quantization.bits", (4, 8), 4, "quantization", (("quantization.method", ("awq",)),)),
        Knob("quantization.group_size", (32, 128), 128, "quantization", (("quantization.bits", (4,)),)),
        Knob("serving.eager", (False, True), False, "graphs"),
        Knob("serving.share", (0.5, 1.0), 1.0, "memory"),
    )
)


def refusal(call: object, *args: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        call(*args)  # type: ignore[operator]
    assert caught.value.exit_code == 2
    return caught.value


def test_an_unknown_knob_is_answered_with_the_nearest_names() -> None:
    error = refusal(REFERENCE.configuration, {"serving.thread": 2})
    assert error.message == "There is no knob 'serving.thread'."
    assert error.hint == "Did you mean serving.threads?"


def test_a_knob_without_its_group_is_recognised() -> None:
    assert refusal(REFERENCE.knob, "threads").hint == "Did you mean serving.threads?"


def test_a_name_like_no_knob_is_answered_with_all_of_them() -> None:
    hint = refusal(REFERENCE.knob, "zzz").hint
    assert all(knob.name in hint for knob in REFERENCE.knobs)


@pytest.mark.parametrize(
    ("value", "shown"), [(3, "3"), (True, "true"), (2.0, "2.0"), ("2", '"2"'), ("many", "many")]
)
def test_a_value_outside_the_space_is_answered_with_the_allowed_ones(value: object, shown: str) -> None:
    error = refusal(REFERENCE.configuration, {"serving.threads": value})
    assert error.message == f"serving.threads cannot be {shown}."
    assert error.hint == "It can be 1, 2, 4, 8 or 16."


def test_contradictory_knobs_are_told_which_condition_does_not_hold() -> None:
    error = refusal(REFERENCE.configuration, {"pruning.layers_removed": 2, "pruning.method": "none"})
    assert error.message == (
        "pruning.layers_removed is set, but it only means something when pruning.method is depth, "
        "and it is none."
    )
    assert error.hint == "Set pruning.method to depth too, or leave pruning.layers_removed out."


def test_a_condition_on_an_inactive_knob_is_told_as_such() -> None:
    error = refusal(QUANTIZATION.configuration, {"quantization.group_size": 32})
    assert "when quantization.bits is 4, and it is not active itself" in error.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serving.threads", "'serving.threads' is not an assignment."),
        ("=2", "'=2' is not an assignment."),
        ("serving.threads=", "'serving.threads=' is not an assignment."),
        ("serving.threads=3", "serving.threads cannot be '3'."),
        ("serving.threads=two", "serving.threads cannot be 'two'."),
        ("serving.thread=2", "There is no knob 'serving.thread'."),
    ],
)
def test_a_malformed_assignment_is_refused(text: str, message: str) -> None:
    assert refusal(REFERENCE.parse_assignment, text).message == message


def test_a_knob_set_twice_is_refused() -> None:
    error = refusal(REFERENCE.parse_assignments, ["serving.threads=1", "serving.threads=2"])
    assert error.message == "serving.threads is set twice."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quantization.group_size=32", ("quantization.group_size", 32)),
        (" quantization.method = awq ", ("quantization.method", "awq")),
        ("serving.eager=on", ("serving.eager", True)),
        ("serving.eager=No", ("serving.eager", False)),
        ("serving.share=1", ("serving.share", 1.0)),
        ("serving.share=5e-1", ("serving.share", 0.5)),
    ],
)
def test_an_assignment_gives_the_knobs_own_type(text: str, expected: tuple[str, object]) -> None:
    knob, value = QUANTIZATION.parse_assignment(text)
    assert (knob, value) == expected
    assert type(value) is type(expected[1])


def test_leaving_a_method_drops_its_knobs_and_entering_it_brings_their_defaults() -> None:
    base = QUANTIZATION.configuration({})
    awq = QUANTIZATION.with_change(base, {"quantization.method": "awq", "quantization.group_size": 32})
    assert awq["quantization.bits"] == 4
    assert awq["quantization.group_size"] == 32
    assert "quantization.group_size" not in QUANTIZATION.with_change(awq, {"quantization.bits": 8})
    assert QUANTIZATION.with_change(awq, {"quantization.method": "none"}) == base
    assert QUANTIZATION.levers_between(base, awq) == ("quantization",)


def test_threads_are_kept_to_the_cores_of_the_machine() -> None:
    one_core = REFERENCE.restrict({"serving.threads": range(1, 2)})
    assert one_core.configuration({})["serving.threads"] == 1
    assert refusal(one_core.configuration, {"serving.threads": 4}).hint == "It can be 1."
    assert refusal(REFERENCE.restrict, {"serving.threads": [3]}).hint == "It can be 1, 2, 4, 8 or 16."
    assert "no knob 'serving.thread'" in refusal(REFERENCE.restrict, {"serving.thread": [1]}).message


def test_a_lost_default_is_replaced_by_the_nearest_value_left() -> None:
    knob = Knob("serving.threads", (1, 2, 4, 8, 16), 8, "threads")
    assert knob.restricted([1, 2, 4, 16]).default == 4
    assert knob.restricted([1, 16]).default == 1
    assert Knob("a.b", ("x", "y", "z"), "z", "l").restricted(["y", "x"]).default == "x"
