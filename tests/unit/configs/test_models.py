"""Derived figures against the published ones and against transformers' own classes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.catalog import Kind, packaged_names
from configs.checkpoints import profile_of_checkpoint
from configs.errors import UsageError
from configs.models import EVERY_EXPERT, Experts, ModelProfile, PartKind, load_model_profile
from configs.weight_formats import BFLOAT16, WEIGHT_FORMATS, grouped_4_bit
from experiments.reference_model import architecture

MODELS = packaged_names(Kind.MODELS)
REFERENCE_CONFIG = Path(architecture.__file__).parent / "weights" / "config.json"

# Size, text parameters (10⁹) and MTP parameters (10⁶), as published.
PUBLISHED_PARAMETERS = [
    ("qwen3.5-0.8b", 0.752, 20.5),
    ("qwen3.5-2b", 1.88, 61),
    ("qwen3.5-4b", 4.206, 120.6),
    ("qwen3.5-9b", 8.954, 243.3),
    ("qwen3.5-27b", 26.90, 425),
]

# Gigabytes of weights a decode step reads.
STEP_GIGABYTES = [
    ("qwen3.5-4b", "bfloat16", 8.41),
    ("qwen3.5-4b", "fp8", 4.85),
    ("qwen3.5-4b", "w4_g128", 3.13),
    ("qwen3.5-4b", "w4_g32", 3.34),
    ("qwen3.5-4b", "w4_g128_head", 2.19),
    ("qwen3.5-9b", "bfloat16", 15.87),
    ("qwen3.5-9b", "fp8", 8.96),
    ("qwen3.5-9b", "w4_g128", 5.64),
    ("qwen3.5-9b", "w4_g32", 6.05),
    ("qwen3.5-9b", "w4_g128_head", 4.13),
]


@pytest.mark.parametrize(("name", "text", "mtp"), PUBLISHED_PARAMETERS)
def test_parameters_are_the_published_ones(name: str, text: float, mtp: float) -> None:
    profile = load_model_profile(name)
    assert profile.text_parameters / 1e9 == pytest.approx(text, rel=2e-3)
    assert profile.mtp_parameters / 1e6 == pytest.approx(mtp, rel=5e-3)


@pytest.mark.parametrize(("name", "weights", "gigabytes"), STEP_GIGABYTES)
def test_step_bytes_are_those_of_the_floor(name: str, weights: str, gigabytes: float) -> None:
    step = load_model_profile(name).weight_bytes_per_step(WEIGHT_FORMATS[weights])
    assert step / 1e9 == pytest.approx(gigabytes, abs=0.0065)


@pytest.mark.parametrize("name", ["qwen3.5-4b", "qwen3.5-9b"])
def test_state_and_cache_are_those_of_the_floor(name: str) -> None:
    profile = load_model_profile(name)
    assert profile.gdn_state_bytes == 48 * 2**20
    assert profile.kv_bytes_per_token == 32_768


def test_bits_per_weight_count_scales_and_zero_points() -> None:
    assert grouped_4_bit(128).matmul_bits == pytest.approx(4.156, abs=5e-4)
    assert grouped_4_bit(32).matmul_bits == 4.625


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_that_transformers_creates(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    profile = load_model_profile(name)
    config_class, model_class = transformers.Qwen3_5TextConfig, transformers.Qwen3_5ForCausalLM
    if profile.experts is not None:
        config_class, model_class = transformers.Qwen3_5MoeTextConfig, transformers.Qwen3_5MoeForCausalLM
    config = config_class(
        **widths_of(profile),
        vocab_size=profile.vocabulary,
        hidden_size=profile.hidden,
        num_hidden_layers=profile.layers,
        layer_types=list(profile.layer_types),
        num_attention_heads=profile.attention_q_heads,
        num_key_value_heads=profile.attention_kv_heads,
        head_dim=profile.attention_head_dim,
        linear_num_key_heads=profile.gdn_k_heads,
        linear_num_value_heads=profile.gdn_v_heads,
        linear_key_head_dim=profile.gdn_k_head_dim,
        linear_value_head_dim=profile.gdn_v_head_dim,
        linear_conv_kernel_dim=profile.gdn_conv_kernel,
        tie_word_embeddings=profile.tied_embeddings,
    )
    with torch.device("meta"):
        model = model_class(config)
    assert sum(p.numel() for p in model.parameters()) == profile.text_parameters
    for part in profile.parts:
        if part.kind in (PartKind.GDN, PartKind.ATTENTION, PartKind.MLP, PartKind.EXPERTS):
            found = dict(model.model.get_submodule(part.name).named_parameters())
            own = [p.numel() for p_name, p in found.items() if not p_name.startswith("experts.")]
            assert sum(own) == part.parameters, part.name


@pytest.mark.parametrize("name", MODELS)
def test_the_parts_add_up(name: str) -> None:
    profile = load_model_profile(name)
    assert sum(profile.parameters_by_kind().values()) == profile.text_parameters + profile.mtp_parameters
    by_part = profile.weight_bytes_by_part(BFLOAT16)
    assert sum(by_part.values()) == profile.weight_bytes_per_step(BFLOAT16)
    assert "mtp" not in by_part
    table = 0 if profile.tied_embeddings else profile.vocabulary * profile.hidden
    one_row = profile.hidden
    all_read = profile.weight_bytes_per_step(BFLOAT16, EVERY_EXPERT)
    assert all_read == 2 * (profile.text_parameters - table + one_row)


def test_the_two_billion_size_and_the_mixture_of_experts_are_unconfirmed() -> None:
    unconfirmed = [name for name in MODELS if not load_model_profile(name).confirmed]
    assert unconfirmed == ["qwen3.5-2b", "qwen3.5-35b-a3b"]


def test_the_reference_profile_is_the_shape_of_the_reference_model() -> None:
    shape, profile = architecture.REFERENCE_SHAPE, load_model_profile("reference")
    assert (profile.hidden, profile.intermediate, profile.layers) == (
        shape.hidden, shape.intermediate, shape.layers,
    )  # fmt: skip
    assert (profile.attention_q_heads, profile.attention_kv_heads) == (shape.query_heads, shape.kv_heads)
    assert (profile.gdn_k_heads, profile.gdn_v_heads) == (shape.gdn_key_heads, shape.gdn_value_heads)
    assert profile.vocabulary == architecture.VOCABULARY


@pytest.mark.skipif(not REFERENCE_CONFIG.exists(), reason="the reference model is not trained yet")
def test_the_reference_profile_is_what_its_checkpoint_says() -> None:
    config = json.loads(REFERENCE_CONFIG.read_text(encoding="utf-8"))
    found = profile_of_checkpoint(config, "reference", str(REFERENCE_CONFIG))
    said = load_model_profile("reference")
    assert found.model_dump(exclude={"source"}) == said.model_dump(exclude={"source"})


def test_removing_layers_removes_their_parts_and_nothing_else() -> None:
    whole = load_model_profile("reference")
    pruned = whole.without_layers(frozenset({0, 3}))
    lost = sum(part.parameters for part in whole.parts if part.layer in (0, 3))
    assert lost > 0
    assert pruned.text_parameters == whole.text_parameters - lost
    assert pruned.layers == whole.layers - 2
    assert pruned.kv_bytes_per_token < whole.kv_bytes_per_token
    assert pruned.gdn_state_bytes < whole.gdn_state_bytes


def test_removing_what_is_not_there_or_everything_is_refused() -> None:
    profile = load_model_profile("reference")
    with pytest.raises(UsageError, match="has no layer 12"):
        profile.without_layers(frozenset({12}))
    with pytest.raises(UsageError, match="No layer"):
        profile.without_layers(frozenset(range(profile.layers)))


def widths_of(profile: ModelProfile) -> dict[str, object]:
    """The widths of a model's MLPs as a config.json has them."""
    experts = profile.experts
    if experts is None:
        return {"intermediate_size": profile.intermediate}
    return {
        "shared_expert_intermediate_size": profile.intermediate,
        "moe_intermediate_size": experts.intermediate,
        "num_experts": experts.count,
        "num_experts_per_tok": experts.per_token,
    }


