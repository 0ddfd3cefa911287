"""Kernels timed alone decide which are tested first, by what they took and never by their names."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import pytest

from agent.campaign.decision.expected_cost import cost_priors
from agent.campaign.known.measured import Baseline
from agent.proposers.idea import Idea
from agent.proposers.kernel_words import timed_words
from agent.proposers.port import CampaignView, Draft
from agent.proposers.roofline import RooflineProposer
from agent.proposers.rules import RulesProposer
from agent.proposers.turns import Rule, in_turns
from agent.ranking.candidates import candidate_of
from agent.ranking.ranking import rank
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.cost_priors import PAIRS_PRIOR
from agent.surrogate.kernel_parts import HEAD, PRODUCTS
from agent.surrogate.physics import Physics
from agent.surrogate.timed_kernels import (
    AS_OTHERS_SD_LOG,
    OTHER_FORMAT_SD_LOG,
    TIMED_SD_LOG,
    Timed,
    TimedKernels,
    refused_by,
)
from configs.campaign import load_campaign
from configs.models import load_model_profile
from experiments.engines.kernel_timings import KERNEL, KernelTiming, KernelTimings
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins, Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from tests.recorded.kernel_timings import CUT_OFF_STEP_US, SIXTEEN_BITS_US, STEP_US, cut_off, recorded
from tests.recorded.vllm_kernels import PROFILED, recorded_parts
from tests.unit.agent import campaigns

SPACE = load_space("vllm")
BASELINE = SPACE.configuration({})
PARTS = tuple(recorded_parts("bf16"))
BANDWIDTH = float(PROFILED["bf16"]["copy_bytes_per_s"])
NAMES = ("humming", "machete", "marlin", "triton")


def packed(kernel: str = "auto", **knobs: KnobValue) -> Configuration:
    told: dict[str, KnobValue] = {
        "quantization.method": "awq",
        "quantization.group_size": 128,
        KERNEL: kernel,
    }
    told |= {f"quantization.{name}": value for name, value in knobs.items()}
    return SPACE.configuration(told)


def physics(timings: KernelTimings | None) -> Physics:
    return Physics(
        baseline=BASELINE,
        tpot_ms=5.24,
        profile=PARTS,
        bandwidth_bytes_per_s=BANDWIDTH,
        shape=load_model_profile("qwen3.5-9b"),
        serves_packed=True,
        timed=None if timings is None else TimedKernels(timings),
    )


def beliefs(timings: KernelTimings | None) -> Beliefs:
    return Beliefs.learn(SPACE, physics(timings), (), Margins(), judges_quality=False)


def view(timings: KernelTimings | None, incumbent: Configuration = BASELINE) -> CampaignView:
    timed = None if timings is None else TimedKernels(timings)
    predict = beliefs(timings).predict
    plain = campaigns.view()
    return replace(
        plain,
        space=SPACE,
        baseline=BASELINE,
        incumbent=incumbent,
        trials=(),
        taken=frozenset(),
        profile=PARTS,
        bandwidth_bytes_per_s=BANDWIDTH,
        serves_packed=True,
        predict=predict,
        predict_on=predict,
        refused=refused_by(timed, plain.refused),
        timed=timed,
    )


SHAPE = load_campaign("shape")


def measured() -> Baseline:
    """A baseline whose loads take 40 s."""
    digest = BASELINE.digest
    return Baseline({digest: 5.24}, {digest: 40.0}, (), 1.0, BANDWIDTH, load_s=40.0)


def in_order(timings: KernelTimings | None) -> list[Draft]:
    """The drafts in the order of the queue; a shape takes none that drafts or prunes."""
    asked = view(timings)
    drafts = [
        each
        for each in RulesProposer().propose(asked, 80)
        if all(each.candidate.get(f"{lever}.method") == "none" for lever in ("drafting", "pruning"))
    ]
    priors = cost_priors(SHAPE.plan, measured(), BASELINE.digest, None, {}, made_up=True, timed=asked.timed)
    compiled_s = priors.compiled_s
    about = beliefs(timings).about([(asked.incumbent, each.candidate) for each in drafts])
    candidates = [
        candidate_of(
            number,
            SPACE.levers_between(asked.incumbent, draft.candidate),
            replace(belief, cost_s=100.0 + PAIRS_PRIOR * compiled_s(draft.candidate), builds_s={}),
        )
        for number, (draft, belief) in enumerate(zip(drafts, about, strict=True))
    ]
    return [drafts[number] for number in rank(candidates).order]


def test_the_first_test_is_packed_weights_on_the_kernel_that_took_least() -> None:
    first = in_order(recorded())[0]
    assert first.candidate[KERNEL] == "humming"
    assert first.candidate["quantization.lm_head"] == "quantized"
    assert first.rationale.startswith(
        "Timed alone, humming multiplies this model's weights in 2.15 ms a step, MacheteLinearKernel, which "
        "the engine chooses, in 2.75. "
    )
    kernels = [each.candidate.get(KERNEL) for each in in_order(recorded())[:4]]
    assert set(kernels) == {"humming", "marlin"}


def test_without_timings_no_kernel_is_named_before_anything_was_quantized() -> None:
    assert {each.candidate.get(KERNEL) for each in in_order(None)} <= {None, "auto"}


def test_a_name_for_what_the_engine_chooses_anyway_is_not_proposed_for_a_time_that_is_luck() -> None:
    def lucky(timing: KernelTiming) -> KernelTiming:
        parts = tuple(replace(each, us=None if each.us is None else 0.7 * each.us) for each in timing.parts)
        return replace(timing, parts=parts) if timing.knobs[KERNEL] == "machete" else timing

    plain = recorded()
    told = replace(plain, packed=tuple(map(lucky, plain.packed)))
    assert "machete" not in {each.candidate.get(KERNEL) for each in in_order(told)}


@pytest.mark.parametrize("names", list(permutations(NAMES)))
def test_names_of_kernels_exchanged_with_their_times_exchange_the_choice(names: tuple[str, ...]) -> None:
    told = dict(zip(NAMES, names, strict=True))
    plain, other = in_order(recorded())[:3], in_order(recorded(told))[:3]
    assert [each.candidate[KERNEL] for each in other] == [
        told.get(str(each.candidate[KERNEL]), "auto") for each in plain
    ]
    assert [each.prediction for each in other] == [each.prediction for each in plain]


def one_by_one(timings: KernelTimings, count: int) -> list[Draft]:
    """What `roofline` brings of quantized weights when it is asked for one draft after the other, as it is by
    its share."""
    asked, found = view(timings), list[Draft]()
    while len(found) < count:
        (draft,) = RooflineProposer().propose(asked, 1)
        asked = replace(asked, taken=asked.taken | {draft.candidate.digest})
        if "quantization" in draft.lever:
            found.append(draft)
    return found


def stored(draft: Draft) -> dict[str, KnobValue]:
    """How a candidate's weights are packed."""
    return {name: value for name, value in draft.candidate.items() if name.startswith("quantization.")}


