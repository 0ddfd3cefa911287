"""What holds of the profile of a lone prompt of the packaged model in 16 bits, wherever it ran."""

from typing import Any

import pytest

from experiments.measurement.evidence import Json

VOCABULARY, HIDDEN = 4096, 128
ATTENTION_LAYERS, GDN_LAYERS, HEADS, HEAD_SIZE = 3, 9, 4, 64
"""Heads of queries and of values, keys and values of the same size, in both kinds of layers."""


def is_a_lone_prompt_by_part(record: Json) -> dict[str, dict[str, Any]]:
    """Asserts it; gives the parts by name."""
    prompt: Any = record
    assert "failure" not in prompt, prompt
    parts = {part["part"]: part for part in prompt["parts"]}
    assert sum(part["time_ms"] for part in parts.values()) == pytest.approx(prompt["first_token_ms"])
    assert prompt["prompt_steps"] == 1
    head, product = parts["lm_head"], parts["gate_up_proj"]
    assert head["operations"] == 2 * VOCABULARY * HIDDEN, "the head computes the last token alone"
    assert product["operations"] == prompt["prompt_tokens"] * product["weight_bytes"], "two of each weight"
    tokens = prompt["prompt_tokens"]
    pair, state = 2 * 2 * HEAD_SIZE, 3 * 2 * HEAD_SIZE**2
    assert parts["attention"]["operations"] == ATTENTION_LAYERS * HEADS * pair * tokens * (tokens + 1) // 2
    spared = 2 * HEAD_SIZE**3
    assert parts["gdn_state"]["operations"] == GDN_LAYERS * HEADS * (state * tokens - spared)
    assert {"in_proj_ba", "gdn_state", "conv1d", "attention", "small", "outside"} < parts.keys()
    assert not {"other", "draft"} & parts.keys(), prompt["kernels"]
    return parts