def config_of(profile: ModelProfile) -> dict[str, object]:
    return {
        "model_type": "qwen3_5_text" if profile.experts is None else "qwen3_5_moe_text",
        **widths_of(profile),
        "vocab_size": profile.vocabulary,
        "hidden_size": profile.hidden,
        "layer_types": list(profile.layer_types),
        "num_attention_heads": profile.attention_q_heads,
        "num_key_value_heads": profile.attention_kv_heads,
        "head_dim": profile.attention_head_dim,
        "linear_num_key_heads": profile.gdn_k_heads,
        "linear_num_value_heads": profile.gdn_v_heads,
        "linear_key_head_dim": profile.gdn_k_head_dim,
        "linear_value_head_dim": profile.gdn_v_head_dim,
        "linear_conv_kernel_dim": profile.gdn_conv_kernel,
        "tie_word_embeddings": profile.tied_embeddings,
        "mtp_num_hidden_layers": profile.mtp_layers,
        "max_position_embeddings": profile.max_positions,
    }


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoints_config_gives_its_profile(name: str) -> None:
    profile = load_model_profile(name)
    text = config_of(profile)
    wrapper = "qwen3_5" if profile.experts is None else "qwen3_5_moe"
    wrapped = {"model_type": wrapper, "text_config": {k: v for k, v in text.items() if k != "model_type"}}
    interval = {k: v for k, v in text.items() if k != "layer_types"}
    interval |= {"num_hidden_layers": profile.layers, "full_attention_interval": 4}
    for config in (text, wrapped, interval):
        found = profile_of_checkpoint(config, name, "config.json")
        assert found.model_dump(exclude={"source", "confirmed"}) == profile.model_dump(
            exclude={"source", "confirmed"}
        )


