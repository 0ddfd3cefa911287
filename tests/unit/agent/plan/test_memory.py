"""What a launch takes on an engine that computes with packed weights follows from shape and configuration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plan.memory import usable_bytes
from agent.surrogate.weight_bytes import step_weight_bytes
from configs.models import ModelProfile, load_model_profile
from configs.weight_formats import BFLOAT16
from experiments.engines.device_memory import Held, reserved_cache_bytes
from experiments.engines.hybrid_cache import DrafterLayers, cache_layout, hybrid_cache
from experiments.engines.launch_memory import Asked, after_pruning, launch_parts, needed_bytes, weight_bytes
from experiments.engines.reference.shape import read_profile
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import KnobValue

GB = 1e9
SIZES = ("0.8b", "2b", "4b", "9b", "27b")
G128: dict[str, KnobValue] = {
    "quantization.method": "awq",
    "quantization.bits": 4,
    "quantization.group_size": 128,
    "quantization.symmetric": True,
}


def shape(size: str) -> ModelProfile:
    return load_model_profile(f"qwen3.5-{size}")


def bytes_of(size: str, configuration: dict[str, KnobValue], **asked: int) -> dict[str, int]:
    parts = launch_parts(shape(size), configuration, Asked(**{"context_tokens": 1024, **asked}))  # type: ignore[arg-type]
    return {part.name: part.bytes for part in parts}


@pytest.mark.parametrize(
    ("size", "configuration", "tokens"),
    [("27b", {"serving.kv_cache_dtype": "fp8"}, 1568), ("9b", {}, 528), ("4b", {}, 528)],
)
def test_a_page_has_as_many_tokens_as_the_engine_says_that_it_sets(
    size: str, configuration: dict[str, KnobValue], tokens: int
) -> None:
    """vLLM's log of a 27B shape with an 8-bit cache: `Setting attention block size to 1568 tokens`."""
    assert hybrid_cache(shape(size), configuration, 100).page_tokens == tokens


@pytest.mark.parametrize("size", SIZES)
def test_the_cache_holds_the_context_and_wastes_less_than_a_page_a_layer(size: str) -> None:
    profile = shape(size)
    for tokens in (1, 500, 528, 5000):
        found = hybrid_cache(profile, {}, tokens)
        exact = tokens * profile.kv_bytes_per_token
        page = found.page_tokens * profile.kv_bytes_per_token
        assert exact <= found.kv_bytes < exact + page


@pytest.mark.parametrize("size", SIZES)
def test_a_state_fits_into_its_page_and_drafting_holds_one_more_a_token(size: str) -> None:
    profile = shape(size)
    plain = hybrid_cache(profile, {}, 512).state_bytes
    assert profile.gdn_state_bytes < plain < 1.1 * profile.gdn_state_bytes
    drafting: dict[str, KnobValue] = {"drafting.method": "ngram", "drafting.draft_tokens": 3}
    # a little more than four, for each window is longer by the tokens that may be taken back
    assert 4 * plain < hybrid_cache(profile, drafting, 512).state_bytes < 4.2 * plain
    # a little more than half, for the window stays
    halved = hybrid_cache(profile, {"serving.gdn_state_dtype": "bfloat16"}, 512).state_bytes
    assert plain / 2 < halved < 0.55 * plain


@pytest.mark.parametrize("size", SIZES)
def test_more_drafted_tokens_take_a_page_of_states_each_in_a_plan(size: str) -> None:
    def states(tokens: int) -> int:
        drafting: dict[str, KnobValue] = {"drafting.method": "dflash", "drafting.draft_tokens": tokens}
        return bytes_of(size, drafting)["GDN and conv state"]

    # 16 states for 8, and each window longer by eight tokens
    assert 2 * states(7) < states(15) < 2.2 * states(7)


MTP_4: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 4}
DFLASH_7: dict[str, KnobValue] = {"drafting.method": "dflash", "drafting.draft_tokens": 7}


