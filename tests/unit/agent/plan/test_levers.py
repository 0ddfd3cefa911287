"""Each value of the space is legal, or told with the reason why it is not."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from agent.ground.checkpoint import Checkpoint
from agent.ground.legal import Legal, legal_here
from agent.plan import legal_planned
from agent.plan.card import Card
from agent.plan.levers import (
    Check,
    LeverRow,
    Standing,
    count_words,
    lever_rows,
    refused_at_all,
    witnesses,
)
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from configs.campaign import load_campaign
from configs.errors import UsageError
from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gdn_prefill_rules import GDN_PREFILL
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import not_served_by
from experiments.space.knob import Knob
from experiments.space.legality import ModelFacts, joint_refusal, legal_levers
from experiments.space.loading import load_space
from experiments.space.space import Space
from experiments.space.workload_rules import BATCH_TOKENS

LEVERS = load_space("levers")
ON_VLLM = {"engine": "vllm", "space": "vllm", "baseline.sweep": []}


def rows_of(name: str = "levers", check: object = None) -> dict[tuple[str, object], LeverRow]:
    spec = load_campaign(name, {"space": "levers"})
    legal = legal_here(spec, reference_model_path(), 2)
    found = lever_rows(LEVERS, legal, check)  # type: ignore[arg-type]
    return {(row.knob, row.value): row for row in found}


def test_every_value_has_one_row_and_every_other_than_yes_a_reason() -> None:
    found = rows_of()
    assert Counter(knob for knob, _ in found) == {knob.name: len(knob.values) for knob in LEVERS.knobs}
    assert all((row.standing is Standing.YES) == (row.why is None) for row in found.values())


def test_reasons_come_from_model_target_and_budget() -> None:
    found = rows_of()
    assert found["serving.threads", 8].why == "The target has 2 cores for us."
    assert found["drafting.method", "draft_model"].standing is Standing.WHEN_GIVEN
    dflash = found["drafting.method", "dflash"]
    assert dflash.standing is Standing.WITH_PRUNING
    assert "must be pruned" in str(dflash.why)
    assert found["drafting.draft_tokens", 7].standing is Standing.YES, "n-grams draft as many"


def test_without_a_parameter_budget_nothing_must_be_paid_for() -> None:
    assert rows_of("default")["drafting.method", "dflash"].standing is Standing.YES


def test_what_the_engine_refuses_is_told_in_its_words() -> None:
    def check(configuration: Configuration) -> None:
        if configuration["serving.compile"] == "cpp_wrapper":
            raise Infeasible("unsupported", "There is no compiler.")

    found = rows_of("default", check)
    assert found["serving.compile", "cpp_wrapper"] == LeverRow(
        "serving.compile", "compile", "cpp_wrapper", Standing.NO, "There is no compiler."
    )
    assert found["serving.compile", "default"].standing is Standing.YES


def test_what_is_against_the_start_itself_is_said_once_and_not_of_every_value() -> None:
    damaged, slow = Infeasible("checkpoint", "Its weights are cut short."), "There is no compiler."

    def check(configuration: Configuration) -> None:
        if configuration["serving.compile"] == "cpp_wrapper":
            raise Infeasible("unsupported", slow)
        raise damaged

    of_values, cause = refused_at_all(check, LEVERS.configuration({}))
    assert cause == damaged.cause
    found = rows_of("default", of_values)
    assert {row.why for row in found.values()} == {slow, *(row.why for row in rows_of("default").values())}
    assert found["serving.compile", "cpp_wrapper"].why == slow


@pytest.mark.parametrize("kind", ["out_of_memory", None])
def test_what_a_single_value_may_mend_and_what_is_served_stays_with_the_values(kind: str | None) -> None:
    def check(configuration: Configuration) -> None:
        if kind is not None:
            raise Infeasible(kind, "1 GB too few.")

    assert refused_at_all(check, LEVERS.configuration({})) == (check, None)
    assert refused_at_all(None, LEVERS.configuration({})) == (None, None)


def test_what_the_engine_has_against_one_way_to_a_value_is_told_before_what_another_way_can_t_do() -> None:
    space, facts = load_space("vllm"), ModelFacts.of(load_model_profile("qwen3.5-4b"))
    left, withheld = legal_levers(space, facts)
    legal = Legal(left, withheld, lambda each: joint_refusal(each, facts))

    def check(configuration: Configuration) -> None:
        tokens = configuration.get("drafting.draft_tokens", 0)
        if isinstance(tokens, int) and tokens > 2:
            raise Infeasible("out_of_memory", f"{tokens} GB too few.")

    def found(check: Check | None) -> dict[KnobValue, LeverRow]:
        rows = lever_rows(space, legal, check)
        return {row.value: row for row in rows if row.knob == "drafting.draft_tokens"}

    most_by_mtp, more = found(check)[4], found(check)[5]
    assert (most_by_mtp.why, more.why) == ("4 GB too few.", "5 GB too few.")
    assert found(check)[2].standing is Standing.YES
    assert found(None)[5].standing is Standing.YES, "n-grams draft as many"


def test_of_several_ways_to_a_value_the_one_that_misses_least_is_told() -> None:
    """By MTP, which comes first, four drafts miss more than five do by n-grams."""
    spec = load_campaign("default", {**ON_VLLM, "target": "cuda:0"})
    made = make_plan(spec, find_model("qwen3.5-9b"), Card("a card", 24 * 10**9, is_gpu=True))
    rows = [row for row in made.levers if row.knob == "drafting.draft_tokens" and "By count" in str(row.why)]
    needed = [float(str(row.why).partition("it needs ")[2].partition(" GB")[0]) for row in rows]
    assert rows[0].value == 4
    assert needed == sorted(needed)


def test_what_the_memory_has_no_room_for_is_told_with_what_it_can_be_had_beside() -> None:
    """The default fits on a laptop's 8 GB, and leaves no room for drafts beside all its sequences."""
    spec = load_campaign("default", {**ON_VLLM, "target": "cuda:0"})
    card = Card("a laptop's card", 8_585_740_288, is_gpu=True, compute_capability="8.9")
    made = make_plan(spec, find_model("qwen3.5-2b"), card)
    rows = {(row.knob, row.value): row for row in made.levers}
    mtp = rows["drafting.method", "mtp"]
    assert mtp.standing is Standing.WITH_ANOTHER
    assert mtp.why is not None
    told = re.search(
        r"By count it does not fit: .*; it can be had with serving\.max_sequences=(\d+)\.$", mtp.why
    )
    assert told is not None
    begun = made.start.configuration
    one = {"serving.max_sequences": int(told[1]), "drafting.method": "mtp"}
    spec = load_campaign("default", {**ON_VLLM, "target": "cuda:0", "baseline.start": one})
    assert int(told[1]) < int(str(begun["serving.max_sequences"]))
    assert make_plan(spec, find_model("qwen3.5-2b"), card).memory.rooms[0].fits


