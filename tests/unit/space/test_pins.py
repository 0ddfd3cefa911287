"""Which knob fixes which key of the resolved configuration, as a space declares it."""

from __future__ import annotations

import pytest

from configs.catalog import Document
from configs.errors import UsageError
from configs.validation import parse_yaml
from experiments.space.loading import load_space, space_of
from experiments.space.space import Space

KNOB = """
name: one
knobs:
  - name: serving.kernel
    lever: kernel
    values: [auto, a, b]
    default: auto
    pins: {PINS}
    help: A kernel.
"""


def space(pins: str) -> Space:
    return space_of(Document(parse_yaml(KNOB.replace("{PINS}", pins), "here"), "here"))


def test_a_pin_reads_what_it_says_for_each_value_and_nothing_for_the_engines_own_choice() -> None:
    knob = space("{linear_kernel: {a: KernelA, b: KernelB}}").knob("serving.kernel")
    assert [knob.reads_as("linear_kernel", value) for value in knob.values] == [None, "KernelA", "KernelB"]
    assert knob.pinning_value("linear_kernel", "KernelB") == "b"
    assert knob.pinning_value("linear_kernel", "KernelC") is None
    assert knob.pinning_value("attention", "KernelB") is None


def test_a_pin_without_readings_reads_as_the_value_itself() -> None:
    threads = load_space("reference").knob("serving.threads")
    assert threads.reads_as("threads", 2) == "2"
    assert threads.pinning_value("threads", "4") == 4


def test_a_pin_covers_the_keys_below_it_and_no_others() -> None:
    found = space("{kernels: {a: A}}")
    assert [knob.name for knob in found.pinning("kernels.linear")] == ["serving.kernel"]
    assert found.pinning("kernels_of_another") == ()


def test_the_keys_that_a_change_may_move_are_those_its_knobs_pin() -> None:
    found = space("{linear_kernel: {a: A, b: B}, backend: {}}")
    one, other = found.configuration({}), found.configuration({"serving.kernel": "a"})
    assert found.pinned_keys(one, other) == ("backend", "linear_kernel")
    assert found.pinned_keys(one, one) == ()


def test_a_restricted_knob_forgets_the_readings_of_the_values_that_are_gone() -> None:
    found = space("{linear_kernel: {a: A, b: B}}").restrict({"serving.kernel": ["auto", "a"]})
    assert found.knob("serving.kernel").pinning_value("linear_kernel", "B") is None
    assert found.knob("serving.kernel").pinning_value("linear_kernel", "A") == "a"


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        ("{linear_kernel: {c: C}}", "by c, which it cannot be"),
        ("{linear_kernel: {a: A, b: A}}", "to A by two of its values"),
        ("{linear_kernel: KernelA}", "pins"),
        ("{linear_kernel: {a: 3}}", "pins"),
        ("[linear_kernel]", "pins"),
    ],
)
def test_a_pin_that_means_nothing_is_refused_with_the_file(pins: str, words: str) -> None:
    with pytest.raises(UsageError, match="here") as refused:
        space(pins)
    assert words in str(refused.value)
