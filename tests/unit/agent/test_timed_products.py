"""What stands for products that were not timed, and what is open of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.surrogate.beliefs import Beliefs
from agent.surrogate.carried import Carried
from agent.surrogate.kernel_parts import HEAD, PRODUCTS
from agent.surrogate.timed_kernels import TIMED_SD_LOG, TimedKernels
from agent.surrogate.timed_products import (
    AS_OTHERS_SD_LOG,
    KERNEL_SD_LOG,
    OTHER_FORMAT_SD_LOG,
    Timed,
    as_others_sd_log,
)
from experiments.engines.kernel_timings import KERNEL, KernelTiming, KernelTimings
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins, Prediction
from experiments.space.configuration import Configuration
from tests.recorded.kernel_timings import SIXTEEN_BITS_US, STEP_US, recorded
from tests.unit.agent import campaigns
from tests.unit.agent.kernels_timed import (
    BASELINE,
    PARTS,
    SPACE,
    beliefs,
    only,
    packed,
    physics,
    some_left,
)


def test_a_format_that_was_not_timed_stands_at_the_nearest_of_its_bits_and_is_less_sure() -> None:
    timed = TimedKernels(recorded())
    exact, near = timed.of(packed("marlin")), timed.of(packed("marlin", group_size=32, symmetric=False))
    assert exact is not None
    assert near is not None
    assert (near.us, near.sd_log) == (exact.us, pytest.approx(OTHER_FORMAT_SD_LOG))
    assert timed.of(packed("marlin", bits=8)) is None


def after_marlin(surprise: float) -> Beliefs:
    """What is believed after 4 bits in groups of 128 on `marlin` were tested, whose products came out by so
    much, on the log scale, beside what was timed alone, as a profile told."""
    tested, told = packed("marlin"), physics(recorded())
    expected = beliefs(recorded()).predict(BASELINE, tested)
    timed = TimedKernels(recorded()).effect(BASELINE, tested, PRODUCTS)
    assert timed is not None
    factor = math.exp(timed.mean_log + surprise)
    profile = tuple(
        replace(part, time_ms=part.time_ms * factor) if part.kind == PRODUCTS else part for part in PARTS
    )
    share = told.parts[PRODUCTS] * math.exp(timed.mean_log - expected.log_ratio_mean)
    effect_log = expected.log_ratio_mean + math.log1p(share * math.expm1(surprise))
    trial = campaigns.trial(tested, Outcome.SUPPORTED, math.expm1(effect_log), control=BASELINE, se=0.003)
    trial = replace(trial, profile=profile)
    return Beliefs.learn(SPACE, told, (trial,), Margins(), judges_quality=False)


def on_marlin(group_size: int, surprise: float) -> Prediction:
    """What groups of this size are expected to do then to groups of 128."""
    return after_marlin(surprise).predict(packed("marlin"), packed("marlin", group_size=group_size))


@pytest.mark.parametrize("surprise", [-0.12, 0.12])
def test_what_a_step_adds_to_timed_kernels_says_nothing_of_how_a_format_differs(surprise: float) -> None:
    """On an H200 groups of 128 ran 12 % faster in a step than they had been timed alone, and groups of 64,
    which no kernel was timed with, were expected to be 8.5 % faster still, and tested next: what all formats
    have in common had moved the one that was less sure the further."""
    unmoved, moved = on_marlin(64, 0.0), on_marlin(64, surprise)
    assert moved.log_ratio_mean == pytest.approx(unmoved.log_ratio_mean, abs=0.005)
    assert moved.log_ratio_mean == pytest.approx(0.0, abs=0.01)
    assert moved.log_ratio_sd > 0.4 * OTHER_FORMAT_SD_LOG, "how the format differs is as open as before"


@pytest.mark.parametrize("surprise", [-0.12, 0.12])
def test_what_a_step_adds_to_timed_kernels_says_nothing_of_what_was_not_timed(surprise: float) -> None:
    """Eight bits were timed with no kernel: half of the bandwidth is expected of them, give or take much."""
    eight = packed("marlin", bits=8)
    unmoved, moved = (after_marlin(each).predict(BASELINE, eight) for each in (0.0, surprise))
    assert moved.log_ratio_mean == pytest.approx(unmoved.log_ratio_mean, abs=0.03)
    assert moved.log_ratio_sd > 2 * TIMED_SD_LOG


def test_another_card_s_packed_weights_say_nothing_of_products_that_were_timed_here() -> None:
    """There they are held against half of the bandwidth, here against what was timed."""
    tested = packed("marlin")
    trial = campaigns.trial(tested, Outcome.SUPPORTED, -0.5, control=BASELINE, se=0.003)
    there = Carried(
        trial,
        "C-9",
        same_model=True,
        same_workload=True,
        tpot_ms=9.0,
        same_hardware=False,
        bandwidth_bytes_per_s=1e12,
    )
    plain, told = (
        Beliefs.learn(SPACE, physics(recorded()), (), Margins(), judges_quality=False, carried=carried)
        for carried in ((), (there,))
    )
    assert told.predict(BASELINE, tested).log_ratio_mean == pytest.approx(
        plain.predict(BASELINE, tested).log_ratio_mean, abs=0.01
    )
    untimed = (
        Beliefs.learn(SPACE, physics(None), (), Margins(), judges_quality=False, carried=carried)
        for carried in ((), (there,))
    )
    before, after = (each.predict(BASELINE, tested).log_ratio_mean for each in untimed)
    assert abs(after - before) > 0.02, "where nothing was timed it does"


def open_names(timings: KernelTimings, control: Configuration, candidate: Configuration) -> list[str]:
    """The unknowns of products that were not timed, by which two configurations differ."""
    _, features = beliefs(timings).latency.contrast(control, candidate)
    return [
        name
        for name, weight in features.items()
        if abs(weight) > 1e-9 and ("not timed" in name or "cut off" in name)
    ]


def test_of_a_format_that_was_not_timed_on_a_kernel_that_kernel_alone_is_open() -> None:
    """Where the engine's choice was not timed in a format either, it goes in and out again."""
    (name,) = open_names(recorded(), BASELINE, packed("marlin", group_size=64))
    assert "not timed of MarlinLinearKernel, 4 bits, groups of 64" in name


