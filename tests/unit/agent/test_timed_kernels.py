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
from agent.proposers.port import Draft
from agent.proposers.roofline import RooflineProposer
from agent.proposers.rules import RulesProposer
from agent.proposers.turns import Rule, in_turns
from agent.ranking.candidates import candidate_of
from agent.ranking.ranking import rank
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.cost_priors import PAIRS_PRIOR
from agent.surrogate.kernel_parts import PRODUCTS
from agent.surrogate.timed_kernels import TIMED_SD_LOG, TimedKernels
from configs.campaign import load_campaign
from experiments.engines.kernel_timings import KERNEL, KernelTiming, KernelTimings
from experiments.measurement.plan import Margins
from experiments.space.configuration import KnobValue
from tests.recorded.kernel_timings import CUT_OFF_STEP_US, SIXTEEN_BITS_US, STEP_US, cut_off, recorded
from tests.unit.agent.kernels_timed import (
    BANDWIDTH,
    BASELINE,
    SPACE,
    beliefs,
    packed,
    physics,
    some_left,
    view,
)

NAMES = ("humming", "machete", "marlin", "triton")

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


def test_a_kernel_of_which_some_was_cut_off_is_proposed_with_a_word_on_it() -> None:
    timed = some_left("qkv_proj")
    words = timed_words(view(timed.timings), packed("marlin"))
    assert words.endswith(" (where a product was not timed, as other kernels have it). ")
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
    """As on an H200: one of seven had been compiled, in 22.9 s, and in 1.5 s by a second process. Where none
    was asked it is not known whether the others would be compiled at each load at all."""

    def told(again_s: float | None, **rest: object) -> TimedKernels:
        some = some_left("down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj", "lm_head", **rest)
        (timing,) = (each for each in some.timings.packed if each.knobs[KERNEL] == "marlin")
        first, *others = timing.parts
        compiled = replace(timing, parts=(replace(first, first_call_s=22.9, again_s=again_s), *others))
        return TimedKernels(replace(some.timings, packed=(compiled,)))

    assert told(1.5).compiles_s(packed("marlin")) == pytest.approx(6 * 1.5)
    assert told(1.5).compiles_s(packed("marlin", lm_head="quantized")) == pytest.approx(7 * 1.5)
    assert told(1.5).compiles_s(packed("marlin", keep="attention")) == pytest.approx(4 * 1.5)
    assert told(None).compiles_s(packed("marlin")) == 22.9
    assert told(1.5, left=False).compiles_s(packed("marlin")) == 1.5, "what failed is not compiled"
    assert told(1.5).compiles_s(packed("humming")) == told(1.5).compiles_s(BASELINE) == 0.0
