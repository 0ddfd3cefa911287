"""Sizes of CUDA graphs that a workload can't tell apart are not proposed, and those that it can are."""

import pytest

from experiments.space.loading import load_space
from experiments.space.prompt_graph_rules import GRAPH_TOKENS, same_graphs

SPACE = load_space("vllm")
ALL = (512, 1024, 2048)


@pytest.mark.parametrize(
    ("concurrency", "prompt_tokens", "first_tokens", "like"),
    [
        (1, 512, False, dict.fromkeys(ALL, "auto")),
        (1, 512, True, {2048: 1024}),
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
