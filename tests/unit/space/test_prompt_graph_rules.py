"""Sizes of CUDA graphs that a workload can't tell apart are not proposed, and those that it can are."""

import pytest

from configs.models import load_model_profile
from experiments.space.configuration import KnobValue
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from experiments.space.prompt_graph_rules import GRAPH_TOKENS, same_graphs
from experiments.space.space import Space

SPACE = load_space("vllm")
ALL = (512, 1024, 2048)


@pytest.mark.parametrize(
    ("concurrency", "prompt_tokens", "first_tokens", "like"),
    [
        (1, 512, False, dict.fromkeys(ALL, "auto")),
        (1, 512, True, {1024: 512, 2048: 1024}),
        (1, 128, True, {1024: 512, 2048: 512}),
        (1, 1000, True, {512: "auto", 2048: 1024}),
        (1, 1500, True, {512: "auto", 1024: "auto"}),
        (4, 200, False, {2048: 1024}),
        (2, 700, True, {512: "auto"}),
        (4, 300, True, {}),
        (16, 512, False, {}),
        (64, 512, True, {}),
        (64, 16, True, {}),
        (1, 3840, True, {}),
    ],
)
def test_only_sizes_that_the_workload_can_tell_apart_are_left(
    concurrency: int, prompt_tokens: int, first_tokens: bool, like: dict[int, object]
) -> None:
    found = same_graphs(SPACE, concurrency, prompt_tokens, first_tokens=first_tokens)
    assert {value: same.like for (_, value), same in found.items()} == like


def with_them(concurrency: int, prompt_tokens: int) -> Space:
    """The space of a campaign about first tokens."""
    same = same_graphs(SPACE, concurrency, prompt_tokens, first_tokens=True)
    kept, _ = legal_levers(SPACE, ModelFacts.of(load_model_profile("qwen3.5-9b"), same=same))
    return kept


@pytest.mark.parametrize(
    ("prompt_tokens", "one", "other", "beside", "otherwise"),
    [
        (600, "auto", 512, {"serving.prefix_caching": "off"}, {"serving.prefix_caching": "on"}),
        (512, 512, 1024, {}, {"drafting.method": "mtp", "drafting.draft_tokens": 2}),
    ],
)
def test_what_is_the_same_beside_one_value_alone_is_told_apart_beside_another(
    prompt_tokens: int,
    one: KnobValue,
    other: KnobValue,
    beside: dict[str, KnobValue],
    otherwise: dict[str, KnobValue],
) -> None:
    """A hybrid's prompt is cut where a page of a cache of prefixes ends, and drafts round sizes."""
    space = with_them(1, prompt_tokens)
    assert {one, other} <= set(space.knob(GRAPH_TOKENS).values)
    for knobs, is_same in ((beside, True), (otherwise, False)):
        arms = [space.configuration({**knobs, GRAPH_TOKENS: value}) for value in (one, other)]
        assert (space.why_same(*arms) is not None) is is_same


def test_why_is_said_in_a_sentence() -> None:
    def said(*workload: int, first_tokens: bool) -> list[str]:
        return [each.why for each in same_graphs(SPACE, *workload, first_tokens=first_tokens).values()]

    assert said(1, 512, first_tokens=False)[0] == (
        "With one request at once no token after the first waits for a prompt, and steps of decoding are "
        "captured whatever this is."
    )
    assert said(1, 1000, first_tokens=True) == [
        "No step that reads a prompt of 1,000 tokens is as small.",
        "What the one request of the workload can ask of a step fits into 1024 tokens too.",
    ]


def test_a_space_without_the_knob_has_none() -> None:
    assert same_graphs(load_space("reference"), 1, 512, first_tokens=True) == {}
    assert SPACE.knob(GRAPH_TOKENS).values == ("auto", *ALL)