@pytest.mark.parametrize(
    ("size", "configuration", "page_tokens", "block_bytes", "kv_blocks", "state_blocks"),
    [
        ("0.8b", {}, 544, 6_684_672, 8, 3),
        ("0.8b", MTP_4, 560, 8_028_160, 8, 15),
        ("4b", {}, 528, 17_301_504, 8, 3),
        ("4b", {"serving.prefix_caching": "on"}, 528, 17_301_504, 8, 6),
        ("9b", {"drafting.method": "mtp", "drafting.draft_tokens": 1}, 528, 19_464_192, 8, 6),
        ("9b", DFLASH_7, 560, 29_818_880, 8, 16),
        (
            "9b",
            {"serving.kv_cache_dtype": "fp8_e4m3", "serving.gdn_state_dtype": "bfloat16"},
            544,
            8_912_896,
            8,
            3,
        ),
    ],
)
def test_a_cache_is_laid_out_in_blocks_as_by_the_engine(
    size: str,
    configuration: dict[str, KnobValue],
    page_tokens: int,
    block_bytes: int,
    kv_blocks: int,
    state_blocks: int,
) -> None:
    """Figures of vLLM 0.32's own functions for 4,096 tokens, which
    `tests/integration/engines/test_vllm_cache_layout.py` asks for 480 such cases."""
    drafter = DrafterLayers(5, 4, 256) if configuration.get("drafting.method") == "dflash" else None
    found = cache_layout(shape(size), configuration, drafter)
    assert (found.page_tokens, found.block_bytes) == (page_tokens, block_bytes)
    assert (found.kv_blocks(4096), found.state_blocks) == (kv_blocks, state_blocks)


@pytest.mark.parametrize(
    ("drafting", "drafts", "page_tokens", "concurrency"),
    [("none", 0, 80, 136.50), ("mtp", 3, 80, 65.52), ("ngram", 9, 96, 44.39)],
)
def test_blocks_are_those_that_vllm_told_on_an_h200(
    drafting: str, drafts: int, page_tokens: int, concurrency: float
) -> None:
    """The log of vLLM 0.33 for the packaged model with states in bfloat16 and a cache of 256 MiB says so:
    "Setting attention block size to 80 tokens", "Maximum concurrency for 1,024 tokens per request: 136.50x"
    (2026-11-28, the loads of docs/results/h200-levers-once-vllm-0.33.md)."""
    layout = cache_layout(
        read_profile(reference_model_path()),
        {
            "drafting.method": drafting,
            "drafting.draft_tokens": drafts,
            "serving.gdn_state_dtype": "bfloat16",
        },
    )
    assert layout.page_tokens == page_tokens
    blocks = 256 * 2**20 // layout.block_bytes
    each = layout.state_blocks + layout.kv_blocks(1024)
    assert blocks / each == pytest.approx(concurrency, abs=0.005)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("drafts", [0, 1, 7, 15])
@pytest.mark.parametrize("sequences", [1, 16, 64])
@pytest.mark.parametrize("memory", [8 * 10**9, None])
def test_the_cache_that_is_reserved_has_room_for_a_whole_sequence_beside_the_states_of_all(
    size: str, drafts: int, sequences: int, memory: int | None
) -> None:
    drafting: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": drafts}
    configuration: dict[str, KnobValue] = {**(drafting if drafts else {}), "serving.prefix_caching": "on"}
    one = Held(shape(size), BFLOAT16, 32768, draft_tokens=drafts, window_tokens=drafts)
    layout = cache_layout(shape(size), configuration)
    reserved = reserved_cache_bytes(one, sequences, layout.least_bytes(sequences, 32768), memory)
    # one block is kept free, and without room for one whole sequence vLLM does not start
    assert reserved // layout.block_bytes - 1 >= layout.kv_blocks(32768) + sequences * layout.state_blocks
    assert layout.sequences_that_fit(32768, reserved) >= 1
    assert layout.sequences_that_fit(100, reserved) >= sequences


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("configuration", [{}, G128, {**G128, "quantization.lm_head": "quantized"}])
def test_what_stays_in_memory_is_what_a_step_reads_and_the_embedding(
    size: str, configuration: dict[str, KnobValue]
) -> None:
    profile = shape(size)
    table = 2.0 * profile.vocabulary * profile.hidden
    one_row = 2.0 * profile.hidden
    shared = profile.tied_embeddings and configuration.get("quantization.lm_head") != "quantized"
    expected = step_weight_bytes(profile, configuration).mean - one_row + (0 if shared else table)
    assert weight_bytes(profile, configuration) == pytest.approx(expected)


def test_published_sizes() -> None:
    """9B: 17.9 GB in 16 bits; with 4-bit projections in groups of 128 5.6 a step and 2.0 of embedding."""
    assert bytes_of("9b", {})["weights"] / GB == pytest.approx(17.91, abs=0.01)
    assert bytes_of("9b", G128)["weights"] / GB == pytest.approx(7.65, abs=0.05)
    assert bytes_of("4b", {})["weights"] / GB == pytest.approx(8.41, abs=0.01)