def test_a_doubt_of_what_has_room_beside_another_change_alone_is_told_too() -> None:
    space, facts = load_space("vllm"), ModelFacts.of(load_model_profile("qwen3.5-9b"))
    left, withheld = legal_levers(space, facts)
    asked, doubt = ("drafting.method", "mtp"), "Whether this engine takes it is not known."

    def check(each: Configuration) -> None:
        if each.get("drafting.method") == "mtp" and each.get("serving.max_sequences") != 1:
            raise Infeasible("out_of_memory", "It does not fit.")

    for unsure, standing in (({}, Standing.WITH_ANOTHER), ({asked: doubt}, Standing.NOT_KNOWN)):
        legal = Legal(left, withheld, lambda each: joint_refusal(each, facts), unsure=unsure)
        found = {(row.knob, row.value): row for row in lever_rows(space, legal, check)}[asked]
        assert found.standing is standing
        assert str(found.why).endswith(" ".join(["serving.max_sequences=1.", *unsure.values()]))


def test_a_witness_is_legal_and_has_the_value() -> None:
    for knob in LEVERS.knobs:
        for value in knob.values:
            (first, *_) = witnesses(LEVERS, knob.name, value)
            assert first[knob.name] == value
            assert LEVERS.is_legal(first)


@pytest.mark.parametrize(
    ("capability", "size", "against"),
    [("9.0", "9b", set()), ("8.9", "9b", {"machete"}), (None, "9b", set()), ("9.0", "odd", {"marlin"})],
)
def test_a_kernel_that_a_gpu_or_a_shape_can_not_have_is_told(
    capability: str | None, size: str, against: set[str], tmp_path: Path
) -> None:
    backend = Knob("serving.linear_backend", ("auto", "machete", "marlin"), "auto", "linear_backend")
    profile = load_model_profile("qwen3.5-9b")
    if size == "odd":
        profile = profile.model_copy(update={"intermediate": 12_320})
    space = Space((backend,))
    why = not_served_by(space, profile, Gpu(capability))
    assert {value for _, value in why} == against
    left, withheld = legal_levers(space, ModelFacts.of(profile, not_served=why))
    found = lever_rows(space, Legal(left, withheld))
    assert {row.value for row in found if row.standing is Standing.NO} == against
    assert all(str(profile.intermediate) in reason or "9.0" in reason for reason in why.values())


