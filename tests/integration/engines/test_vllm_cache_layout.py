"""The cache that a plan counts is the one that vLLM lays out, by its own functions.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one everything here is skipped. Those of
vLLM 0.32 are asked; a later one has them elsewhere.
"""

from __future__ import annotations

import json
import subprocess
from itertools import product

import pytest

from configs.models import ModelProfile, load_model_profile
from configs.weight_formats import BFLOAT16
from experiments.engines.device_memory import Held, reserved_cache_bytes
from experiments.engines.hybrid_cache import DrafterLayers, cache_layout
from experiments.engines.reference.drafting.order import layers_of
from experiments.shapes.drafter import drafter_for
from experiments.space.configuration import KnobValue
from tests.integration.engines.vllm_here import vllm_here

HERE, WHY_NOT = vllm_here()

pytestmark = [
    pytest.mark.skipif(HERE is None, reason=WHY_NOT),
    pytest.mark.skipif(
        HERE is not None and HERE.number != (0, 32), reason="the functions of vLLM 0.32 are asked"
    ),
]

THEIRS = """
import json, sys, torch
from types import SimpleNamespace
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateDtypeCalculator, MambaStateShapeCalculator
from vllm.utils.math_utils import cdiv
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec

def laid_out(asked):
    kv = torch.float8_e4m3fn if asked["kv"] == "fp8_e4m3" else torch.bfloat16
    shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(1, *asked["gdn"], asked["drafts"])
    dtypes = MambaStateDtypeCalculator.gated_delta_net_state_dtype(torch.bfloat16, "auto", asked["state"])
    state = MambaSpec(shapes=shapes, dtypes=dtypes, block_size=-1).page_size_bytes
    heads, size = asked["heads"]
    token = FullAttentionSpec(block_size=1, num_kv_heads=heads, head_size=size, dtype=kv).page_size_bytes
    tokens = 16 * cdiv(state, 16 * token)  # as Platform._align_hybrid_block_size, kernels for 16 tokens
    def attention(heads, size):
        return FullAttentionSpec(block_size=tokens, num_kv_heads=heads, head_size=size, dtype=kv)
    linear = MambaSpec(shapes=shapes, dtypes=dtypes, block_size=tokens, page_size_padded=tokens * token,
                       mamba_cache_mode=asked["mode"], num_speculative_blocks=asked["drafts"])
    specs = {f"{i}": attention(heads, size) for i in range(asked["attention"])}
    specs |= {f"gdn {i}": linear for i in range(asked["linear"])}
    specs |= {f"drafter {i}": attention(*asked["drafter"][1:]) for i in range(asked["drafter"][0])}
    specs = kv_cache_utils.unify_kv_cache_spec_page_size(specs)
    groups = kv_cache_utils._get_kv_cache_groups_uniform_page_size(specs)
    config = SimpleNamespace(
        cache_config=SimpleNamespace(mamba_cache_mode=asked["mode"]),
        model_config=SimpleNamespace(max_model_len=asked["length"]),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1))
    def held(linear):
        specs = [group.kv_cache_spec for group in groups]
        return sum(cdiv(spec.max_memory_usage_bytes(config), spec.page_size_bytes)
                   for spec in specs if isinstance(spec, MambaSpec) == linear)
    page = groups[0].kv_cache_spec.page_size_bytes
    return [tokens, page * max(len(group.layer_names) for group in groups), held(False), held(True)]

print(json.dumps([laid_out(asked) for asked in json.load(sys.stdin)]))
"""

DRAFTS = (("none", 0), ("ngram", 3), ("mtp", 1), ("mtp", 4), ("dflash", 7), ("dflash", 15))
LENGTH = 4096


def _asked(
    profile: ModelProfile, configuration: dict[str, KnobValue], drafter: DrafterLayers | None
) -> object:
    mtp = profile.mtp_layers if configuration["drafting.method"] == "mtp" else 0
    return {
        "kv": configuration["serving.kv_cache_dtype"],
        "state": configuration["serving.gdn_state_dtype"],
        "mode": "align" if configuration["serving.prefix_caching"] == "on" else "none",
        "drafts": configuration.get("drafting.draft_tokens", 0),
        "length": LENGTH,
        "attention": profile.layer_types.count("full_attention") + mtp,
        "linear": profile.layer_types.count("linear_attention"),
        "heads": (profile.attention_kv_heads, profile.attention_head_dim),
        "gdn": (
            profile.gdn_k_heads,
            profile.gdn_v_heads,
            profile.gdn_k_head_dim,
            profile.gdn_v_head_dim,
            profile.gdn_conv_kernel,
        ),
        "drafter": (0, 1, 1) if drafter is None else (drafter.layers, drafter.kv_heads, drafter.head_dim),
    }


def test_every_layout_is_that_of_vllm_and_what_is_reserved_has_room_for_it_on_every_card() -> None:
    assert HERE is not None
    cases = []
    for size, (method, drafts), kv, state, prefixes in product(
        ("0.8b", "2b", "4b", "9b", "27b"),
        DRAFTS,
        ("auto", "fp8_e4m3"),
        ("float32", "bfloat16"),
        ("off", "on"),
    ):
        whole = load_model_profile(f"qwen3.5-{size}")
        configuration: dict[str, KnobValue] = {
            "drafting.method": method,
            "serving.kv_cache_dtype": kv,
            "serving.gdn_state_dtype": state,
            "serving.prefix_caching": prefixes,
        } | ({"drafting.draft_tokens": drafts} if drafts else {})
        alike = DrafterLayers(5, whole.attention_kv_heads, whole.attention_head_dim)
        for profile in (whole, whole.without_layers(frozenset({3, 4}))):
            drafters = (alike, layers_of(drafter_for(profile))) if method == "dflash" else (None,)
            cases += [(profile, configuration, drafter) for drafter in drafters]
    asked = json.dumps([_asked(*case) for case in cases])
    done = subprocess.run(
        [HERE.python, "-c", THEIRS], input=asked, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert len(theirs) == len(cases) == 640
    for (profile, configuration, drafter), (tokens, block_bytes, kv_blocks, state_blocks) in zip(
        cases, theirs, strict=True
    ):
        layout = cache_layout(profile, configuration, drafter)
        ours = layout.page_tokens, layout.block_bytes, layout.kv_blocks(LENGTH), layout.state_blocks
        assert ours == (tokens, block_bytes, kv_blocks, state_blocks), (profile.name, configuration)
        drafts = configuration.get("drafting.draft_tokens", 0)
        assert isinstance(drafts, int)
        one = Held(profile, BFLOAT16, LENGTH, draft_tokens=drafts, window_tokens=drafts)
        for memory, sequences in product((8, 12, 16, 24, 80), (1, 4, 16, 64)):
            least = layout.least_bytes(sequences, LENGTH)
            blocks = reserved_cache_bytes(one, sequences, least, memory * 10**9) // block_bytes
            assert blocks - 1 >= kv_blocks + state_blocks  # else vLLM refuses to start
            assert blocks >= sequences  # else it captures no graphs