@pytest.mark.parametrize("names", list(permutations(NAMES)))
def test_the_second_kernel_of_the_best_format_comes_before_other_formats_of_the_first(
    names: tuple[str, ...],
) -> None:
    """All three of a campaign's places had gone to one kernel, which each launch compiled for 90 s."""
    told = dict(zip(NAMES, names, strict=True))
    first, second, third = one_by_one(cut_off(told), 3)
    assert first.candidate[KERNEL] == told["humming"]
    assert second.candidate[KERNEL] == told["marlin"]
    assert stored(second) == stored(first)
    assert third.candidate[KERNEL] == told["humming"]
    assert stored(third) != stored(first)


def test_what_follows_another_kernel_comes_before_it_where_more_is_expected_of_it() -> None:
    asked = view(recorded())
    slow, fast = (Idea(packed(kernel), "") for kernel in ("marlin", "humming"))
    between = Idea(packed("machete"), "")
    behind = replace(fast, behind=slow.candidate)
    found = in_turns(asked, [Rule("mine", [between, slow, behind])], 3)
    assert [each.candidate[KERNEL] for each in found] == ["humming", "marlin", "machete"]
    found = in_turns(asked, [Rule("mine", [slow, replace(between, behind=fast.candidate), fast])], 3)
    assert [each.candidate[KERNEL] for each in found] == ["humming", "machete", "marlin"]


