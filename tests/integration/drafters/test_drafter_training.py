"""Training: the target's own text, the loss on a small text learnt by heart, the same result for a seed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from cli.main import call
from experiments.drafters.dflash.acceptance import measure_acceptance
from experiments.drafters.dflash.blocks import read_target
from experiments.drafters.dflash.config import read_shape
from experiments.drafters.dflash.network import DFlashNetwork, initialise
from experiments.drafters.dflash.self_text import SelfTextPlan, draw_windows, write_self_text
from experiments.drafters.dflash.training import (
    LOGITS_MAX,
    Progress,
    TrainingPlan,
    anchors_per_row,
    draw_anchors,
    train_network,
)
from experiments.reference_model.scores import CONTINUATION_TOKENS, LoadedCheckpoint
from experiments.reference_model.token_stream import TokenPool
from tests.integration.drafters.conftest import TINY_DRAFTER

PLAN = TrainingPlan(rows=2, length=24, anchors=6, steps=40)


def pool(tokens: int) -> TokenPool:
    ids = torch.randint(1, 4096, (tokens,), generator=torch.Generator().manual_seed(8)).int()
    return TokenPool(ids, torch.ones(tokens, dtype=torch.float16), torch.tensor([0]), end_of_text=0)


def trained(
    target: Qwen3_5ForCausalLM, seed: int, plan: TrainingPlan = PLAN
) -> tuple[DFlashNetwork, list[Progress]]:
    network = DFlashNetwork(TINY_DRAFTER)
    initialise(network, seed)
    seen: list[Progress] = []
    generator = torch.Generator().manual_seed(seed)
    train_network(network, target, [(pool(24), 1.0)], plan, generator, seen.append)
    return network, seen


def test_training_learns_a_small_text_by_heart(tiny_target: Qwen3_5ForCausalLM) -> None:
    _, first = trained(tiny_target, 1, replace(PLAN, steps=1))
    _, seen = trained(tiny_target, 1, replace(PLAN, steps=60))
    assert seen[-1].loss < 0.5 * first[-1].loss
    assert seen[-1].first_right > 0.5 > first[-1].first_right
    assert [each.step for each in seen] == [50, 60]


def test_a_seed_decides_every_weight(tiny_target: Qwen3_5ForCausalLM) -> None:
    one, again, other = (
        trained(tiny_target, seed, replace(PLAN, steps=3))[0].state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["fc.weight"], other["fc.weight"])


def test_the_target_stays_as_it_was(tiny_target: Qwen3_5ForCausalLM) -> None:
    before = {name: tensor.clone() for name, tensor in tiny_target.state_dict().items()}
    trained(tiny_target, 1, replace(PLAN, steps=2))
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny_target.state_dict().items())


def test_a_text_shorter_than_a_block_is_refused(tiny_target: Qwen3_5ForCausalLM) -> None:
    with pytest.raises(ValueError, match="needs more"):
        trained(tiny_target, 1, replace(PLAN, length=4))


def test_anchors_leave_context_before_and_a_block_after() -> None:
    anchors = draw_anchors(
        4, length=12, count=200, block_tokens=4, generator=torch.Generator().manual_seed(1)
    )
    assert anchors.min() == 1
    assert anchors.max() == 12 - 4


def test_a_large_vocabulary_means_fewer_blocks() -> None:
    large = replace(PLAN, rows=64, anchors=64)
    for vocabulary, expected in ((4096, 64), (32_768, 9), (248_320, 1)):
        assert anchors_per_row(large, 8, vocabulary) == expected
        assert 64 * expected * 7 * vocabulary <= LOGITS_MAX
    assert anchors_per_row(large, 8, 10**9) == 1


def test_self_text_is_the_targets_greedy_continuation(tiny_target: Qwen3_5ForCausalLM) -> None:
    plan = SelfTextPlan(rows=3, batch=2, prompt_lengths=(6,), tokens=7)
    generator = torch.Generator().manual_seed(3)
    text = write_self_text(LoadedCheckpoint(tiny_target, None, None), [(pool(64), 1.0)], plan, generator)
    ids, _ = text.windows(4, 12, generator)
    greedy = read_target(tiny_target, (0,), ids).greedy
    assert torch.equal(greedy[:, 5:12], ids[:, 6:13])
    assert not torch.equal(greedy[:, :5], ids[:, 1:6])


def test_self_text_comes_in_batches_whose_prompts_take_turns(tiny_target: Qwen3_5ForCausalLM) -> None:
    plan = SelfTextPlan(rows=5, batch=2, prompt_lengths=(6, 9), tokens=7)
    written: list[int] = []
    generator = torch.Generator().manual_seed(3)
    text = write_self_text(
        LoadedCheckpoint(tiny_target, None, None), [(pool(64), 1.0)], plan, generator, written.append
    )
    assert written == [2, 4, 5]
    assert text.starts.tolist() == [0, 13, 26, 42, 58]
    assert (text.tokens[text.starts[1:] - 1] == text.end_of_text).all()


def test_windows_are_drawn_by_share() -> None:
    zeros = replace(pool(16), tokens=torch.zeros(16, dtype=torch.int32))
    ones = replace(pool(16), tokens=torch.ones(16, dtype=torch.int32))
    drawn = draw_windows([(zeros, 1.0), (ones, 3.0)], 8, 5, torch.Generator().manual_seed(1))
    assert drawn.shape == (8, 6)
    assert drawn[:, 1].tolist() == [0, 0, 1, 1, 1, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "continuation_tokens", [16, pytest.param(CONTINUATION_TOKENS, marks=pytest.mark.bench_only)]
)
def test_the_command_trains_measures_and_shows_a_drafter(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    continuation_tokens: int,
) -> None:
    measured = partial(measure_acceptance, tokens=continuation_tokens)
    monkeypatch.setattr("experiments.drafters.dflash.acceptance.measure_acceptance", measured)
    out = tmp_path / "drafter"
    words = ["drafter", "train", "--steps", "2", "--device", "cpu", "--out", str(out)]
    assert call([*words, "--json"]) == 0
    said = capsys.readouterr()
    card = json.loads(said.out)
    assert "step 2 of 2" in said.err
    assert card["training"]["seed"] == 7
    assert card["acceptance"].keys() == {"code", "prose", "instruct"}
    assert read_shape(out).target_layer_ids == (1, 3, 6, 8, 10)
    assert call(["drafter", "show", str(out)]) == 0
    assert "tokens a step" in capsys.readouterr().out
    assert call(words) == 2
    assert "is not an empty folder" in capsys.readouterr().err