def test_a_kernel_that_does_not_multiply_the_default_s_format_is_told_with_what_it_can_be_had_beside() -> (
    None
):
    space, profile = load_space("vllm"), load_model_profile("qwen3.5-9b")
    facts = ModelFacts.of(profile)
    left, withheld = legal_levers(space, facts)
    legal = Legal(left, withheld, lambda each: joint_refusal(each, facts))
    found = {row.value: row for row in lever_rows(space, legal) if row.knob == "serving.linear_backend"}
    assert {value for value, row in found.items() if row.standing is Standing.YES} == {
        "auto", "humming", "marlin", "triton",
    }  # fmt: skip
    for value, beside in (
        ("machete", "quantization.group_size=64"),
        ("conch", "quantization.group_size=128"),
        ("exllama", "serving.dtype=float16"),
    ):
        assert found[value].standing is Standing.WITH_ANOTHER
        assert str(found[value].why).endswith(f"; it can be had with {beside}.")


@pytest.mark.parametrize(
    ("lacks", "standing", "told"),
    [
        (True, Standing.NO, "Conch's package is not there."),
        (False, Standing.WITH_ANOTHER, "it can be had with quantization.group_size=128."),
    ],
)
def test_of_several_reasons_the_one_is_told_that_stays_whatever_the_other_knobs_are(
    lacks: bool, standing: Standing, told: str
) -> None:
    """Groups of 128 are a value of a knob; a package that is not there is missing beside each of them."""
    space, facts = load_space("vllm"), ModelFacts.of(load_model_profile("qwen3.5-9b"))
    left, withheld = legal_levers(space, facts)
    legal = Legal(left, withheld, lambda each: joint_refusal(each, facts))

    def check(each: Configuration) -> None:
        if lacks and each.get("serving.linear_backend") == "conch":
            raise Infeasible("unsupported", "Conch's package is not there.")

    (row,) = (row for row in lever_rows(space, legal, check) if row.value == "conch")
    assert row.standing is standing
    assert str(row.why).endswith(told)


def test_what_an_engine_has_against_a_way_to_a_value_is_no_reason_against_the_value() -> None:
    space, facts = load_space("vllm"), ModelFacts.of(load_model_profile("qwen3.5-9b"))
    left, withheld = legal_levers(space, facts)
    legal = Legal(left, withheld, lambda each: joint_refusal(each, facts))

    def check(each: Configuration) -> None:
        if each.get("quantization.group_size") == 128:
            raise Infeasible("unsupported", "Groups of 128 are not known here.")

    (row,) = (row for row in lever_rows(space, legal, check) if row.value == "conch")
    assert row.standing is Standing.NO
    assert str(row.why).startswith("Conch multiplies groups of 128 alone")