def test_a_head_that_was_timed_with_one_kernel_alone_makes_none_of_the_others_slower() -> None:
    timed = TimedKernels(cut_off())
    heads = [packed(kernel, lm_head="quantized") for kernel in ("humming", "marlin", "auto")]
    together = timed.together(heads)
    assert [each and each.us for each in together.each] == [
        pytest.approx(sum(CUT_OFF_STEP_US[4, 128, True, kernel][:6]))  # type: ignore[arg-type]
        for kernel in ("humming", "marlin", "auto")
    ]
    assert not together.with_head
    both = timed.together(heads[1:])
    assert both.with_head
    assert both.each[0] is not None
    assert both.each[0].us == pytest.approx(sum(CUT_OFF_STEP_US[4, 128, True, "marlin"]))  # type: ignore[arg-type]
    drafts = RooflineProposer().propose(view(cut_off()), 40)
    first, second = (
        next(each for each in drafts if each.candidate == packed(kernel, lm_head="quantized"))
        for kernel in ("humming", "marlin")
    )
    assert first.rationale.startswith(
        "Timed alone, humming multiplies the layers' weights in 1.87 ms a step, MacheteLinearKernel, which "
        "the engine chooses, in 2.91. "
    )
    assert second.rationale.startswith(
        "Timed alone, marlin multiplies this model's weights in 2.53 ms a step, MacheteLinearKernel, which "
        "the engine chooses, in 3.10. "
    )


def test_what_is_expected_of_packed_products_is_the_ratio_that_was_timed() -> None:
    timed = physics(recorded())
    setting = tuple((knob, value) for knob, value in packed().items() if knob.startswith("quantization."))
    found = timed.expect("quantization", setting).parts[PRODUCTS]
    assert found.mean_log == pytest.approx(math.log(sum(STEP_US["auto"][:-1]) / sum(SIXTEEN_BITS_US[:-1])))
    assert list(found.open.values()) == [TIMED_SD_LOG]
    kernel = timed.expect("kernel", ((KERNEL, "humming"),), (("quantization", setting),)).parts[PRODUCTS]
    assert kernel.mean_log == pytest.approx(
        math.log(sum(STEP_US["humming"][:-1]) / sum(STEP_US["auto"][:-1]))
    )
    assert list(kernel.open.values()) == [pytest.approx(TIMED_SD_LOG / math.sqrt(2))]


@pytest.mark.parametrize(
    ("kernel", "head", "step_ms"),
    [
        ("humming", "high", 3.46),
        ("marlin", "high", 3.57),
        ("machete", "high", 4.19),
        ("marlin", "quantized", 3.30),
    ],
)
def test_steps_are_foretold_within_what_is_said(kernel: str, head: str, step_ms: float) -> None:
    """Steps of docs/results/h200-9b.md, one request of 512 tokens, of which the kernels' times are parts."""
    found = beliefs(recorded()).predict(BASELINE, packed(kernel, lm_head=head))
    untimed = beliefs(None).predict(BASELINE, packed(kernel, lm_head=head))
    off = abs(math.log(step_ms / 5.24) - found.log_ratio_mean)
    assert off < found.log_ratio_sd
    assert found.log_ratio_sd < 0.7 * untimed.log_ratio_sd


def test_a_kernel_that_was_refused_is_refused_with_the_reason_and_no_other_is() -> None:
    timed = TimedKernels(recorded())
    assert timed.refusal(packed("conch")) == (
        "When kernels were timed, serving.linear_backend=conch was refused with 4 bits: ConchLinearKernel "
        "cannot implement due to: conch-triton-kernels is not installed"
    )
    assert [timed.refusal(packed(kernel)) for kernel in ("auto", "exllama", "humming")] == [None] * 3
    assert timed.refusal(packed("conch", group_size=64)) is None, "that format was not timed"
    assert timed.refusal(BASELINE) is None
    assert "conch" not in {each.candidate.get(KERNEL) for each in in_order(recorded())}


def test_a_format_that_was_not_timed_stands_at_the_nearest_of_its_bits_and_is_less_sure() -> None:
    timed = TimedKernels(recorded())
    exact, near = timed.of(packed("marlin")), timed.of(packed("marlin", group_size=32, symmetric=False))
    assert exact is not None
    assert near is not None
    assert (near.us, near.sd_log) == (exact.us, pytest.approx(OTHER_FORMAT_SD_LOG))
    assert timed.of(packed("marlin", bits=8)) is None