def test_a_head_counts_where_it_drafts_and_its_layer_has_a_cache() -> None:
    drafting: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 1}
    plain, drafted = bytes_of("9b", {}), bytes_of("9b", drafting)
    assert "MTP head" not in plain
    assert drafted["MTP head"] == pytest.approx(486.6e6, rel=5e-3)
    assert drafted["KV cache"] == pytest.approx(plain["KV cache"] * 9 / 8, rel=0.03)


@pytest.mark.parametrize(
    ("size", "drafting", "copies"),
    [("4b", "mtp", 1), ("9b", "mtp", 2), ("4b", "dflash", 2), ("9b", "dflash", 2), ("9b", "ngram", 0)],
)
def test_what_drafts_needs_room_for_its_own_embedding_and_head_until_it_has_loaded(
    size: str, drafting: str, copies: int
) -> None:
    """vLLM builds an MTP head with both (one where they are tied), a DFlash drafter always, and shares the
    model's own afterwards. Of a load that takes less later that is the most it ever takes."""
    lean: dict[str, KnobValue] = {"serving.graph_mode": "none", "serving.max_sequences": 1}
    configuration: dict[str, KnobValue] = {
        **lean,
        "drafting.method": drafting,
        "drafting.draft_tokens": 1,
        "serving.max_model_len": 2048,
    }
    parts = bytes_of(size, configuration, card_bytes=24 * 10**9)
    table = 2 * shape(size).vocabulary * shape(size).hidden
    held = parts["weights"] + parts["process"] + parts.get("MTP head", 0)
    assert sum(parts.values()) >= held + copies * table
    assert ("more while it loads" in parts) == (sum(parts.values()) == held + copies * table)
    assert ("more while it loads" in parts) == (copies > 0)


@pytest.mark.parametrize(("value", "bits"), [("fp8", 8.0), ("nvfp4", 4.5)])
def test_a_copy_of_the_output_head_that_drafts_counts_beside_the_model_s_own(value: str, bits: float) -> None:
    drafting: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 1}
    own, copied = bytes_of("9b", drafting), bytes_of("9b", {**drafting, "drafting.lm_head": value})
    profile = load_model_profile("qwen3.5-9b")
    assert "output head that drafts" not in own
    assert copied["output head that drafts"] == profile.vocabulary * profile.hidden * bits / 8
    assert copied["weights"] == own["weights"]


def test_a_drafter_s_own_layers_keep_a_cache_in_the_plan_of_a_small_card() -> None:
    """A launch reserves what vLLM needs for them too (`reserved_cache.py`), so a plan counts no less."""
    configuration: dict[str, KnobValue] = {
        **DFLASH_7,
        "serving.max_sequences": 16,
        "serving.max_model_len": 4096,
    }
    drafter = DrafterLayers(5, 4, 256)
    asked = Asked(640, card_bytes=12 * 10**9, drafter=drafter)
    parts = {part.name: part.bytes for part in launch_parts(shape("9b"), configuration, asked)}
    least = cache_layout(shape("9b"), configuration, drafter).least_bytes(16, 4096)
    held = sum(parts[name] for name in ("KV cache", "GDN and conv state", "cache reserved beyond that"))
    assert held == least > cache_layout(shape("9b"), configuration).least_bytes(16, 4096)


def test_weights_that_are_stored_quantized_count_as_they_are_stored() -> None:
    assert bytes_of("9b", {}, stored_weight_bytes=7_000_000_000)["weights"] == 7_000_000_000


def test_without_graphs_they_take_nothing() -> None:
    assert "CUDA graphs" in bytes_of("4b", {})
    assert "CUDA graphs" not in bytes_of("4b", {"serving.graph_mode": "none"})


def test_each_further_size_of_a_graph_takes_as_much_as_those_that_were_logged() -> None:
    """One for each 16 tokens: 32 more up to 1,024, beside the 86 of the log up to 512."""
    taken = {
        tokens: bytes_of("4b", {"serving.max_graph_tokens": tokens})["CUDA graphs"]
        for tokens in ("auto", 512, 1024, 2048)
    }
    assert taken["auto"] == taken[512]
    told = {
        part.name: part.basis
        for part in launch_parts(shape("4b"), {"serving.max_graph_tokens": 2048}, Asked(128))
    }
    assert told["CUDA graphs"].endswith("for 86 sizes, and as much for each of 96 more")
    assert taken[1024] / taken[512] == pytest.approx((86 + 32) / 86)
    assert taken[2048] / taken[512] == pytest.approx((86 + 96) / 86)


