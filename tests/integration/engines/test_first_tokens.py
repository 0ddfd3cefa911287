"""Wrong products of packed experts are told from what 16 bits round, without a GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.integration.engines.checkpoints import write_checkpoint
from tests.integration.engines.first_tokens import FirstTokens, after, computed, loaded
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized
from tests.integration.engines.wide_mixture import PROMPTS, mixture

GROUP = 128
"""Inputs that share a scale: as many as an expert is wide, and half of the hidden size."""

SHORT = [prompt[:16] for prompt in PROMPTS]

Parts = dict[str, torch.Tensor]
Mutant = Callable[[torch.nn.Module, int, int, Parts], None]
"""Changes one expert, whose layer and number it is given, by the tensors of the checkpoint."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "model"
    write_checkpoint(folder, mixture(), each_expert=True, dtype=torch.bfloat16)
    config = compressed_tensors_config(4, False, GROUP)
    by_hand(folder, pack_quantized, config, scale_dtype=torch.bfloat16, group=GROUP)
    return folder


@pytest.fixture(scope="module")
def expected(packed: Path) -> FirstTokens:
    return computed(packed, SHORT)


def scales_misread(experts: torch.nn.Module, layer: int, expert: int, parts: Parts) -> None:
    """As vLLM's Marlin reads them where a group is as wide as an expert (`get_scale_perms`): they are laid
    out in the order for one group and read in that for several."""
    several = torch.arange(64).reshape(8, 8).T.flatten()
    one = torch.tensor([2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)])
    name = f"model.layers.{layer}.mlp.experts.{expert}"
    own = torch.cat([parts[f"{name}.{part}_proj.weight_scale"].float() for part in ("gate", "up")])
    laid_out = own.T.reshape(-1, 32)[:, one].reshape(-1, 64)
    read = laid_out[:, several.argsort()].reshape(own.T.shape).T
    experts.gate_up_proj[expert] *= (read / own).repeat_interleave(GROUP, 1)


def zero_points_ignored(experts: torch.nn.Module, layer: int, expert: int, parts: Parts) -> None:
    weight = experts.down_proj[expert]
    name = f"model.layers.{layer}.mlp.experts.{expert}.down_proj"
    words, scales = parts[f"{name}.weight_zero_point"], parts[f"{name}.weight_scale"].float()
    zeros = torch.stack([(words >> 4 * place) & 15 for place in range(8)], 1).reshape(scales.shape)
    weight += ((zeros - 8) * scales).repeat_interleave(GROUP, 1)


def two_exchanged(experts: torch.nn.Module, layer: int, expert: int, parts: Parts) -> None:
    if expert == 0:
        for weight in (experts.gate_up_proj, experts.down_proj):
            weight[[0, 1]] = weight[[1, 0]].clone()


@pytest.mark.parametrize("mutant", [scales_misread, zero_points_ignored, two_exchanged])
def test_wrong_products_lead_most_tokens_astray(mutant: Mutant, packed: Path, expected: FirstTokens) -> None:
    parts, model = load_file(packed / "model.safetensors"), loaded(packed, torch.float32)
    with torch.no_grad():
        for layer, each in enumerate(model.model.layers):
            for expert in range(len(each.mlp.experts.down_proj)):
                mutant(each.mlp.experts, layer, expert, parts)
    found = expected.astray(after(model, SHORT).argmax(1).tolist())
    print(mutant.__name__, found, expected.margin)
    assert found > 3 * expected.astray_at_most // 2


def test_what_16_bits_round_leads_few_astray(packed: Path, expected: FirstTokens) -> None:
    assert expected.distinct > len(SHORT) // 2
    assert expected.astray(expected.exact.argmax(1).tolist()) == 0
    for dtype in (torch.bfloat16, torch.float16):
        found = expected.astray(after(loaded(packed, dtype), SHORT).argmax(1).tolist())
        print(dtype, found)
        assert found <= expected.astray_at_most // 2