def on_marlin(group_size: int, timings: KernelTimings, surprise: float) -> Prediction:
    """What groups of this size are expected to do to weights on `marlin` in groups of 128, after the products
    of these came out by so much, on the log scale, beside what was timed alone, as a profile told."""
    tested, told = packed("marlin"), physics(timings)
    expected = beliefs(timings).predict(BASELINE, tested)
    timed = TimedKernels(timings).effect(BASELINE, tested, PRODUCTS)
    assert timed is not None
    factor = math.exp(timed.mean_log + surprise)
    profile = tuple(
        replace(part, time_ms=part.time_ms * factor) if part.kind == PRODUCTS else part for part in PARTS
    )
    share = told.parts[PRODUCTS] * math.exp(timed.mean_log)
    effect_log = expected.log_ratio_mean + math.log1p(share * math.expm1(surprise))
    trial = campaigns.trial(tested, Outcome.SUPPORTED, math.expm1(effect_log), control=BASELINE, se=0.003)
    trial = replace(trial, profile=profile)
    learnt = Beliefs.learn(SPACE, told, (trial,), Margins(), judges_quality=False)
    return learnt.predict(tested, packed("marlin", group_size=group_size))


@pytest.mark.parametrize("surprise", [-0.12, 0.12])
def test_what_a_step_adds_to_timed_kernels_says_nothing_of_how_a_format_differs(surprise: float) -> None:
    """On an H200 groups of 128 ran 12 % faster in a step than they had been timed alone, and groups of 64,
    which no kernel was timed with, were expected to be 8.5 % faster still, and tested next: what all formats
    have in common had moved the one that was less sure the further."""
    unmoved = on_marlin(64, recorded(), 0.0)
    moved = on_marlin(64, recorded(), surprise)
    assert moved.log_ratio_mean == pytest.approx(unmoved.log_ratio_mean, abs=0.005)
    assert moved.log_ratio_mean == pytest.approx(0.0, abs=0.01)
    assert moved.log_ratio_sd > 0.4 * OTHER_FORMAT_SD_LOG, "how the format differs is as open as before"


def test_of_two_formats_that_were_not_timed_on_one_kernel_that_kernel_alone_is_open() -> None:
    """Where the engine's choice was not timed in a format either, it goes in and out again."""
    near = packed("marlin", group_size=64)
    found = Beliefs.learn(SPACE, physics(recorded()), (), Margins(), judges_quality=False)
    _, features = found.latency.contrast(BASELINE, near)
    names = [name for name in features if "not timed" in name and features[name]]
    assert [("'marlin'" in name, "'auto'" in name) for name in names] == [(True, False)]


def test_parts_that_stay_as_they_are_count_with_16_bits() -> None:
    timed = TimedKernels(recorded())
    whole, spared, edges = (timed.of(packed("marlin", keep=keep)) for keep in ("none", "attention", "edges"))
    assert whole is not None
    assert spared is not None
    assert edges is not None
    assert spared.us - whole.us == pytest.approx(178 + 101 - 103 - 71)
    assert edges.us - whole.us == pytest.approx(2 / 32 * (sum(SIXTEEN_BITS_US[:6]) - whole.us))
    assert timed.of(packed("marlin", out_proj_bits=8)) is None
    head = timed.of(packed("marlin", lm_head="quantized"), HEAD)
    assert head is not None
    assert head.us == pytest.approx(183)
    assert timed.of(BASELINE) == replace(whole, us=float(sum(SIXTEEN_BITS_US[:6])))


def some_left(*parts: str, of_kernel: str = "marlin", **told: object) -> TimedKernels:
    """The recorded timings, of which a kernel's products of these parts were cut off, or are as `told`."""
    found = recorded()

    def cut(timing: KernelTiming) -> KernelTiming:
        if timing.knobs[KERNEL] != of_kernel:
            return timing
        left = {"us": None, "untimed": "The limit was reached.", "left": True, **told}
        changed = (replace(each, **left) if each.part in parts else each for each in timing.parts)  # type: ignore[arg-type]
        return replace(timing, parts=tuple(changed))

    return TimedKernels(replace(found, packed=tuple(map(cut, found.packed))))


