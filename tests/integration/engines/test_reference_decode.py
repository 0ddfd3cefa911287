"""Decoding gives transformers' own greedy text, and a fixed-shape step computes what a growing cache does."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.cache_keyword import with_cache
from experiments.engines.port import GenerationRequest
from experiments.engines.reference.capacity import capacity_for
from experiments.engines.reference.compile import BuiltStep
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.state import SequenceState
from experiments.engines.reference.step import DecodeStep
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
    assert trace.step_tokens == ()
    assert len(set(expected)) > 5, "the text is too dull to tell anything"


def growing_and_fixed(
    model: Qwen3_5ForCausalLM, tokens: Sequence[int]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Logits of 12 steps after prompts of these lengths, by either cache; one state serves all prompts."""
    step, state = DecodeStep(model, 256), SequenceState.allocate(model, 256)
    for length in tokens:
        ids = prompt(length, length)
        cache = DynamicCache(config=model.config)
        with torch.inference_mode():
            model(torch.tensor([ids]), **with_cache(cache), use_cache=True)
            state.begin(cache, length)
            for token in prompt(length + 10, 12):
                fed = torch.tensor([[token]])
                growing = model(fed, **with_cache(cache), use_cache=True).logits[:, -1]
                report, fixed, *gated_delta = step(fed, torch.tensor(state.position), *state.inputs())
                state.keep(gated_delta, 1, 1)
                assert report.tolist() == [0, int(fixed.argmax())]
                yield growing, fixed


LENGTHS = (2, 70, 5)
"""A short prompt after a long one: what the long one left in the state must not leak."""


def test_the_fixed_shape_step_computes_what_the_growing_cache_computes() -> None:
    model = tiny_model(layers=LAYERS).requires_grad_(False)
    for growing, fixed in growing_and_fixed(model, LENGTHS):
        torch.testing.assert_close(fixed, growing, atol=1e-4, rtol=1e-4)


def test_in_bfloat16_the_fixed_shape_step_is_as_far_from_exact_as_the_growing_cache() -> None:
    model = tiny_model(layers=LAYERS).requires_grad_(False)
    exact = [growing for growing, _ in growing_and_fixed(model, LENGTHS)]
    rounded = list(growing_and_fixed(model.to(torch.bfloat16), LENGTHS))
    errors = [
        math.sqrt(
            sum(float((one - pair[which]).square().mean()) for one, pair in zip(exact, rounded, strict=True))
        )
        for which in (0, 1)
    ]
    assert errors[0] > 0
    assert errors[1] < 1.3 * errors[0]


def test_allocated_state_has_the_shapes_and_types_that_a_prefill_leaves() -> None:
    model = tiny_model(layers=LAYERS).to(torch.bfloat16)
    cache = DynamicCache(config=model.config)
    state = SequenceState.allocate(model, 256)
    allocated = [(tensor.shape, tensor.dtype, tensor.stride()) for tensor in state.inputs()]
    with torch.inference_mode():
        model(torch.tensor([prompt(0, 200)]), **with_cache(cache), use_cache=True)
        state.begin(cache, 200)
    assert [(tensor.shape, tensor.dtype, tensor.stride()) for tensor in state.inputs()] == allocated
    assert all(tensor.is_contiguous() for tensor in state.inputs())


def test_a_longer_request_gets_a_step_of_its_own_capacity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def uncompiled(step: DecodeStep, mode: str, cache_dir: Path) -> BuiltStep:
        made.append(step.capacity)
        return BuiltStep(step, step, {})

    tiny = tiny_model(layers=LAYERS[:2]).requires_grad_(False)
    eager = Decoder(tiny, "off", tmp_path)
    requests = [GenerationRequest("a", prompt(tokens, tokens), 20) for tokens in (20, 236, 30, 300)]
    expected = [eager.generate(request).token_ids for request in requests]
    monkeypatch.setattr("experiments.engines.reference.decode.build_step", uncompiled)
    decoder = Decoder(tiny, "default", tmp_path)
    assert [decoder.generate(request).token_ids for request in requests] == expected
    assert made == [256, 512]
    assert {key: step.calls for key, step in decoder.built.items()} == {(256, 1): 57, (512, 1): 19}


@pytest.mark.parametrize(("tokens", "capacity"), [(1, 256), (256, 256), (257, 512), (1025, 2048)])
def test_capacities_are_powers_of_two_from_256(tokens: int, capacity: int) -> None:
    assert capacity_for(tokens) == capacity
