"""The profile of a decode step: every part, times that sum to the step, bytes that sum to the weights."""

import math
from collections import Counter
from pathlib import Path

import pytest

from experiments.engines.port import GenerationRequest
from experiments.engines.reference.compile import BuiltStep
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.profile import profile_step
from experiments.engines.reference.step import DecodeStep
from tests.integration.engines.checkpoints import LAYERS, tiny_model

REQUEST = GenerationRequest("a", tuple(range(40)), 24)


def test_parts_name_every_module_and_sum_to_the_step(tmp_path: Path) -> None:
    model = tiny_model(layers=LAYERS)
    decoder = Decoder(model, "off", tmp_path)
    decoder.generate(REQUEST)
    parts = profile_step(decoder, REQUEST)
    assert Counter(part.kind for part in parts) == {
        "gdn": 3, "attention": 2, "mlp": 5, "norm": 11,
        "embedding": 1, "rotary": 1, "lm_head": 1, "sampling": 1, "rest": 1,
    }  # fmt: skip
    assert all(part.time_ms >= 0 for part in parts)
    assert all(part.time_ms > 0 for part in parts if part.kind in ("gdn", "attention", "mlp", "lm_head"))
    total_ms = math.fsum(part.time_ms for part in parts)
    steps_ms = [decoder.generate(REQUEST).tpot_ms for _ in range(5)]
    assert 0.4 * min(steps_ms) < total_ms < 2.5 * max(steps_ms), "beside other tests, steps differ widely"


def test_weight_bytes_are_what_a_step_reads(tmp_path: Path) -> None:
    model = tiny_model(layers=LAYERS)
    parts = {part.part: part for part in profile_step(Decoder(model, "off", tmp_path), REQUEST)}
    weights = sum(weight.numel() * 4 for weight in model.parameters())  # the tied embedding counts once
    assert sum(part.weight_bytes for part in parts.values()) == weights + model.config.hidden_size * 4
    assert parts["lm_head"].weight_bytes == model.config.vocab_size * model.config.hidden_size * 4
    assert parts["layers.0.mlp"].weight_bytes == 3 * 48 * 64 * 4
    assert parts["rest"].weight_bytes == parts["sampling"].weight_bytes == 0


def test_hooks_are_gone_afterwards(tmp_path: Path) -> None:
    model = tiny_model()
    profile_step(Decoder(model, "off", tmp_path), REQUEST)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_compiled_step_is_one_part(tmp_path: Path) -> None:
    model = tiny_model().requires_grad_(False)
    decoder = Decoder(model, "default", tmp_path)
    step = DecodeStep(model, 256)
    decoder.built[256, 1] = BuiltStep(step, step, {})
    parts = {part.part: part for part in profile_step(decoder, REQUEST)}
    assert {part.kind for part in parts.values()} == {"compiled", "sampling", "rest"}
    assert parts["decode_step"].time_ms > parts["sampling"].time_ms
    assert parts["decode_step"].weight_bytes == pytest.approx(
        sum(weight.numel() * 4 for weight in model.parameters()), rel=0.01
    )
