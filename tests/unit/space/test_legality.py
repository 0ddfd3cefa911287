"""What a model and an engine allow: every value that goes has its reason, and what is left can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import UsageError
from configs.models import ModelProfile, load_model_profile
from experiments.engines.reference.drafting.order import (
    DEFAULTS,
    DRAFT_TOKENS_MAX,
    METHODS,
    MTP_DRAFT_TOKENS_MAX,
    NGRAM_TOKENS,
)
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Same
from experiments.space.legality import (
    MOST_DRAFT_TOKENS,
    ModelFacts,
    OwnDrafter,
    Withheld,
    joint_refusal,
    legal_levers,
)
from experiments.space.loading import load_space
from experiments.space.space import Space
from experiments.space.workload_rules import MAX_MODEL_LEN

SPACE = load_space("levers")
PROFILE = load_model_profile("reference")
MIXTURE = load_model_profile("qwen3.5-35b-a3b")
FACTS = ModelFacts.of(PROFILE, packaged_drafters=frozenset({"dflash"}), cores=2)


def legal(**other: object) -> tuple[Space, dict[tuple[str, KnobValue], Withheld]]:
    space, withheld = legal_levers(SPACE, replace(FACTS, **other))  # type: ignore[arg-type]
    return space, {(each.knob, each.value): each for each in withheld}


def sizes(inputs: int) -> Mapping[str, int]:
    return {**FACTS.input_sizes, "mlp.down_proj": inputs}


def test_the_reference_model_allows_all_levers_but_a_draft_model_and_more_threads_than_cores() -> None:
    space, gone = legal()
    assert set(gone) == {
        ("drafting.method", "draft_model"), *(("serving.threads", count) for count in (4, 8, 16)),
    }  # fmt: skip
    assert gone["serving.threads", 4].why == "The target has 2 cores for us."
    assert space.levers == SPACE.levers


def test_no_sequence_is_longer_than_the_model_has_positions() -> None:
    facts = ModelFacts.of(PROFILE)
    space, withheld = legal_levers(load_space("vllm"), facts)
    assert space.knob(MAX_MODEL_LEN).values == (2048, 4096)
    assert {each.why for each in withheld if each.knob == MAX_MODEL_LEN} == {
        "The model's sequences have 4096 tokens at most."
    }
    longer, _ = legal_levers(load_space("vllm"), replace(facts, max_positions=262_144))
    assert longer.knob(MAX_MODEL_LEN).values == (2048, 4096, 8192, 32768)
    with pytest.raises(UsageError, match=r"max_model_len: The model's sequences have 64 tokens at most"):
        legal_levers(load_space("vllm"), replace(facts, max_positions=64))


def test_without_mtp_nothing_drafts_with_it() -> None:
    space, gone = legal(mtp_layers=0)
    assert gone["drafting.method", "mtp"].why == "This checkpoint has no MTP head."
    with pytest.raises(UsageError, match=r"drafting.method cannot be mtp"):
        space.configuration({"drafting.method": "mtp"})


def test_without_a_packaged_drafter_one_is_legal_when_named_and_never_offered() -> None:
    space, gone = legal(packaged_drafters=frozenset())
    assert gone["drafting.method", "dflash"].when_given
    assert not gone["drafting.drafter", "packaged"].when_given
    given = space.configuration({"drafting.method": "dflash", "drafting.drafter": "/a/drafter"})
    assert space.is_legal(given)
    assert joint_refusal(given, FACTS) is None
    for refused in ({}, {"drafting.drafter": "packaged"}):
        with pytest.raises(UsageError, match=r"drafting\.drafter"):
            space.configuration({"drafting.method": "dflash", **refused})
    offered = {each["drafting.method"] for each in space.neighbours(space.configuration({}))}
    assert offered == {"none", "mtp", "ngram"}


OWN = "/models/own"


@pytest.mark.parametrize("packaged", [frozenset(), frozenset({"dflash"})])
@pytest.mark.parametrize(("method", "other"), [("dflash", "draft_model"), ("draft_model", "dflash")])
def test_a_drafter_of_the_users_is_the_value_and_the_default_of_its_method_alone(
    method: str, other: str, packaged: frozenset[str]
) -> None:
    facts = replace(FACTS, packaged_drafters=packaged, drafter=OwnDrafter(method, OWN, 3))
    space, withheld = legal_levers(SPACE.taking("drafting.drafter", OWN), facts)
    gone = {(each.knob, each.value): each for each in withheld}
    assert ("drafting.method", method) not in gone
    assert gone["drafting.method", other].when_given
    assert space.knob("drafting.drafter").values == (OWN,)
    offered = {each["drafting.method"] for each in space.neighbours(space.configuration({}))}
    assert offered == {"none", "mtp", "ngram", method}
    drafted = space.configuration({"drafting.method": method})
    assert drafted["drafting.drafter"] == OWN
    assert joint_refusal(drafted, facts) is None
    longer = space.configuration({"drafting.method": method, "drafting.draft_tokens": 4})
    assert (
        joint_refusal(longer, facts) == f"{method} drafts at most 3 tokens a step here, and 4 were asked for."
    )
    wrong = space.configuration({"drafting.method": other})
    assert (
        joint_refusal(wrong, facts)
        == f"The drafter at {OWN} is one for {method} and can't draft with {other}."
    )
    another = space.configuration(
        {"drafting.method": other, "drafting.drafter": "/another", "drafting.draft_tokens": 7}
    )
    assert joint_refusal(another, facts) is None


@pytest.mark.parametrize(
    "path", ["~/mine", "./mine", "../mine", "/mine", "models/mine", "mine/", ".hidden/mine"]
)
def test_a_drafter_is_any_path_with_a_slash(path: str) -> None:
    assert SPACE.knob("drafting.drafter").parse(path) == path


def test_a_drafter_without_a_slash_is_a_word_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match=r"cannot be 'mine'") as caught:
        SPACE.knob("drafting.drafter").parse("mine")
    assert "a PATH with a slash" in str(caught.value.hint)


@pytest.mark.parametrize(("inputs", "left"), [(512, (32, 64, 128)), (192, (32, 64)), (96, (32,))])
def test_group_sizes_that_do_not_divide_go_with_the_projection_that_they_do_not(
    inputs: int, left: tuple[int, ...]
) -> None:
    space, gone = legal(input_sizes=sizes(inputs))
    assert space.knob("quantization.group_size").values == left
    for size in {32, 64, 128} - set(left):
        why = f"Groups of {size} do not divide the {inputs} inputs of mlp.down_proj."
        assert gone["quantization.group_size", size].why == why


def test_groups_that_do_not_suit_attention_alone_are_legal_where_attention_is_kept() -> None:
    inputs = {**FACTS.input_sizes, "self_attn.o_proj": 160}
    space, gone = legal(input_sizes=inputs)
    assert space.knob("quantization.group_size").values == (32, 64, 128)
    assert not [size for knob, size in gone if knob == "quantization.group_size"]
    facts = replace(FACTS, input_sizes=inputs)
    groups = {"quantization.method": "awq", "quantization.group_size": 64}
    assert joint_refusal(space.configuration(groups), facts) == (
        "Groups of 64 do not divide the 160 inputs of self_attn.o_proj; quantization.keep=attention leaves "
        "it as it is."
    )
    for fits in ({"quantization.keep": "attention"}, {"quantization.group_size": 32}):
        assert joint_refusal(space.configuration({**groups, **fits}), facts) is None


def test_groups_that_do_not_suit_attention_go_where_the_space_cannot_keep_it() -> None:
    space = SPACE.restrict({"quantization.keep": ["none", "edges"]})
    inputs = {**FACTS.input_sizes, "self_attn.o_proj": 160}
    left, _ = legal_levers(space, replace(FACTS, input_sizes=inputs))
    assert left.knob("quantization.group_size").values == (32,)


def test_a_model_that_no_group_size_divides_is_not_quantized_at_all() -> None:
    space, gone = legal(input_sizes=sizes(100))
    assert space.knob("quantization.method").values == ("none",)
    assert "needs quantization.group_size, of which nothing is left" in gone["quantization.method", "awq"].why
    assert space.size == SPACE.restrict({"quantization.method": ["none"]}).restrict(
        {"serving.threads": [1, 2], "drafting.method": ["none", "mtp", "ngram", "dflash"]}
    ).size  # fmt: skip


def test_a_checkpoint_that_is_quantized_already_is_not_quantized_again_and_all_else_stays() -> None:
    space, gone = legal(stored_quantized=True, input_sizes=sizes(100))
    untouched, others = legal()
    assert space.knob("quantization.method").values == ("none",)
    assert set(gone) - set(others) == {("quantization.method", "awq"), ("quantization.method", "rtn")}
    for method in ("awq", "rtn"):
        assert gone["quantization.method", method].why.startswith("The checkpoint is quantized already: ")
    for knob in untouched.knobs:
        assert knob.name == "quantization.method" or space.knob(knob.name).values == knob.values
    points = space.neighbours(space.configuration({"pruning.method": "depth"}))
    assert {knob for each in points for knob in each if "quantiz" in knob} == {"quantization.method"}
    assert {lever for each in points for lever in space.levers_between(space.configuration({}), each)} == set(
        space.levers
    ) - {"quantization"}


def with_widths(shared: int, own: int) -> ModelProfile:
    data = MIXTURE.model_dump() | {"intermediate": shared}
    data["experts"] |= {"intermediate": own}
    return ModelProfile.model_validate(data)


def test_a_mixture_of_experts_is_quantized_as_any_other() -> None:
    space, withheld = legal_levers(load_space("vllm"), ModelFacts.of(MIXTURE))
    assert not {each.knob for each in withheld if each.knob.startswith("quantization.")}
    assert space.knob("quantization.method").values == ("none", "awq", "rtn")
    assert space.knob("quantization.group_size").values == (32, 64, 128)
    assert space.knob("serving.weight_dtype").values == ("stored", "fp8")
    quantized = space.configuration({"quantization.method": "awq"})
    assert "serving.linear_backend" in quantized


@pytest.mark.parametrize(
    ("shared", "own", "left", "name"),
    [
        (512, 512, (32, 64, 128), None),
        (512, 192, (32, 64), "mlp.experts.down_proj"),
        (96, 512, (32,), "mlp.shared_expert.down_proj"),
    ],
)
def test_groups_divide_the_widths_of_the_experts_and_of_the_shared_one(
    shared: int, own: int, left: tuple[int, ...], name: str | None
) -> None:
    space, withheld = legal_levers(load_space("vllm"), ModelFacts.of(with_widths(shared, own)))
    assert space.knob("quantization.group_size").values == left
    told = {each.value: each.why for each in withheld if each.knob == "quantization.group_size"}
    assert told == {
        size: f"Groups of {size} do not divide the {min(shared, own)} inputs of {name}."
        for size in {32, 64, 128} - set(left)
    }


def test_only_a_dense_model_has_a_down_projection_of_its_own() -> None:
    assert ModelFacts.of(PROFILE).input_sizes["mlp.down_proj"] == PROFILE.intermediate
    assert "mlp.down_proj" not in ModelFacts.of(MIXTURE).input_sizes


def test_of_one_that_is_stored_quantized_that_is_what_is_said() -> None:
    facts = replace(ModelFacts.of(MIXTURE), stored_quantized=True)
    _, withheld = legal_levers(load_space("vllm"), facts)
    why = {(each.knob, each.value): each.why for each in withheld}
    assert why["quantization.method", "rtn"].startswith("The checkpoint is quantized already: ")
    assert why["serving.weight_dtype", "fp8"].startswith("The checkpoint is quantized already: ")


def test_what_never_fits_is_gone_whatever_it_does_the_same_as() -> None:
    same = {("quantization.method", "rtn"): Same("rtn", "awq", "There they are one.")}
    space, gone = legal(stored_quantized=True, same=same)
    assert not space.knob("quantization.method").allows("rtn")
    assert gone["quantization.method", "rtn"].why.startswith("The checkpoint is quantized already: ")
    space, gone = legal(same=same)
    assert space.knob("quantization.method").allows("rtn")
    assert gone["quantization.method", "rtn"].why == "There they are one."


def test_weights_that_are_quantized_already_are_not_rounded_at_the_load() -> None:
    # vLLM raises that the quantization asked for is not the config.json's
    vllm = load_space("vllm")
    space, withheld = legal_levers(vllm, replace(FACTS, stored_quantized=True))
    gone = {(each.knob, each.value): each for each in withheld}
    assert gone["serving.weight_dtype", "fp8"].why.startswith("The checkpoint is quantized already: ")
    assert space.knob("serving.weight_dtype").values == ("stored",)
    untouched, _ = legal_levers(vllm, FACTS)
    assert untouched.knob("serving.weight_dtype").values == ("stored", "fp8")


def test_a_space_that_only_quantizes_has_nothing_for_a_quantized_checkpoint() -> None:
    quantizing = SPACE.restrict({"quantization.method": ["awq", "rtn"]})
    with pytest.raises(UsageError, match=r"knob quantization\.method: The checkpoint is quantized already"):
        legal_levers(quantizing, replace(FACTS, stored_quantized=True))


def test_no_more_layers_may_go_than_leave_one_of_each_kind() -> None:
    types = ("linear_attention",) * 3 + ("full_attention",)
    space, gone = legal(layer_types=types)
    assert space.knob("pruning.layers_removed").values == (1, 2)
    assert "one of each kind must stay, which leaves 2" in gone["pruning.layers_removed", 3].why
    assert space.knob("pruning.restrict").values == ("any", "gdn")
    assert "full_attention" in gone["pruning.restrict", "attention"].why


def test_what_the_engine_cannot_serve_goes_with_the_engines_own_reason() -> None:
    space, gone = legal(not_served={("drafting.method", "ngram"): "This engine keeps no text."})
    assert "ngram" not in space.knob("drafting.method").values
    assert gone["drafting.method", "ngram"].why == "This engine keeps no text."


def test_a_knob_that_is_always_active_must_keep_a_value() -> None:
    lost = {("serving.dtype", name): "It has none." for name in ("float32", "bfloat16")}
    with pytest.raises(UsageError, match=r"Nothing is left of the knob serving\.dtype: It has none\."):
        legal(not_served=lost)


def test_each_value_may_be_legal_and_all_together_not() -> None:
    pruned = {"pruning.method": "depth", "pruning.layers_removed": 3, "pruning.restrict": "attention"}
    assert "which leaves 2" in str(joint_refusal(SPACE.configuration(pruned), FACTS))
    assert joint_refusal(SPACE.configuration({**pruned, "pruning.restrict": "any"}), FACTS) is None
    drafted = SPACE.configuration({"drafting.method": "draft_model"})
    assert "No drafter is packaged for draft_model" in str(joint_refusal(drafted, FACTS))


@pytest.mark.parametrize(("method", "tokens", "most"), [("mtp", 5, 4), ("dflash", 7, 6)])
def test_a_method_drafts_no_more_tokens_than_it_can(method: str, tokens: int, most: int) -> None:
    facts = ModelFacts.of(PROFILE, packaged_drafters=frozenset({"dflash"}), most_draft_tokens={"dflash": 6})
    knobs: dict[str, KnobValue] = {"drafting.method": method, "drafting.draft_tokens": tokens}
    asked = SPACE.configuration(knobs)
    said = f"{method} drafts at most {most} tokens a step here, and {tokens} were asked for."
    assert joint_refusal(asked, facts) == said
    assert joint_refusal(SPACE.with_change(asked, {"drafting.draft_tokens": most}), facts) is None


def test_the_space_offers_what_the_reference_engine_drafts() -> None:
    assert SPACE.knob("drafting.method").values == METHODS
    assert SPACE.knob("drafting.ngram_tokens").values == NGRAM_TOKENS
    assert SPACE.knob("drafting.draft_tokens").values[-1] == DRAFT_TOKENS_MAX
    assert MOST_DRAFT_TOKENS == {"mtp": MTP_DRAFT_TOKENS_MAX}
    for knob, default in DEFAULTS.items():
        assert SPACE.knob(knob).default == default


@given(
    st.sampled_from([96, 100, 128, 192]),
    st.integers(0, 1),
    st.frozensets(st.sampled_from(["dflash", "draft_model"])),
    st.integers(1, 16),
)
def test_every_value_is_either_offered_or_told_with_its_reason(
    inputs: int, mtp: int, drafters: frozenset[str], cores: int
) -> None:
    space, gone = legal(input_sizes=sizes(inputs), mtp_layers=mtp, packaged_drafters=drafters, cores=cores)
    for knob in SPACE.knobs:
        for value in knob.values:
            reachable = all(set(values) & set(space.knob(other).values) for other, values in knob.when)
            assert not reachable or (value in space.knob(knob.name).values) != ((knob.name, value) in gone)
    assert all(each.why.endswith(".") for each in gone.values())
    assert space.is_legal(space.configuration({}))
    assert all(space.is_legal(each) for each in space.neighbours(space.configuration({})))


@pytest.mark.parametrize(
    ("dtype", "kernel", "refused"),
    [
        ("bfloat16", "exllama", True),
        ("float16", "exllama", False),
        ("bfloat16", "marlin", False),
        ("bfloat16", "auto", False),
    ],
)
def test_a_kernel_that_never_multiplies_such_activations_is_refused(
    dtype: str, kernel: str, refused: bool
) -> None:
    given = Configuration.of({"serving.dtype": dtype, "serving.linear_backend": kernel})
    told = joint_refusal(given, FACTS)
    assert (told is not None) == refused
    if told is not None:
        assert told == "Exllama multiplies float16 activations alone, and serving.dtype is bfloat16."


@pytest.mark.parametrize(
    ("cache", "weights", "refused"),
    [
        ("fp8_e5m2", "fp8", True),
        ("fp8_e4m3", "fp8", False),
        ("fp8_e5m2", "stored", False),
        ("auto", "fp8", False),
    ],
)
def test_a_cache_that_never_goes_with_8_bit_weights_is_refused_before_a_load(
    cache: str, weights: str, refused: bool
) -> None:
    given = Configuration.of({"serving.kv_cache_dtype": cache, "serving.weight_dtype": weights})
    told = joint_refusal(given, FACTS)
    assert (told is not None) == refused
    if told is not None:
        assert told == "vLLM keeps no keys and values as fp8_e5m2 beside serving.weight_dtype=fp8."


@pytest.mark.parametrize(
    ("copied", "head", "backend", "told"),
    [
        ("fp8", "quantized", "auto", "heads of 16 bits alone, and quantization.lm_head is quantized."),
        ("nvfp4", "quantized", "auto", "heads of 16 bits alone, and quantization.lm_head is quantized."),
        ("fp8", "high", "marlin", None),
        ("fp8", "high", "machete", None),
        ("nvfp4", "high", "marlin", None),
        ("auto", "quantized", "marlin", None),
    ],
)
def test_a_copy_of_the_output_head_is_made_of_one_in_16_bits_whatever_multiplies_packed_weights(
    copied: str, head: str, backend: str, told: str | None
) -> None:
    asked = {
        "drafting.method": "mtp",
        "drafting.lm_head": copied,
        "quantization.method": "awq",
        "quantization.group_size": 128,
        "quantization.lm_head": head,
        "serving.linear_backend": backend,
    }
    why = joint_refusal(load_space("vllm").configuration(asked), FACTS)
    assert (why is None) if told is None else (told in str(why)), why
