"""A Mixture of Experts on vLLM on a real GPU: in 16 bits, rounded as it is loaded, and with packed experts.

Skipped as the suite of the engine there (`test_vllm_engine_gpu.py`).
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch

from experiments.engines.port import GenerationRequest, Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.launch import VllmLaunch
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.checkpoints import write_checkpoint
from tests.integration.engines.first_tokens import computed
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized
from tests.integration.engines.test_vllm_engine_gpu import DEVICE, KNOBS, pytestmark
from tests.integration.engines.wide_mixture import PROMPTS, mixture

__all__ = ["pytestmark"]


@contextmanager
def launched(checkpoint: Path, folder: Path, **knobs: KnobValue) -> Iterator[VllmLaunch]:
    configuration = Configuration.of({**KNOBS, **knobs})
    engine = VllmEngine()
    engine.check(configuration, checkpoint, DEVICE)
    launch = engine.launch(configuration, checkpoint, DEVICE, folder / "log", folder / "cache")
    assert isinstance(launch, VllmLaunch)
    with closing(launch):
        yield launch


def answered(launch: VllmLaunch) -> list[int]:
    """vLLM's first token after each prompt."""
    return [launch.generate(GenerationRequest("a", prompt, 4)).token_ids[0] for prompt in PROMPTS]


def packed(folder: Path, width: int, bits: int, symmetric: bool, group: int) -> Path:
    """A mixture of experts that are so wide, packed by hand in groups of one size."""
    write_checkpoint(folder, mixture(width), each_expert=True, dtype=torch.bfloat16)
    config = compressed_tensors_config(bits, symmetric, group)
    asked = {"bits": bits, "symmetric": symmetric, "group": group}
    by_hand(folder, pack_quantized, config, scale_dtype=torch.bfloat16, **asked)
    return folder


def test_experts_of_16_bits_are_served_and_told_by_part(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", mixture(), dtype=torch.bfloat16)
    expected = computed(folder, PROMPTS)
    assert expected.distinct > len(PROMPTS) // 4
    with launched(folder, tmp_path) as launch:
        assert expected.astray(answered(launch)) <= expected.astray_at_most
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
        found = computed(folder, PROMPTS).astray(answered(launch))
    assert found <= len(PROMPTS) // 2, "coarser, and no other model"
    config = mixture().config
    weights = len(config.layer_types) * config.num_experts_per_tok * 3 * 256 * 128
    assert parts["experts"].weight_bytes == pytest.approx(weights, rel=0.1)


@pytest.mark.parametrize(
    ("width", "bits", "symmetric", "group", "kernel"),
    [
        (256, 4, True, 32, "auto"),
        (256, 4, True, 128, "auto"),
        (256, 4, True, 128, "marlin"),
        (256, 4, False, 32, "auto"),
        (256, 4, False, 128, "auto"),
        (256, 4, False, 128, "marlin"),
        (256, 8, True, 128, "auto"),
        (128, 4, True, 128, "triton"),
        (128, 4, False, 128, "triton"),
    ],
)
def test_packed_experts_are_computed_with_as_they_are_unpacked_here(
    tmp_path: Path, width: int, bits: int, symmetric: bool, group: int, kernel: str
) -> None:
    folder = packed(tmp_path / "model", width, bits, symmetric, group)
    expected = computed(folder, PROMPTS)
    assert expected.distinct > len(PROMPTS) // 4
    with launched(folder, tmp_path, **{"serving.moe_backend": kernel}) as launch:
        taken = launch.resolved()["experts_kernel"]
        found = expected.astray(answered(launch))
    print(width, bits, symmetric, group, taken, found)
    assert found <= expected.astray_at_most, taken


@pytest.mark.parametrize(("symmetric", "kernel"), [(True, "marlin"), (False, "marlin"), (False, "auto")])
def test_experts_that_marlin_would_multiply_wrongly_are_refused_before_a_load(
    tmp_path: Path, symmetric: bool, kernel: str
) -> None:
    folder = packed(tmp_path / "model", 128, 4, symmetric, 128)
    configuration = Configuration.of({**KNOBS, "serving.moe_backend": kernel})
    with pytest.raises(Infeasible, match="gives wrong answers where experts are packed in groups of 128"):
        VllmEngine().check(configuration, folder, DEVICE)