@pytest.mark.parametrize(
    ("kernel", "knobs", "told"),
    [
        ("machete", {"quantization.group_size": 32}, "Machete multiplies groups of 64 or 128 alone"),
        ("machete", {"quantization.group_size": 64, "quantization.symmetric": False}, None),
        ("conch", {"quantization.group_size": 64}, "Conch multiplies groups of 128 alone"),
        ("marlin", {"quantization.symmetric": False}, None),
        (
            "marlin",
            {"quantization.symmetric": False, "quantization.bits": 8},
            "Marlin multiplies asymmetric groups of 4 bits alone, and quantization.symmetric is off with "
            "quantization.bits=8.",
        ),
        ("marlin", {"quantization.symmetric": False, "quantization.out_proj_bits": 8}, "out_proj_bits=8"),
        ("triton", {"quantization.bits": 8}, "Triton multiplies weights of 4 bits alone"),
        ("triton", {"quantization.out_proj_bits": 8}, "and quantization.out_proj_bits is 8"),
        (
            "exllama",
            {"serving.dtype": "float16", "quantization.symmetric": False},
            "Exllama multiplies symmetric groups alone",
        ),
        ("auto", {"quantization.symmetric": False, "quantization.bits": 8}, None),
    ],
)
def test_what_a_kernel_never_multiplies_is_known_before_a_load(
    kernel: str, knobs: dict[str, KnobValue], told: str | None
) -> None:
    space = load_space("vllm")
    asked = {"quantization.method": "awq", "serving.linear_backend": kernel, **knobs}
    why = joint_refusal(space.configuration(asked), ModelFacts.of(load_model_profile("qwen3.5-9b")))
    assert (why is None) if told is None else (told in str(why)), why


def test_a_processor_has_no_kernel_that_only_a_gpu_has_and_it_is_said_what_is_not_known() -> None:
    spec = load_campaign("default", {**ON_VLLM, "target": "cpu"})
    made = make_plan(spec, find_model("qwen3.5-4b"), Card("a processor", 256 * 10**9, is_gpu=False), cores=8)
    found = {(row.knob, row.value): row for row in made.levers}

    def standing(knob: str, standing: Standing) -> set[object]:
        return {value for name, value in found if name == knob and found[name, value].standing is standing}

    for knob in ("serving.linear_backend", "serving.gdn_prefill_backend"):
        assert standing(knob, Standing.YES) == {"auto"}
        assert standing(knob, Standing.NO) == {
            value for value in load_space("vllm").knob(knob).values if value != "auto"
        }
    assert standing("serving.graph_mode", Standing.YES) == {"auto", "eager", "none"}
    assert standing("serving.max_graph_tokens", Standing.YES) == {"auto"}
    doubted = found["serving.weight_dtype", "fp8"]
    assert doubted.standing is Standing.NOT_KNOWN
    assert "was not tried" in str(doubted.why)
    doubts = sum(row.standing is Standing.NOT_KNOWN for row in made.levers)
    assert count_words(made.levers).endswith(f"{doubts} more not known")
    on_gpu = make_plan(
        spec.model_copy(update={"target": "cuda:0"}),
        find_model("qwen3.5-4b"),
        Card("a card", 141 * 10**9, is_gpu=True),
    )
    of_prompts = {row.value: row for row in on_gpu.levers if row.knob == "serving.gdn_prefill_backend"}
    unknown = [row for row in on_gpu.levers if row.standing is Standing.NOT_KNOWN]
    assert all(of_prompts[value] in unknown for value in ("auto", "triton", "flashinfer"))
    assert all("The card's compute capability is not known" in str(row.why) for row in unknown)
    machete = next(row for row in unknown if row.value == "machete")
    assert "quantization.group_size=64. The card's" in str(machete.why)


def on_a_card(capability: str, **changes: object) -> Plan:
    spec = load_campaign("default", {**ON_VLLM, "target": "cuda:0", **changes})
    card = Card("a card", 80 * 10**9, is_gpu=True, compute_capability=capability)
    return make_plan(spec, find_model("qwen3.5-4b"), card)


def test_a_plan_says_which_kernels_are_the_same_on_a_card_and_counts_one_of_them() -> None:
    sweep = {"baseline.sweep": {GDN_PREFILL: ["auto", "triton"]}}
    found, both = on_a_card("8.6", **sweep), on_a_card("9.0", **sweep)
    row = next(row for row in found.levers if (row.knob, row.value) == (GDN_PREFILL, "triton"))
    assert row.standing is Standing.WHEN_GIVEN
    assert [each for each in found.notes if "passes over serving.gdn_prefill_backend=triton" in each]
    assert not [each for each in both.notes if "passes over" in each]
    assert found.first_verdict.baseline_s < both.first_verdict.baseline_s


