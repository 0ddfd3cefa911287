"""What of a checkpoint's config.json vLLM has to be told again. Pure.

A wrapper may say at its top alone that the output head is the embedding. Transformers goes by that; vLLM's
text model goes by the wrapper's `text_config` (`Qwen3_5ForCausalLMBase` of 0.33), which then says nothing and
counts as untied: vLLM 0.32 served what lay in memory in the head's place, and every token was the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TIED = "tie_word_embeddings"


def config_overrides(config: Mapping[str, Any]) -> dict[str, Any]:
    """The argument `hf_overrides` for a checkpoint's config.json; nothing where it needs none."""
    text = config.get("text_config")
    if not isinstance(text, Mapping) or TIED in text or not config.get(TIED):
        return {}
    return {"hf_overrides": {"text_config": {TIED: True}}}