def test_products_that_were_cut_off_stand_as_they_do_with_other_kernels() -> None:
    whole, partly = (timed.of(packed("marlin")) for timed in (some_left(), some_left("qkv_proj", "o_proj")))
    assert whole is not None
    assert partly is not None
    others = [STEP_US[kernel][:6] for kernel in ("humming", "machete")]
    shares = [(qkv + o) / (sum(of) - qkv - o) for of in others for _, _, _, _, qkv, o in [of]]
    assert partly.us == pytest.approx((whole.us - (103 + 71)) * (1 + math.sqrt(math.prod(shares))))
    assert (whole.whole, partly.whole) == (True, False)
    assert (whole.sd_log, partly.sd_log) == (0.0, pytest.approx(AS_OTHERS_SD_LOG * rest_share(partly, whole)))


def rest_share(partly: Timed, whole: Timed) -> float:
    """Which share of what is told was not timed."""
    return 1 - (whole.us - (103 + 71)) / partly.us


def test_the_first_product_alone_tells_of_a_kernel_nearly_what_all_of_them_do() -> None:
    """As on an H200 with vLLM 0.33, where one product of seven had compiled when the limit came: a kernel as
    slow on small products as others are was not known, and the second fastest went first."""
    rest = ("down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj")
    for kernel in ("humming", "machete", "marlin"):
        whole, partly = (
            timed.of(packed(kernel)) for timed in (some_left(), some_left(*rest, of_kernel=kernel))
        )
        assert whole is not None
        assert partly is not None
        assert abs(math.log(partly.us / whole.us)) < 2 * partly.sd_log < 2 * AS_OTHERS_SD_LOG


def test_what_a_far_slower_kernel_takes_tells_nothing_of_the_others() -> None:
    def slower(timing: KernelTiming) -> KernelTiming:
        """`triton`, whose small products take ten times as long as they did."""
        if timing.knobs[KERNEL] != "triton":
            return timing
        times = (each.us and each.us * (1 if each.part == "gate_up_proj" else 10) for each in timing.parts)
        return replace(
            timing, parts=tuple(replace(each, us=us) for each, us in zip(timing.parts, times, strict=True))
        )

    told = some_left("qkv_proj", "o_proj")
    other = TimedKernels(replace(told.timings, packed=tuple(map(slower, told.timings.packed))))
    assert told.of(packed("marlin")) == other.of(packed("marlin"))


@pytest.mark.parametrize(
    "timed",
    [
        some_left("gate_up_proj", "down_proj", "in_proj_qkvz"),
        some_left("o_proj", untimed="It crashed.", left=False),
        some_left("o_proj", untimed=None, left=False, refused="No such kernel."),
    ],
    ids=["most of it", "one that failed", "one that was refused"],
)
def test_where_little_was_timed_or_something_failed_nothing_is_said(timed: TimedKernels) -> None:
    assert timed.of(packed("marlin")) is None
    assert timed.of(packed("machete")) is not None


def test_where_no_other_kernel_was_timed_wholly_nothing_is_said_of_one_that_was_cut_off() -> None:
    told = some_left("o_proj").timings
    alone = TimedKernels(
        replace(told, packed=tuple(each for each in told.packed if each.knobs[KERNEL] == "marlin"))
    )
    assert alone.of(packed("marlin")) is None


def test_a_head_that_was_cut_off_stands_nowhere() -> None:
    timed = some_left("lm_head")
    assert timed.of(packed("marlin", lm_head="quantized"), HEAD) is None
    assert timed.of(packed("marlin", lm_head="quantized")) is not None


def test_a_kernel_of_which_some_was_cut_off_is_proposed_with_a_word_on_it() -> None:
    timed = some_left("qkv_proj")
    words = timed_words(view(timed.timings), packed("marlin"))
    assert words.endswith(" (products that were not timed as other kernels take them). ")
    assert "marlin multiplies" in words