def test_each_format_that_was_not_timed_is_open_by_itself() -> None:
    pair = packed("marlin", group_size=64), packed("marlin", symmetric=False)
    assert len(open_names(recorded(), *pair)) == 2
    effect = TimedKernels(recorded()).effect(*pair, PRODUCTS)
    assert effect is not None
    assert sorted(effect.open.values()) == [
        pytest.approx(-OTHER_FORMAT_SD_LOG),
        pytest.approx(OTHER_FORMAT_SD_LOG),
    ]


def test_what_stands_for_the_rest_of_a_kernel_stands_in_all_of_its_formats_alike() -> None:
    """A surprise on one format of a kernel that was cut off makes no other format of it a better bet."""
    told = some_left("down_proj", "in_proj_qkvz", "out_proj", of_kernel="humming").timings
    (rest,) = open_names(told, BASELINE, packed("humming"))
    assert rest.startswith("cut off of HummingLinearKernel, 4 bits")
    moved = open_names(told, packed("humming"), packed("humming", group_size=64))
    assert [name for name in moved if "cut off" in name] == []
    assert len(moved) == 1


def test_what_the_engine_chooses_for_a_format_that_was_not_timed_is_as_open_as_any_kernel() -> None:
    timed = TimedKernels(recorded())
    chosen, named = timed.of(packed(group_size=64)), timed.of(packed("marlin", group_size=64))
    assert chosen is not None
    assert named is not None
    assert chosen.sd_log == pytest.approx(KERNEL_SD_LOG)
    assert named.sd_log == pytest.approx(OTHER_FORMAT_SD_LOG)


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


def test_products_that_were_cut_off_stand_as_they_do_with_other_kernels() -> None:
    whole, partly = (timed.of(packed("marlin")) for timed in (some_left(), some_left("qkv_proj", "o_proj")))
    assert whole is not None
    assert partly is not None
    others = [STEP_US[kernel][:6] for kernel in ("humming", "machete")]
    shares = [(qkv + o) / (sum(of) - qkv - o) for of in others for _, _, _, _, qkv, o in [of]]
    assert partly.us == pytest.approx((whole.us - (103 + 71)) * (1 + math.sqrt(math.prod(shares))))
    assert (whole.whole, partly.whole) == (True, False)
    sd_log = as_others_sd_log([math.log(share) for share in shares])
    assert (whole.sd_log, partly.sd_log) == (0.0, pytest.approx(sd_log * rest_share(partly, whole)))


