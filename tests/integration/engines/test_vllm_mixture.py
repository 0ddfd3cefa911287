"""A Mixture of Experts and a tied wrapper on a real vLLM, where one is installed for CPUs.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one everything here is skipped.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

from configs.models import ModelProfile, load_model_profile
from experiments.engines.port import GenerationRequest
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.launch import VllmLaunch
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration
from tests.integration.engines.checkpoints import (
    Sizes,
    take_layer_apart,
    tiny_config,
    tiny_mixture,
    write_checkpoint,
)
from tests.integration.engines.test_vllm_engine import KNOBS, pytestmark

__all__ = ["pytestmark"]

SERVED = {"linear_key_head_dim": 64, "linear_value_head_dim": 64, "head_dim": 64, "initializer_range": 0.05}
"""Heads that vLLM's kernels for CPUs compute with, and weights that do not amplify what is rounded."""

SIZES = Sizes(hidden=256, intermediate=256)
PROMPT = tuple(range(5, 45))
NEW_TOKENS = 16


def mixture() -> Qwen3_5MoeForCausalLM:
    told = {**tiny_mixture(sizes=SIZES).config.to_dict(), **SERVED}
    torch.manual_seed(0)
    return Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**_without_rope(told))).eval()


def dense() -> Qwen3_5ForCausalLM:
    told = {**tiny_config(sizes=SIZES).to_dict(), **SERVED}
    torch.manual_seed(0)
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**_without_rope(told))).eval()


def _without_rope(config: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in config.items() if name != "rope_parameters"}


@contextmanager
def launched(checkpoint: Path, folder: Path) -> Iterator[VllmLaunch]:
    engine = VllmEngine()
    engine.check(Configuration.of(KNOBS), checkpoint, "cpu")
    launch = engine.launch(Configuration.of(KNOBS), checkpoint, "cpu", folder / "log", folder / "cache")
    assert isinstance(launch, VllmLaunch)
    with closing(launch):
        yield launch


def first_token(model: torch.nn.Module) -> int:
    with torch.no_grad():
        return int(model(torch.tensor([PROMPT])).logits[0, -1].argmax())


def test_experts_are_served_whichever_way_they_are_stored_and_told_by_part(tmp_path: Path) -> None:
    model = mixture()
    bits16 = {"dtype": torch.bfloat16}
    joined = write_checkpoint(tmp_path / "joined", model, **bits16)
    apart = write_checkpoint(tmp_path / "apart", model, each_expert=True, **bits16)
    # as a quantizer leaves one that keeps a layer as it was
    mixed = take_layer_apart(write_checkpoint(tmp_path / "mixed", model, **bits16), 1)
    request = GenerationRequest("a", PROMPT, NEW_TOKENS)
    with launched(joined, tmp_path) as launch:
        tokens = launch.generate(request).token_ids
        resolved = launch.resolved()
        profile = launch.profile(request)
    assert tokens[0] == first_token(model.float())
    assert resolved["experts_kernel"] == {"backend": "CPU", "class": "CPUUnquantizedExperts"}
    assert resolved["linear_kernel"] == "UnquantizedLinearMethod"
    assert resolved["attention"] == "CPU_ATTN"
    parts = {part.part: part for part in profile}
    config = model.config
    each = 3 * config.hidden_size * config.moe_intermediate_size * 2  # bytes
    assert parts["experts"].weight_bytes == len(config.layer_types) * config.num_experts_per_tok * each
    assert parts["experts"].kind == "experts"
    assert parts["experts"].time_ms > 0
    for other in (apart, mixed):
        with launched(other, tmp_path) as launch:
            assert launch.generate(request).token_ids == tokens


def test_a_shape_with_experts_loads_without_weights(tmp_path: Path) -> None:
    sizes = load_model_profile("qwen3.5-35b-a3b").model_dump() | {
        "name": "tiny-mixture",
        "vocabulary": 512,
        "hidden": 256,
        "intermediate": 64,
        "attention_head_dim": 64,
        "attention_q_heads": 4,
        "gdn_k_heads": 2,
        "gdn_v_heads": 4,
        "gdn_k_head_dim": 64,
        "gdn_v_head_dim": 64,
        "layer_types": ("linear_attention", "linear_attention", "linear_attention", "full_attention"),
        "experts": {"count": 16, "per_token": 2, "intermediate": 64},
    }
    shape = write_shape(ModelProfile.model_validate(sizes), Configuration.of(KNOBS), tmp_path / "shape")
    with launched(shape, tmp_path) as launch:
        resolved = launch.resolved()
        parts = {part.part: part for part in launch.profile(GenerationRequest("a", PROMPT, NEW_TOKENS))}
    assert resolved["architecture"] == "Qwen3_5MoeForConditionalGeneration"
    assert parts["experts"].weight_bytes == 4 * 2 * (3 * 256 * 64) * 2, "layers, experts, weights, bytes"


@pytest.mark.parametrize("make", [dense, mixture])
def test_a_wrapper_that_ties_its_head_at_the_top_alone_is_served_as_it_says(
    make: type, tmp_path: Path
) -> None:
    model = make()
    wrapped = write_checkpoint(tmp_path / "wrapped", model, wrapper=True, dtype=torch.bfloat16)
    with launched(wrapped, tmp_path) as launch:
        tokens = launch.generate(GenerationRequest("a", PROMPT, NEW_TOKENS)).token_ids
    assert tokens[0] == first_token(model.float())
    assert len(set(tokens)) > 1, "without its head vLLM says the first token over and over"
