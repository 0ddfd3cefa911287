"""The largest captured step is told where it is a choice, and nowhere else."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from experiments.engines.vllm.describe import UNKNOWN, captured


def config(mode: str, **sizes: int) -> SimpleNamespace:
    """vLLM's, as far as it is read."""
    return SimpleNamespace(
        compilation_config=SimpleNamespace(cudagraph_mode=SimpleNamespace(name=mode), **sizes)
    )


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL_AND_PIECEWISE"])
def test_it_is_told_where_steps_with_prompts_are_captured_in_pieces(mode: str) -> None:
    assert captured(config(mode, max_cudagraph_capture_size=512)) == {"max_graph_tokens": 512}
    assert captured(config(mode)) == {"max_graph_tokens": UNKNOWN}


@pytest.mark.parametrize("mode", ["NONE", "FULL", "FULL_DECODE_ONLY"])
def test_no_other_mode_has_the_choice(mode: str) -> None:
    """What was scored before this was told keeps the same resolved configuration."""
    assert captured(config(mode, max_cudagraph_capture_size=32)) == {}