def test_the_more_classes_differ_the_more_is_open_of_another() -> None:
    alike, apart = as_others_sd_log([0.1, 0.11, 0.12]), as_others_sd_log([0.86, 1.02, 1.31])
    assert alike < AS_OTHERS_SD_LOG < apart < 0.3
    assert as_others_sd_log([0.4]) == pytest.approx(AS_OTHERS_SD_LOG * math.sqrt(2)), (
        "of one class little is known"
    )


def rest_share(partly: Timed, whole: Timed) -> float:
    """Which share of what is told was not timed."""
    return 1 - (whole.us - (103 + 71)) / partly.us


def test_the_first_product_alone_tells_of_a_kernel_nearly_what_all_of_them_do() -> None:
    """As on an H200 with vLLM 0.33, where one product of seven had compiled when the limit came: a kernel as
    slow on small products as others are was not known, and the second fastest went first."""
    rest = ("down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj")
    for kernel in ("humming", "marlin"):
        whole, partly = (
            timed.of(packed(kernel)) for timed in (some_left(), some_left(*rest, of_kernel=kernel))
        )
        assert whole is not None
        assert partly is not None
        assert abs(math.log(partly.us / whole.us)) < 2 * partly.sd_log < 0.2


def test_kernels_of_which_one_is_far_slower_tell_nothing_of_one_another() -> None:
    """`triton` took five times as long, and ten times on some: no other stands to it as to the rest."""
    rest = ("down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj")
    assert only(some_left(*rest), "marlin", "triton").of(packed("marlin")) is None
    assert only(some_left(*rest), "marlin", "triton", "humming").of(packed("marlin")) is not None
    assert some_left(*rest, of_kernel="triton").of(packed("triton")) is None


def test_a_class_that_ran_under_another_value_of_the_knob_stands_for_itself() -> None:
    """The engine's own choice was Machete, and timed wholly."""
    rest = ("down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj")
    timed = some_left(*rest, of_kernel="machete")
    assert timed.of(packed("machete")) == timed.of(packed()) == Timed(sum(STEP_US["auto"][:6]))


def with_format(timed: TimedKernels, kernel: str, group_size: int, factor: float, ran: str) -> TimedKernels:
    """The timings with another of a kernel's, in groups of this size by the class that `ran`: its first
    product alone, by a factor of the first format's, and the rest cut off."""
    (first,) = (each for each in timed.timings.packed if each.knobs[KERNEL] == kernel)
    parts = tuple(
        replace(each, us=factor * (each.us or 0.0), kernel=ran)
        if each.part == "gate_up_proj"
        else replace(each, us=None, kernel=None, untimed="The limit was reached.", left=True)
        for each in first.parts
    )
    more = KernelTiming({**first.knobs, "quantization.group_size": group_size}, parts)
    return TimedKernels(replace(timed.timings, packed=(*timed.timings.packed, more)))


