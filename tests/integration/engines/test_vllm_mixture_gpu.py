"""A Mixture of Experts on vLLM on a real GPU: in 16 bits, rounded as it is loaded, and with packed experts.

Skipped as the suite of the engine there (`test_vllm_engine_gpu.py`).
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

from experiments.engines.port import GenerationRequest
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.launch import VllmLaunch
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.checkpoints import Sizes, tiny_mixture, write_checkpoint
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized
from tests.integration.engines.test_vllm_engine_gpu import DEVICE, KNOBS, pytestmark

__all__ = ["pytestmark"]

SIZES = Sizes(hidden=256, intermediate=256, linear_value_heads=2)
SERVED = {
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "head_dim": 128,
    "initializer_range": 0.05,
}
"""Sizes that kernels of GPUs compute with: experts are 128 wide."""

PROMPTS = [tuple(range(start, start + 40)) for start in range(3, 300, 31)]
MOST_OTHERS = 1
"""Of the prompts so many may be answered otherwise: 16 bits round a near tie the other way."""


def mixture() -> Qwen3_5MoeForCausalLM:
    told = {**tiny_mixture(sizes=SIZES).config.to_dict(), **SERVED}
    torch.manual_seed(0)
    config = {name: value for name, value in told.items() if name != "rope_parameters"}
    return Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**config)).eval()


@contextmanager
def launched(checkpoint: Path, folder: Path, **knobs: KnobValue) -> Iterator[VllmLaunch]:
    configuration = Configuration.of({**KNOBS, **knobs})
    engine = VllmEngine()
    engine.check(configuration, checkpoint, DEVICE)
    launch = engine.launch(configuration, checkpoint, DEVICE, folder / "log", folder / "cache")
    assert isinstance(launch, VllmLaunch)
    with closing(launch):
        yield launch


def computed(checkpoint: Path) -> list[int]:
    """The first token after each prompt by transformers' own model, with the weights as they are stored."""
    model = load_model(inspect_checkpoint(checkpoint), torch.float32, torch.device("cpu"))
    with torch.inference_mode():
        return [int(model(torch.tensor([prompt])).logits[0, -1].argmax()) for prompt in PROMPTS]


def others(launch: VllmLaunch, expected: list[int]) -> int:
    """After how many prompts vLLM's first token is another."""
    found = [launch.generate(GenerationRequest("a", prompt, 4)).token_ids[0] for prompt in PROMPTS]
    return sum(one != other for one, other in zip(found, expected, strict=True))


def test_experts_of_16_bits_are_served_and_told_by_part(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", mixture(), dtype=torch.bfloat16)
    expected = computed(folder)
    assert len(set(expected)) > len(PROMPTS) // 2
    with launched(folder, tmp_path) as launch:
        assert others(launch, expected) <= MOST_OTHERS
        parts = {part.part: part for part in launch.profile(GenerationRequest("a", PROMPTS[0], 16))}
        kernel = launch.resolved()["experts_kernel"]
    print(kernel, {name: (part.time_ms, part.weight_bytes) for name, part in parts.items()})
    assert "shared_expert" in parts or "layers" in parts, "where kernels and products do not agree in number"
    assert parts["experts"].time_ms > 0


def test_experts_are_rounded_to_8_bits_as_they_are_loaded(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", mixture(), dtype=torch.bfloat16)
    with launched(folder, tmp_path, **{"serving.weight_dtype": "fp8"}) as launch:
        parts = {part.part: part for part in launch.profile(GenerationRequest("a", PROMPTS[0], 16))}
        print(launch.resolved()["experts_kernel"], parts["experts"])
        assert others(launch, computed(folder)) <= len(PROMPTS) // 2, "coarser, and no other model"
    config = mixture().config
    weights = len(config.layer_types) * config.num_experts_per_tok * 3 * 256 * 128
    assert parts["experts"].weight_bytes == pytest.approx(weights, rel=0.1)


@pytest.mark.parametrize(
    ("bits", "symmetric", "group"),
    [(4, True, 32), (4, True, 128), (4, False, 32), (4, False, 128), (8, True, 128)],
)
def test_packed_experts_are_computed_with_as_they_are_unpacked_here(
    tmp_path: Path, bits: int, symmetric: bool, group: int
) -> None:
    folder = write_checkpoint(tmp_path / "model", mixture(), each_expert=True, dtype=torch.bfloat16)
    config = compressed_tensors_config(bits, symmetric, group)
    asked = {"bits": bits, "symmetric": symmetric, "group": group}
    by_hand(folder, pack_quantized, config, scale_dtype=torch.bfloat16, **asked)
    expected = computed(folder)
    assert len(set(expected)) > len(PROMPTS) // 2
    with launched(folder, tmp_path) as launch:
        kernel = launch.resolved()["experts_kernel"]
        found = others(launch, expected)
    print(bits, symmetric, group, kernel, found)
    assert found <= MOST_OTHERS, kernel