@pytest.mark.parametrize(
    ("change", "most"),
    [
        ({"max_position_embeddings": None}, None),
        ({"max_position_embeddings": 8192}, 8192),
        ({"max_position_embeddings": 8192, "rope_parameters": {"rope_type": "default"}}, 8192),
        ({"max_position_embeddings": 8192, "rope_parameters": {"rope_type": "yarn", "factor": 4}}, None),
        ({"max_position_embeddings": "many"}, None),
    ],
)
def test_how_long_sequences_may_be_is_known_where_the_rotary_embedding_is_not_scaled(
    change: dict[str, object], most: int | None
) -> None:
    config = config_of(load_model_profile("qwen3.5-4b")) | change
    assert profile_of_checkpoint(config, "x", "config.json").max_positions == most


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "llama"}, "model_type is 'llama'"),
        ({"hidden_size": "wide"}, "hidden is 'wide'"),
        ({"layer_types": ["sliding"]}, "layer_types.0 is 'sliding'"),
        ({"layer_types": None}, "layers and full_attention_interval"),
        ({"linear_num_value_heads": 3}, "gdn_v_heads must be a multiple"),
        ({"head_dim": 0}, "attention_head_dim is 0"),
        ({"num_experts": 256}, "num_experts is 256, and model_type 'qwen3_5_text' is a dense model's"),
        ({"num_experts": "8"}, "num_experts is '8', and model_type 'qwen3_5_text' is a dense model's"),
        ({"model_type": "qwen3_5_moe_text"}, "is a Mixture of Experts', and there is no num_experts"),
    ],
)
def test_a_checkpoint_that_cannot_be_understood_is_refused(change: dict[str, object], said: str) -> None:
    config = config_of(load_model_profile("reference")) | change
    with pytest.raises(UsageError, match=r"config\.json") as caught:
        profile_of_checkpoint(config, "own", "config.json")
    assert said in caught.value.message


