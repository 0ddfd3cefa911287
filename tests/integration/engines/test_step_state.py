"""A step of several tokens computes what steps of one compute, and goes back to any of them exactly."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.cache_keyword import with_cache
from experiments.engines.reference.gated_delta import gated_delta_tokens
from experiments.engines.reference.state import SequenceState
from experiments.engines.reference.step import DecodeStep
from tests.integration.engines.checkpoints import LAYERS, VOCABULARY, tiny_model
from tests.integration.engines.test_reference_decode import prompt

TOLERANCE = 5e-3
"""Of logits that spread over some tens, in float32: matrix products of other shapes differ in their last
bits; 9e-4 was seen in some thousand draws. A state of the wrong position moves logits by whole units."""

STATE_TOLERANCE = 3e-3
"""Of states with entries of order one, after several layers in float32; 5e-4 was seen there. A state of the
wrong position differs by tenths."""


@cache
def target() -> Qwen3_5ForCausalLM:
    return tiny_model(layers=LAYERS).requires_grad_(False)


def after_prompt(length: int) -> SequenceState:
    cache = DynamicCache(config=target().config)
    state = SequenceState.allocate(target(), 256)
    with torch.inference_mode():
        target()(torch.tensor([prompt(length, length)]), **with_cache(cache), use_cache=True)
        state.begin(cache, length)
    return state


def read(state: SequenceState, tokens: tuple[int, ...], kept: int) -> torch.Tensor:
    """Read tokens at once and keep some; the logits."""
    with torch.inference_mode():
        _, logits, *gated_delta = DecodeStep(target(), 256, len(tokens))(
            torch.tensor([tokens]), torch.tensor(state.position), *state.inputs()
        )
        state.keep(gated_delta, len(tokens), kept)
    return logits


tokens_lists = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8).map(tuple)


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 80), tokens=tokens_lists, data=st.data())
def test_keeping_some_of_a_step_is_as_if_only_they_had_been_read(
    length: int, tokens: tuple[int, ...], data: st.DataObject
) -> None:
    kept = data.draw(st.integers(1, len(tokens)), label="kept")
    together, alone = after_prompt(length), after_prompt(length)
    logits = read(together, tokens, kept)
    for place, token in enumerate(tokens[:kept]):
        torch.testing.assert_close(
            logits[place : place + 1], read(alone, (token,), 1), atol=TOLERANCE, rtol=0
        )
    assert together.position == alone.position == length + kept
    for index, kind in enumerate(LAYERS):
        for one, other in zip(
            together.layers[2 * index : 2 * index + 2], alone.layers[2 * index : 2 * index + 2], strict=True
        ):
            if kind == "full_attention":  # what lies beyond is written again before it is seen
                one, other = one[:, :, : together.position], other[:, :, : together.position]
            torch.testing.assert_close(one, other, atol=STATE_TOLERANCE, rtol=0)
            assert one.dtype == other.dtype
    following = (7, 11, 13)
    torch.testing.assert_close(
        read(together, following, 3), read(alone, following, 3), atol=TOLERANCE, rtol=0
    )


def test_going_back_is_exact_to_the_last_bit_and_copies_nothing() -> None:
    state = after_prompt(20)
    step = DecodeStep(target(), 256, 4)
    with torch.inference_mode():
        _, _, *gated_delta = step(torch.tensor([[1, 2, 3, 4]]), torch.tensor(20), *state.inputs())
        state.keep(gated_delta, 4, 2)
    windows_and_states = [
        tensor for tensor, kind in zip(state.layers[::2], LAYERS, strict=True) if kind == "linear_attention"
    ]
    for window, rows in zip(windows_and_states, gated_delta[::2], strict=True):
        assert window.data_ptr() == rows[2].data_ptr()
        assert window.is_contiguous()
    states = [
        tensor for tensor, kind in zip(state.layers[1::2], LAYERS, strict=True) if kind == "linear_attention"
    ]
    for recurrent, slots in zip(states, gated_delta[1::2], strict=True):
        assert recurrent.data_ptr() == slots[1].data_ptr()
        assert torch.equal(recurrent, slots[1])


def test_a_mark_brings_back_what_was_there() -> None:
    state = after_prompt(9)
    read(state, (5,), 1)
    mark = state.mark()
    expected = read(state, (6, 7), 2)
    read(state, (8,), 1)
    state.back_to(mark)
    assert torch.equal(read(state, (6, 7), 2), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_token_through_a_layer_is_what_the_library_s_layer_makes_of_it(dtype: torch.dtype) -> None:
    model = tiny_model(layers=LAYERS).requires_grad_(False).to(dtype)
    layer = model.model.layers[0].linear_attn
    cache = DynamicCache(config=model.config)
    torch.manual_seed(0)
    hidden = torch.randn(1, 40, model.config.hidden_size, dtype=dtype)
    with torch.inference_mode():
        layer(hidden, cache)
        window = cache.layers[0].conv_states[0][0, :, 1:].T.contiguous()
        recurrent = cache.layers[0].recurrent_states[0][0].float().clone()
        for _ in range(5):
            one = torch.randn(1, 1, model.config.hidden_size, dtype=dtype)
            expected = layer(one, cache)
            output, rows, states = gated_delta_tokens(layer, one, window, recurrent)
            window, recurrent = rows[1:], states[0]
            close = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.02, "rtol": 0.02}
            torch.testing.assert_close(output, expected, **close)
            torch.testing.assert_close(window, cache.layers[0].conv_states[0][0, :, 1:].T, **close)
            torch.testing.assert_close(recurrent, cache.layers[0].recurrent_states[0][0].float(), **close)