def test_a_drafter_and_more_sequences_are_paid_for() -> None:
    assert bytes_of("4b", {}, drafter_bytes=123)["drafter"] == 123
    one, many = bytes_of("4b", {}), bytes_of("4b", {}, sequences=64)
    for part in ("KV cache", "GDN and conv state"):
        assert many[part] == 64 * one[part]


@given(st.integers(1, 8), st.sampled_from(["any", "gdn", "attention"]), st.sampled_from(SIZES))
def test_layers_that_go_make_it_smaller_and_are_of_the_kind_that_may(
    count: int, restrict: str, size: str
) -> None:
    knobs: dict[str, KnobValue] = {
        "pruning.method": "depth",
        "pruning.layers_removed": count,
        "pruning.restrict": restrict,
    }
    whole, left = shape(size), after_pruning(shape(size), knobs)
    assert whole.layers - left.layers == min(count, whole.layers - 1, _of_kind(whole, restrict))
    assert weight_bytes(left, {}) < weight_bytes(whole, {})
    for kind, other in (("gdn", "full_attention"), ("attention", "linear_attention")):
        if restrict == kind:
            assert left.layer_types.count(other) == whole.layer_types.count(other)


def _of_kind(profile: ModelProfile, restrict: str) -> int:
    kinds = {"any": profile.layer_types, "gdn": ("linear_attention",), "attention": ("full_attention",)}
    return sum(each in kinds[restrict] for each in profile.layer_types)


def test_an_engine_takes_nine_tenths_of_a_card_and_no_more_than_is_free() -> None:
    assert usable_bytes(24 * 10**9) == 21_600_000_000
    assert usable_bytes(24 * 10**9, 5 * 10**9) == 5 * 10**9


def test_each_part_says_what_it_rests_on() -> None:
    parts = launch_parts(shape("4b"), G128, Asked(1024))
    assert all(part.basis for part in parts)
    assert needed_bytes(parts) == sum(part.bytes for part in parts)


def test_the_logits_of_a_document_that_is_scored_are_counted_where_they_are_more_than_a_prefill() -> None:
    """vLLM makes log-probabilities of all its tokens at once: 8 bytes for each word of the vocabulary."""
    one: dict[str, KnobValue] = {"serving.max_sequences": 1}
    prefill = bytes_of("9b", one)["activations"]
    assert bytes_of("9b", one, scored_tokens=8)["activations"] == prefill
    scored = bytes_of("9b", one, scored_tokens=2048)["activations"]
    assert scored == pytest.approx(8 * 2048 * 248_320, rel=1e-3)
    parts = launch_parts(shape("9b"), one, Asked(2048, scored_tokens=2048))
    told = [part.basis for part in parts if part.name == "activations"]
    assert told == ["logits of a scored document of 2,048 tokens; a guess"]


@pytest.mark.parametrize(
    ("card_gib", "tokens"), [(8, 2048), (24, 2048), (79, 8192), (139, 8192), (179, 16_384)]
)
def test_a_prefill_is_of_as_many_tokens_as_vllm_s_server_reads_a_step_on_the_card(
    card_gib: int, tokens: int
) -> None:
    """`EngineArgs.get_batch_defaults` of vLLM 0.32 and 0.33 for its server."""
    parts = launch_parts(shape("9b"), {}, Asked(128, card_bytes=card_gib * 2**30))
    assert [part.basis for part in parts if part.name == "activations"] == [
        f"a prefill of {tokens:,} tokens; a guess"
    ]


@pytest.mark.parametrize("card_gib", [8, 139])
def test_a_prefill_is_of_as_many_tokens_as_are_asked_for_on_any_card(card_gib: int) -> None:
    asked = Asked(128, card_bytes=card_gib * 2**30)
    fewer, more = (
        {part.name: part for part in launch_parts(shape("9b"), {"serving.max_batch_tokens": tokens}, asked)}
        for tokens in (4096, 16_384)
    )
    assert fewer["activations"].basis == "a prefill of 4,096 tokens; a guess"
    assert more["activations"].bytes > fewer["activations"].bytes


def test_the_cache_has_room_for_one_sequence_of_the_longest() -> None:
    short, long = bytes_of("4b", {}), bytes_of("4b", {"serving.max_model_len": 32768})
    assert long["KV cache"] == bytes_of("4b", {}, context_tokens=32768)["KV cache"] > short["KV cache"]
    fewer = bytes_of("4b", {"serving.max_sequences": 16})
    assert fewer["activations"] < short["activations"]
