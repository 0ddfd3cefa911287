"""Drafting changes when tokens come and never which: text, steps, counts, for each method."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.engines.port import GenerationRequest, Infeasible
from experiments.engines.reference.drafting.acceptance import acceptance_length
from experiments.engines.reference.drafting.check import check_drafting
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from experiments.stages.pruning.layer_removal import remove_layers
from tests.integration.engines.checkpoints import LAYERS, tiny_model, write_checkpoint
from tests.integration.engines.drafted import (
    with_and_without,
    write_block_drafter,
    write_nearly_the_same,
    write_target,
)
from tests.integration.engines.test_reference_decode import prompt

NEW_TOKENS = 40


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drafting")
    model = tiny_model(layers=LAYERS)
    return {
        "target": write_target(folder / "target", model),
        "same": write_nearly_the_same(folder / "same", model, 0.0),
        "near": write_nearly_the_same(folder / "near", model, 0.03),
        "far": write_nearly_the_same(folder / "far", model, 1.0),
        "blocks": write_block_drafter(folder / "blocks"),
    }


def requests(new_tokens: int = NEW_TOKENS) -> list[GenerationRequest]:
    """Short, one-token and long prompts, and one that repeats itself."""
    prompts = [prompt(1, 1), prompt(2, 9), prompt(3, 70), prompt(4, 6) * 4]
    return [GenerationRequest(f"prose:{place}", ids, new_tokens) for place, ids in enumerate(prompts)]


@pytest.fixture(scope="module")
def undrafted(folders: dict[str, Path]) -> dict[str, tuple[int, ...]]:
    """The text of each request without a draft."""
    plain, _ = with_and_without(folders["target"], DraftingOrder("mtp", 1))
    return {request.item: plain.generate(request).token_ids for request in requests()}


def test_drafting_ends_with_the_first_token_that_is_to_end_it(
    folders: dict[str, Path], undrafted: dict[str, tuple[int, ...]]
) -> None:
    _, speculation = with_and_without(folders["target"], DraftingOrder("mtp", 3))
    for request in requests():
        whole = undrafted[request.item]
        for place in (0, 5, 6, 7):
            ended = speculation.generate(replace(request, stop_ids=(whole[place],)))
            assert ended.token_ids == whole[: whole.index(whole[place]) + 1]
            assert len(ended.token_times_s) == len(ended.token_ids)


def order(method: str, draft_tokens: int, folders: dict[str, Path], drafter: str = "") -> DraftingOrder:
    return DraftingOrder(
        method, draft_tokens, str(folders[drafter]) if drafter else "", 3 if method == "ngram" else 0
    )


METHODS = [
    ("mtp", 1, ""),
    ("mtp", 4, ""),
    ("ngram", 4, ""),
    ("draft_model", 3, "near"),
    ("dflash", 3, "blocks"),
]
"""In the suite each method once, and the shortest drafts."""

FURTHER = [
    ("mtp", 2, ""),
    ("mtp", 3, ""),
    ("ngram", 1, ""),
    ("draft_model", 1, "near"),
    ("draft_model", 3, "same"),
    ("draft_model", 7, "far"),
    ("dflash", 2, "blocks"),
]


@pytest.mark.parametrize(
    ("method", "draft_tokens", "drafter"),
    [*METHODS, *(pytest.param(*each, marks=pytest.mark.bench_only) for each in FURTHER)],
)
def test_the_text_is_that_of_decoding_without_a_draft(
    folders: dict[str, Path],
    undrafted: dict[str, tuple[int, ...]],
    method: str,
    draft_tokens: int,
    drafter: str,
) -> None:
    _, speculation = with_and_without(folders["target"], order(method, draft_tokens, folders, drafter))
    for request in requests():
        trace = speculation.generate(request)
        assert trace.token_ids == undrafted[request.item]
        assert len(trace.token_times_s) == NEW_TOKENS
        assert all(1 <= tokens <= draft_tokens + 1 for tokens in trace.step_tokens)
        assert sum(trace.step_tokens[:-1]) < NEW_TOKENS - 1 <= sum(trace.step_tokens)
        assert len(set(trace.token_times_s)) == len(trace.step_tokens) + 1


@pytest.mark.parametrize(
    ("drafter", "low", "high"),
    [("same", 4.0, 4.0), ("near", 1.3, 3.9), pytest.param("far", 1.0, 1.2, marks=pytest.mark.bench_only)],
)
def test_the_better_the_draft_the_more_tokens_a_step(
    folders: dict[str, Path], drafter: str, low: float, high: float
) -> None:
    _, speculation = with_and_without(folders["target"], order("draft_model", 3, folders, drafter))
    steps = [tokens for request in requests() for tokens in speculation.generate(request).step_tokens]
    assert low <= acceptance_length(steps) <= high


@pytest.mark.parametrize(
    "new_tokens",
    [2, 4, 7, *(pytest.param(each, marks=pytest.mark.bench_only) for each in (3, 5, 6, 8))],
)
def test_a_request_that_ends_in_mid_step_is_cut_and_the_next_is_none_the_worse(
    folders: dict[str, Path], new_tokens: int
) -> None:
    plain, speculation = with_and_without(folders["target"], order("draft_model", 3, folders, "same"))
    for request in (*requests(new_tokens), *requests(5)):
        trace = speculation.generate(request)
        assert trace.token_ids == plain.generate(request).token_ids
        assert len(trace.token_times_s) == request.new_tokens
        assert set(trace.step_tokens) == {4}, "steps are told whole, the last before it is cut"


def test_a_generation_that_fills_the_capacity_to_its_last_place_is_right(folders: dict[str, Path]) -> None:
    plain, speculation = with_and_without(folders["target"], order("mtp", 4, folders))
    request = GenerationRequest("a", prompt(5, 236), 20)
    assert speculation.generate(request).token_ids == plain.generate(request).token_ids
    assert set(speculation.decoder.built) == {(256, 5)}, "drafts past the end need no larger buffers"


@pytest.mark.parametrize(
    ("method", "drafter", "new_tokens"),
    [
        ("mtp", "", 5),  # in more steps it would be seen that this head's drafts never stand
        pytest.param("ngram", "", 25, marks=pytest.mark.bench_only),
        ("draft_model", "near", 25),
        pytest.param("dflash", "blocks", 25, marks=pytest.mark.bench_only),
    ],
)
def test_in_bfloat16_texts_differ_at_near_ties_alone(
    folders: dict[str, Path], method: str, drafter: str, new_tokens: int
) -> None:
    drafting = order(method, 2, folders, drafter)
    _, speculation = with_and_without(folders["target"], drafting, dtype=torch.bfloat16)
    checks = check_drafting(speculation, requests(new_tokens))
    assert [check.divergences for check in checks] == [0, 0, 0, 0]
    assert [check.positions for check in checks] == [new_tokens - 1] * 4


def test_a_pruned_target_keeps_its_head_and_its_text(tmp_path: Path) -> None:
    remove_layers(inspect_checkpoint(reference_model_path()), [5, 7], tmp_path / "pruned")
    plain, speculation = with_and_without(tmp_path / "pruned", DraftingOrder("mtp", 2))
    ids = tuple(range(300, 340))
    request = GenerationRequest("code:a", ids, 48)
    trace = speculation.generate(request)
    assert trace.token_ids == plain.generate(request).token_ids
    assert acceptance_length(trace.step_tokens) > 1.05


def test_the_packaged_head_drafts_what_its_card_promises() -> None:
    _, speculation = with_and_without(reference_model_path(), DraftingOrder("mtp", 1))
    steps = [
        tokens
        for seed in range(4)
        for tokens in speculation.generate(GenerationRequest("other", prompt(seed, 64), 64)).step_tokens
    ]
    assert acceptance_length(steps) > 1.3, "the card tells of 1.6 to 1.9 on real text"


def test_a_draft_model_of_another_vocabulary_is_refused(folders: dict[str, Path]) -> None:
    elsewhere = DraftingOrder("draft_model", 2, str(reference_model_path()))
    with pytest.raises(Infeasible, match="a vocabulary of 4096 tokens and its target one of 512") as told:
        with_and_without(folders["target"], elsewhere)
    assert told.value.kind == "illegal"


@pytest.mark.parametrize(("method", "drafter"), [("draft_model", "near"), ("dflash", "blocks")])
def test_an_external_drafter_is_told_by_what_was_loaded_of_it(
    folders: dict[str, Path], method: str, drafter: str
) -> None:
    _, speculation = with_and_without(folders["target"], order(method, 2, folders, drafter))
    told = speculation.drafter.describe()
    assert told["folder"] == str(folders[drafter])
    assert told["fingerprint"] == checkpoint_fingerprint(folders[drafter])


def test_a_block_drafter_is_not_asked_for_more_than_its_block(folders: dict[str, Path]) -> None:
    with pytest.raises(Infeasible, match="drafts 3 tokens at once") as told:
        with_and_without(folders["target"], order("dflash", 4, folders, "blocks"))
    assert told.value.kind == "illegal"


def test_a_head_of_other_sizes_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    strange = write_checkpoint(tmp_path / "strange", tiny_model(layers=LAYERS))
    with pytest.raises(Infeasible, match=r"not one of Qwen3\.5's: mtp\.fc\.weight") as told:
        with_and_without(strange, DraftingOrder("mtp", 1))
    assert told.value.kind == "checkpoint"
