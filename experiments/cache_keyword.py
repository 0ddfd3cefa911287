"""Hand a cache to transformers' Qwen3.5 modules under the name that the installed version takes it by.

transformers 5.24 renamed `past_key_values` to `cache` in every module at once and warns of the old name; the
environments of vLLM and llmcompressor hold older versions, which know only that one.
"""

import inspect
from typing import Any

from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextModel

CACHE_KEYWORD = (
    "cache" if "cache" in inspect.signature(Qwen3_5TextModel.forward).parameters else "past_key_values"
)


def with_cache(cache: Any) -> dict[str, Any]:
    """The keyword argument that gives a model, a decoder layer or its attention this cache."""
    return {CACHE_KEYWORD: cache}
