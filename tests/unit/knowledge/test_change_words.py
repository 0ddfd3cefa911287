"""A change of a configuration in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.space.configuration import Change
from knowledge.change_words import change_in_short, change_in_words, phrases, shown

MTP = (
    Change("drafting.draft_tokens", None, 2),
    Change("drafting.method", "none", "mtp"),
    Change("serving.async_scheduling", "auto", None),
)
TWO_LAYERS = (
    Change("pruning.criterion", None, "block_influence"),
    Change("pruning.layers_removed", None, 2),
    Change("pruning.method", "none", "depth"),
    Change("pruning.restrict", None, "any"),
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (MTP, "drafting 2 tokens by mtp"),
        (TWO_LAYERS, "removing 2 layers (pruning.criterion block_influence)"),
        ([Change("serving.threads", 2, 1)], "running on 1 thread instead of 2"),
        ([Change("serving.threads", 1, 2)], "running on 2 threads instead of 1"),
        ([Change("serving.compile", "off", "default")], "compiling the decode step (default)"),
        (
            [Change("serving.max_sequences", 16, 1), Change("serving.prefix_caching", "off", "on")],
            "taking at most 1 sequence at once instead of 16 and switching prefix caching on together",
        ),
        (
            [Change("serving.moe_backend", "auto", "triton")],
            "computing experts by triton instead of auto",
        ),
        ([Change("serving.a_flag", "a", "b")], "changing serving.a_flag a → b"),
        ([Change("serving.async_scheduling", "auto", None)], "leaving asynchronous scheduling to the engine"),
    ],
)
def test_a_change_is_told_by_what_it_does(changes: list[Change], words: str) -> None:
    assert change_in_words(changes) == words


def test_a_claim_leaves_out_what_only_follows() -> None:
    assert [each.text for each in phrases(MTP)] == ["drafting 2 tokens by mtp"]


VALUES = st.sampled_from(["none", "auto", "off", "default", "mtp", "awq", 1, 4, 128, True, False])
KNOBS = st.sampled_from(
    [
        *("pruning.method", "pruning.layers_removed", "quantization.bits", "quantization.method"),
        *("drafting.method", "drafting.draft_tokens", "serving.compile", "serving.dtype", "serving.a_flag"),
    ]
)


@given(st.dictionaries(KNOBS, st.tuples(st.none() | VALUES, VALUES), min_size=1))
def test_every_value_that_was_set_is_told(found: dict[str, tuple[object, object]]) -> None:
    """But a lever's switching off, which says what is switched off."""
    changes = [Change(knob, before, after) for knob, (before, after) in sorted(found.items())]  # type: ignore[arg-type]
    words = change_in_words(changes)
    assert words
    for each in changes:
        if each.knob in ("serving.dtype", "serving.a_flag"):
            assert shown(each.after) in words


def test_a_title_says_no_more_than_the_phrases() -> None:
    changes = [
        Change("quantization.method", "none", "awq"),
        Change("quantization.bits", None, 4),
        Change("quantization.group_size", None, 128),
        Change("quantization.corpus", None, "raw"),
        Change("serving.linear_backend", None, "auto"),
    ]
    assert change_in_short(changes) == "Quantizing to 4 bits by awq in groups of 128"
    assert change_in_short([]) == ""