MIXTURE = load_model_profile("qwen3.5-35b-a3b")
BELONGS = "where a whole number above 0 belongs."


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_experts": 0}, f"num_experts is 0, {BELONGS}"),
        ({"num_experts": None}, "is a Mixture of Experts', and there is no num_experts."),
        ({"num_experts": True}, f"num_experts is True, {BELONGS}"),
        ({"num_experts": "256"}, f"num_experts is '256', {BELONGS}"),
        ({"num_experts_per_tok": 0}, f"num_experts_per_tok is 0, {BELONGS}"),
        ({"num_experts_per_tok": "8"}, f"num_experts_per_tok is '8', {BELONGS}"),
        ({"num_experts_per_tok": 8.0}, f"num_experts_per_tok is 8.0, {BELONGS}"),
        ({"num_experts_per_tok": 257}, "num_experts_per_tok is 257, more than the 256 that there are."),
        ({"moe_intermediate_size": "wide"}, f"moe_intermediate_size is 'wide', {BELONGS}"),
        ({"shared_expert_intermediate_size": 0}, f"shared_expert_intermediate_size is 0, {BELONGS}"),
        *(({name: ...}, f"is a Mixture of Experts', and there is no {name}.") for name in widths_of(MIXTURE)),
        ({"model_type": "qwen3_5_text"}, "num_experts is 256, and model_type 'qwen3_5_text' is a dense"),
        ({"model_type": "mixtral"}, "model_type is 'mixtral', which is not understood yet."),
    ],
)
def test_a_mixture_of_experts_that_cannot_be_understood_is_refused_in_a_sentence(
    change: dict[str, object], said: str
) -> None:
    told = {**config_of(MIXTURE), **change}
    config = {name: value for name, value in told.items() if value is not ...}
    with pytest.raises(UsageError, match=r"config\.json") as caught:
        profile_of_checkpoint(config, "own", "config.json")
    assert said in caught.value.message


def test_a_profile_with_more_experts_a_token_than_there_are_is_refused() -> None:
    data = {**MIXTURE.model_dump(), "experts": {"count": 4, "per_token": 5, "intermediate": 8}}
    with pytest.raises(ValueError, match="can't go through 5 of 4 experts"):
        ModelProfile.model_validate(data)


def test_a_mixture_of_experts_has_the_parameters_that_its_name_tells() -> None:
    assert MIXTURE.text_parameters / 1e9 == pytest.approx(34.66, abs=0.01)
    tables = 2 * MIXTURE.vocabulary * MIXTURE.hidden
    assert (MIXTURE.active_parameters - tables) / 1e9 == pytest.approx(2.44, abs=0.01)
    assert (
        load_model_profile("qwen3.5-9b").active_parameters == load_model_profile("qwen3.5-9b").text_parameters
    )
    layer = sum(part.parameters for part in MIXTURE.parts if part.layer == 3)
    joined = 2 * MIXTURE.hidden**2 + 3 * MIXTURE.hidden
    assert MIXTURE.mtp_parameters == layer + joined, "its head has a layer with experts too"


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_step_reads_more_experts_the_more_rows_it_has_and_never_more_than_there_are(
    count: int, per_token: int, rows: int, more: int
) -> None:
    experts = Experts(count=max(count, per_token), per_token=per_token, intermediate=1)
    one, few, many = (experts.read(each) for each in (1, rows, rows + more))
    assert one == per_token
    assert per_token <= few <= many <= experts.count
    assert few <= rows * per_token + 1e-9 * experts.count
    assert experts.read(EVERY_EXPERT) == experts.count


def test_the_experts_that_a_step_reads_are_what_even_routing_gives() -> None:
    experts, random = Experts(count=16, per_token=3, intermediate=1), Random(0)
    drawn = [len({each for _ in range(5) for each in random.sample(range(16), 3)}) for _ in range(20_000)]
    assert fmean(drawn) == pytest.approx(experts.read(5), abs=0.05)


@given(st.integers(1, 5000))
def test_rows_change_what_a_step_reads_of_experts_alone(rows: int) -> None:
    one, more = (MIXTURE.weight_bytes_by_part(BFLOAT16, each) for each in (1, rows))
    differ = {part.name for part in MIXTURE.parts if part.kind is PartKind.EXPERTS}
    assert {name: size for name, size in one.items() if name not in differ} == {
        name: size for name, size in more.items() if name not in differ
    }
    dense = load_model_profile("qwen3.5-9b")
    assert dense.weight_bytes_by_part(BFLOAT16, rows) == dense.weight_bytes_by_part(BFLOAT16)


def test_a_pruned_mixture_of_experts_keeps_the_experts_of_the_layers_that_stay() -> None:
    stored = {part.name: part.parameters for part in MIXTURE.parts if part.layer is not None}
    left = MIXTURE.as_stored(stored).without_layers(frozenset({0, 1}))
    assert left.layers == MIXTURE.layers - 2
    first = next(part for part in left.parts if part.kind is PartKind.EXPERTS)
    assert (first.name, left.stored_bytes(first)) == ("layers.0.mlp.experts", first.parameters)
    assert left.stored_bytes_read(first) == pytest.approx(first.parameters * 8 / 256)