def test_what_a_sweep_passes_over_is_told_once_though_the_ground_says_it_too() -> None:
    sweep = {"baseline.sweep": {GDN_PREFILL: ["auto", "triton"]}}
    (passed,) = (each for each in on_a_card("8.6", **sweep).notes if "passes over" in each)
    spec = load_campaign("default", {**ON_VLLM, "target": "cuda:0", **sweep})
    card = Card("a card", 80 * 10**9, is_gpu=True, compute_capability="8.6")
    model = replace(
        find_model("qwen3.5-4b"), checkpoint=Checkpoint(Path("a"), note=f"Fetched from there. {passed}")
    )
    told = make_plan(spec, model, card).notes
    assert [each for each in told if "passes over" in each] == [f"Fetched from there. {passed}"]


def test_a_plan_tells_formats_that_a_card_lacks_and_those_that_are_not_known() -> None:
    def standing(capability: str) -> dict[tuple[str, KnobValue], Standing]:
        return {(row.knob, row.value): row.standing for row in on_a_card(capability).levers}

    old, ampere, ada = standing("7.5"), standing("8.6"), standing("8.9")
    assert old["serving.dtype", "bfloat16"] is Standing.NO
    assert ampere["serving.dtype", "bfloat16"] is Standing.YES
    assert old["serving.gdn_state_dtype", "bfloat16"] is Standing.NOT_KNOWN
    for cache in ("fp8_e4m3", "fp8_e5m2"):
        found = [each["serving.kv_cache_dtype", cache] for each in (old, ampere, ada)]
        assert found == [Standing.NO, Standing.NOT_KNOWN, Standing.YES]
    assert on_a_card("7.5").configuration["serving.dtype"] == "float16"


def test_a_value_of_a_sweep_that_a_card_lacks_is_told_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"baseline\.sweep: .*cannot be flashinfer.*this GPU has 8\.6"):
        on_a_card("8.6", **{"baseline.sweep": {GDN_PREFILL: ["auto", "flashinfer"]}})


def test_ngrams_are_planned_without_steps_ahead_where_the_vllm_that_is_here_cannot() -> None:
    spec = load_campaign("default", {**ON_VLLM, "target": "cuda:0"})
    asked = {"drafting.method": "ngram", "serving.async_scheduling": "on"}
    for version, can in (((0, 28), False), ((0, 33), True)):
        legal = legal_here(spec, reference_model_path(), 2, Gpu("9.0", version=version))
        why = legal.refused(legal.space.configuration(asked))
        assert (why is None) is can, why
        assert legal.refused(legal.space.configuration({**asked, "serving.async_scheduling": "off"})) is None


def test_a_plan_by_a_shape_alone_knows_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        legal_planned, "gpu_served", lambda spec, capability: Gpu(capability, version=(0, 28))
    )
    spec = load_campaign("default", {**ON_VLLM, "target": "cuda:0"})
    card = Card("a card", 80 * 10**9, is_gpu=True, compute_capability="9.0")
    legal = legal_planned.planned_legal(spec, find_model("qwen3.5-4b"), card, None)
    asked = {"drafting.method": "ngram", "serving.async_scheduling": "on"}
    told = legal.refused(legal.space.configuration(asked))
    assert told is not None
    assert told.startswith("vLLM 0.28 schedules no step ahead beside drafts by n-grams")


@pytest.mark.parametrize(("concurrency", "given"), [(1, (2048, 4096, 8192, 16_384)), (16, (8192, 16_384))])
def test_a_campaign_and_a_plan_by_a_shape_propose_no_more_room_in_a_step_than_requests_ask_for(
    concurrency: int, given: tuple[int, ...]
) -> None:
    asked = {"plan.workload.concurrency": concurrency, "plan.workload.prompt_tokens": 128}
    spec = load_campaign("default", {**ON_VLLM, **asked, "target": "cuda:0"})
    card = Card("a card", 80 * 10**9, is_gpu=True, compute_capability="9.0")
    for legal in (
        legal_here(spec, reference_model_path(), 2, Gpu("9.0", version=(0, 33))),
        legal_planned.planned_legal(spec, find_model("qwen3.5-4b"), card, None),
    ):
        assert legal.space.knob(BATCH_TOKENS).given == given
        assert legal.why_same({BATCH_TOKENS: 8192}) is not None