def test_of_two_kernels_as_fast_the_one_that_is_not_compiled_at_every_launch_goes_first() -> None:
    """As on an H100: 2.29 and 2.30 ms, and the faster one was compiled for a minute or two a load."""
    fast, ready = "humming", "marlin"
    told = recorded()
    of = {str(each.knobs.get(KERNEL)): each for each in told.packed}
    compiled = replace(of[fast], parts=tuple(replace(part, first_call_s=17.0) for part in of[fast].parts))
    as_fast = replace(
        of[ready],
        parts=tuple(
            replace(part, us=part.us and 1.007 * part.us, kernel=of[ready].kernel) for part in of[fast].parts
        ),
    )
    others = tuple(each for each in told.packed if str(each.knobs.get(KERNEL)) not in {fast, ready})

    def first(*kernels: KernelTiming) -> object:
        return in_order(replace(told, packed=(*kernels, *others)))[0].candidate[KERNEL]

    assert first(of[fast], as_fast) == fast, "as long as neither is compiled"
    assert first(compiled, as_fast) == ready


@pytest.mark.parametrize(("at_once", "loads"), [(None, PAIRS_PRIOR), (4, PAIRS_PRIOR - 1)])
def test_what_a_kernel_compiles_is_expected_to_cost_each_time_a_test_waits_for_loads(
    at_once: int | None, loads: int
) -> None:
    told = recorded()
    parts = tuple(replace(part, first_call_s=10.0) for part in told.packed[0].parts)
    timed = TimedKernels(replace(told, packed=(replace(told.packed[0], parts=parts), *told.packed[1:])))
    candidate = packed(str(told.packed[0].knobs.get(KERNEL)), lm_head="quantized")
    expected_s = [
        Beliefs.learn(
            SPACE,
            physics(told),
            (),
            Margins(),
            priors=cost_priors(
                SHAPE.plan,
                measured(),
                BASELINE.digest,
                None,
                {},
                at_once=at_once,
                made_up=True,
                timed=given,
            ),
            judges_quality=False,
        )
        .about([(BASELINE, candidate)])[0]
        .cost_s
        for given in (None, timed)
    ]
    assert expected_s[1] - expected_s[0] == pytest.approx(loads * 70.0)


def test_what_first_calls_took_is_summed_over_the_products_that_are_packed() -> None:
    told = recorded()
    parts = tuple(replace(part, first_call_s=10.0) for part in told.packed[0].parts)
    timed = TimedKernels(replace(told, packed=(replace(told.packed[0], parts=parts), *told.packed[1:])))
    kernel = str(told.packed[0].knobs.get(KERNEL))
    assert timed.compiles_s(packed(kernel, lm_head="high")) == 60.0
    assert timed.compiles_s(packed(kernel, lm_head="quantized")) == 70.0
    assert timed.compiles_s(BASELINE) == 0.0


def test_which_class_ran_is_told_of_the_parts_that_a_configuration_packs_and_of_timed_formats_alone() -> None:
    told = TimedKernels(recorded())
    every = {each.part for each in recorded().plain.parts}
    attention, head = {"qkv_proj", "o_proj"}, {"lm_head"}
    assert told.classes(packed("marlin")) == dict.fromkeys(every - head, "MarlinLinearKernel")
    assert told.classes(packed(lm_head="quantized")) == dict.fromkeys(every, "MacheteLinearKernel")
    assert told.classes(packed(keep="attention")).keys() == every - head - attention
    assert told.classes(packed(out_proj_bits=8)).keys() == every - head - {"out_proj"}, "not timed in 8 bits"
    assert told.classes(packed(group_size=32)) == {}
    assert told.classes(BASELINE) == {}, "nothing is packed"


def test_a_product_that_was_cut_off_costs_a_load_as_much_as_those_that_were_timed() -> None:
    """As on an H200: one of seven had been compiled, in 22.9 s, and in 1.5 s by a second process."""
    told = some_left("down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj", "lm_head").timings
    compiled = [
        replace(each, first_call_s=22.9, again_s=1.5) if each.us is not None else each
        for timing in told.packed
        if timing.knobs[KERNEL] == "marlin"
        for each in timing.parts
    ]
    timed = TimedKernels(replace(told, packed=(KernelTiming(packed("marlin"), tuple(compiled)),)))
    assert timed.compiles_s(packed("marlin")) == pytest.approx(6 * 1.5)
    assert timed.compiles_s(packed("marlin", lm_head="quantized")) == pytest.approx(7 * 1.5)
    assert timed.compiles_s(packed("humming")) == timed.compiles_s(BASELINE) == 0.0
