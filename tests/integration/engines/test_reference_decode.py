"""Decoding gives transformers' own greedy text; the fixed-shape step computes what the growing cache computes."""

from pathlib import Path

import pytest
import torch
from transformers.cache_utils import DynamicCache

from experiments.engines.port import GenerationRequest
from experiments.engines.reference.compile import CompiledStep
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.step import DecodeStep, allocate_state, capacity_for, copy_state
from tests.integration.engines.checkpoints import LAYERS, VOCABULARY, tiny_model


def prompt(seed: int, tokens: int) -> tuple[int, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(VOCABULARY, (tokens,), generator=generator).tolist())


@pytest.mark.parametrize("tokens", [1, 3, 63, 64, 65, 130])
def test_greedy_text_is_that_of_generate(tmp_path: Path, tokens: int) -> None:
    model = tiny_model(layers=LAYERS)
    ids = prompt(tokens, tokens)
    with torch.inference_mode():
        expected = model.generate(
            torch.tensor([ids]), max_new_tokens=40, min_new_tokens=40, do_sample=False, eos_token_id=None
        )[0, tokens:].tolist()
    trace = Decoder(model, "off", tmp_path).generate(GenerationRequest("a", ids, 40))
    assert list(trace.token_ids) == expected
    assert len(set(expected)) > 5, "the text is too dull to tell anything"


BFLOAT16_ULPS = 4
"""Least steps of bfloat16 by which two orders of the same sums may differ after five layers."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fixed_shape_step_computes_what_the_growing_cache_computes(dtype: torch.dtype) -> None:
    model = tiny_model(layers=LAYERS).to(dtype).requires_grad_(False)
    step, state = DecodeStep(model, 256), allocate_state(model, 256)
    for seed, tokens in (
        (1, 2),
        (2, 70),
        (3, 5),
    ):  # the state of a longer sequence must not leak into the next
        ids = prompt(seed, tokens)
        cache = DynamicCache(config=model.config)
        with torch.inference_mode():
            model(torch.tensor([ids]), past_key_values=cache, use_cache=True)
            copy_state(cache, state)
            for place, token in enumerate(prompt(seed + 10, 12)):
                fed = torch.tensor([[token]])
                expected = model(fed, past_key_values=cache, use_cache=True).logits[:, -1]
                logits, best = step(fed, torch.tensor(tokens + place), *state)
                step_at_largest = float(expected.abs().max()) * torch.finfo(dtype).eps
                near = BFLOAT16_ULPS * step_at_largest if dtype == torch.bfloat16 else 1e-4
                torch.testing.assert_close(logits, expected, atol=near, rtol=0)
                assert int(best) == int(logits.argmax())


def test_allocated_state_has_the_shapes_and_types_of_a_prefill() -> None:
    model = tiny_model(layers=LAYERS).to(torch.bfloat16)
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        model(torch.tensor([prompt(0, 256)]), past_key_values=cache, use_cache=True)
    state = iter(allocate_state(model, 256))
    for layer, kind in zip(cache.layers, LAYERS, strict=True):
        found = (
            (layer.conv_states[0], layer.recurrent_states[0])
            if kind == "linear_attention"
            else (layer.keys, layer.values)
        )
        for tensor in found:
            allocated = next(state)
            assert (allocated.shape, allocated.dtype) == (tensor.shape, tensor.dtype)


def test_a_longer_request_gets_a_step_of_its_own_capacity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []

    def uncompiled(model: object, mode: str, capacity: int, cache_dir: Path) -> CompiledStep:
        built.append(capacity)
        return CompiledStep(capacity, DecodeStep(tiny, capacity), allocate_state(tiny, capacity), {})

    tiny = tiny_model(layers=LAYERS[:2]).requires_grad_(False)
    monkeypatch.setattr("experiments.engines.reference.decode.compile_step", uncompiled)
    decoder, eager = Decoder(tiny, "default", tmp_path), Decoder(tiny, "off", tmp_path)
    for tokens in (20, 250, 30, 300):
        request = GenerationRequest("a", prompt(tokens, tokens), 20)
        assert decoder.generate(request).token_ids == eager.generate(request).token_ids
    assert built == [256, 512]
    assert {capacity: step.calls for capacity, step in decoder.compiled.items()} == {256: 38, 512: 38}


@pytest.mark.parametrize(("tokens", "capacity"), [(1, 256), (256, 256), (257, 512), (1025, 2048)])
def test_capacities_are_powers_of_two_from_256(tokens: int, capacity: int) -> None:
    assert capacity_for(tokens) == capacity