def test_where_the_engine_chooses_another_class_for_a_format_no_other_format_stands_for_it() -> None:
    """As on an H200, where vLLM took Humming for groups of 32 and Machete for groups of 128, and one product
    of the former was timed: the rest of Machete had stood for it."""
    humming = with_format(some_left(), "auto", 32, 741 / 957, "HummingLinearKernel")
    found, own = humming.of(packed(group_size=32)), humming.of(packed("humming"))
    assert found is not None
    assert own is not None
    assert found.us == pytest.approx(own.us), "its class was timed in groups of 128 under its own name"
    assert found.sd_log == pytest.approx(OTHER_FORMAT_SD_LOG * (own.us - 741) / own.us)
    same = humming.effect(packed(group_size=32), packed("humming", group_size=32), PRODUCTS)
    assert same is not None
    assert (same.mean_log, same.open) == (0.0, {}), "one class in one format is one unknown"
    compiled = [
        replace(each, parts=tuple(replace(part, first_call_s=20.0, again_s=2.0) for part in each.parts))
        if each.kernel == "HummingLinearKernel"
        else each
        for each in humming.timings.packed
    ]
    prices = TimedKernels(replace(humming.timings, packed=tuple(compiled)))
    assert prices.compiles_s(packed(group_size=32)) == pytest.approx(6 * 2.0), "that class is compiled"
    assert prices.compiles_s(packed()) == 0.0
    unknown = with_format(some_left(), "auto", 32, 741 / 957, "NeverSeenKernel")
    found = unknown.of(packed(group_size=32))
    assert found is not None
    assert (found.whole, list(found.open)) == (False, ["cut off of NeverSeenKernel, 4 bits"])
    open_ = unknown.of(packed(group_size=64))
    assert open_ is not None
    assert open_.sd_log == pytest.approx(KERNEL_SD_LOG), "which class it takes there is not known"
    (name,) = open_names(unknown.timings, BASELINE, packed("marlin", group_size=64))
    assert "MarlinLinearKernel" in name, "and does not matter to a kernel that is named"


def test_what_stands_for_the_rest_is_another_class_in_the_nearest_format() -> None:
    """`humming` in groups of 32 and 128, of which the small products differ."""
    rest = ("down_proj", "in_proj_qkvz", "out_proj", "qkv_proj", "o_proj")
    near = only(some_left(*rest), "marlin", "humming")
    (first,) = (each for each in near.timings.packed if each.knobs[KERNEL] == "humming")
    slower = tuple(
        each if each.part == "gate_up_proj" else replace(each, us=3 * (each.us or 0.0))
        for each in first.parts
    )
    other = KernelTiming({**first.knobs, "quantization.group_size": 32}, slower)
    for packed_timings in ((other, *near.timings.packed), (*near.timings.packed, other)):
        both = TimedKernels(replace(near.timings, packed=packed_timings))
        assert both.of(packed("marlin")) == near.of(packed("marlin"))


def test_only_what_is_packed_in_as_many_bits_tells_of_what_was_cut_off() -> None:
    timed = some_left("o_proj")
    spared = some_left("down_proj").of(packed("marlin", keep="attention"))
    assert spared is not None
    others = [STEP_US[kernel] for kernel in ("humming", "machete")]
    shares = [down / (gate + in_proj + out) for gate, down, in_proj, out, *_ in others]
    known = 800 + 341 + 214
    assert spared.us == pytest.approx(known * (1 + math.sqrt(math.prod(shares))) + 178 + 101)
    assert some_left("out_proj").of(packed("marlin", out_proj_bits=8)) is None
    assert timed.of(packed("marlin", keep="attention")) == some_left().of(packed("marlin", keep="attention"))


def test_times_that_are_none_or_nothing_tell_nothing() -> None:
    def times(timed: TimedKernels, us: float | None, *kernels: str) -> TimedKernels:
        def told(timing: KernelTiming) -> KernelTiming:
            return replace(timing, parts=tuple(replace(each, us=us) for each in timing.parts))

        plain = told(timed.timings.plain) if "plain" in kernels else timed.timings.plain
        rest = tuple(told(each) if each.knobs[KERNEL] in kernels else each for each in timed.timings.packed)
        return TimedKernels(replace(timed.timings, plain=plain, packed=rest))

    cut = some_left("o_proj", "qkv_proj")
    assert times(cut, 0.0, "plain", "marlin").of(packed("marlin")) is None
    assert times(cut, 0.0, "auto", "humming", "machete", "triton").of(packed("marlin")) is None
    lost = ("o_proj", "qkv_proj")
    for other in ("auto", "humming", "machete", "triton"):
        cut = some_left(*lost, timed=cut, of_kernel=other, us=0.0, untimed=None, left=False)
    assert cut.of(packed("marlin")) is None
    without = replace(
        cut.timings.plain,
        parts=tuple(
            replace(each, us=None) if each.part == "o_proj" else each for each in cut.timings.plain.parts
        ),
    )
    assert TimedKernels(replace(cut.timings, plain=without)).of(packed("marlin")) is None


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
