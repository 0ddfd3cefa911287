"""What a request is told to take, with others beside it; held against what GPUs measured."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from agent.plan.card import Card, card_asked, listed_cards
from agent.plan.duration import block_seconds, further_seconds
from agent.plan.load_and_request import (
    Request,
    Stored,
    expected_request,
    known_request,
    prompt_token_ms,
)
from agent.plan.model import find_model
from agent.plan.plan import make_plan
from agent.surrogate.step_loop import Asked, StepTimes, counted
from configs.campaign import load_campaign
from configs.campaign_plan import WorkloadSpec
from configs.hardware import HardwareProfile, load_hardware_profile
from configs.models import load_model_profile
from configs.quantities import format_duration
from configs.weight_formats import FLOAT32
from experiments.measurement.plan import FurtherWorkload

DOCS = Path(__file__).parents[4] / "docs"
TABLES = DOCS / "results" / "tables"
SHAPE = load_campaign("shape").plan.workload
NINE, H200 = load_model_profile("qwen3.5-9b"), load_hardware_profile("h200")

MEASURED = {
    ("qwen3.5-9b", "h200"): ("h200-9b", "h200-9b-http", "h200-9b-prefill", "h200-9b-steps"),
    ("qwen3.5-9b", "h100"): ("h100-9b", "h100-9b-vllm-0.33"),
    ("qwen3.5-4b", "h200"): ("h200-4b",),
}
"""Tables of loads with nothing but the engine's defaults, by the shape and the GPU: of each the first."""

AT_ONCE = (1, 4, 16, 64)


def asked(at_once: int, prompt_tokens: int = 512, new_tokens: int = 129, **more: int) -> WorkloadSpec:
    return SHAPE.model_copy(
        update={
            "concurrency": at_once,
            "prompt_tokens": prompt_tokens,
            "new_tokens": new_tokens,
            **more,
        }
    )


def told(
    at_once: int,
    prompt_tokens: int = 512,
    new_tokens: int = 129,
    model: str = "qwen3.5-9b",
    card: str = "h200",
) -> Request:
    workload = asked(at_once, prompt_tokens, new_tokens)
    return expected_request(load_model_profile(model), workload, load_hardware_profile(card), on_gpu=True)


def told_on(at_once: int, card: HardwareProfile) -> Request:
    return expected_request(NINE, asked(at_once), card, on_gpu=True)


def ratios(model: str, card: str) -> dict[int, list[float]]:
    """Told over measured (the median end to end) by requests at once, of a table's first load."""
    found = defaultdict(list)
    for table in MEASURED[model, card]:
        with (TABLES / f"{table}.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["load"] == rows[0]["load"] and row["e2el_ms_median"]:
                at_once, prompt, new = (
                    int(row[each]) for each in ("concurrency", "prompt_tokens", "new_tokens")
                )
                seconds = told(at_once, prompt, new, model, card).seconds(new)
                found[at_once].append(1000 * seconds / float(row["e2el_ms_median"]))
    return found


@pytest.mark.parametrize("at_once", AT_ONCE)
def test_a_request_of_the_9b_shape_is_told_within_a_quarter_of_what_two_gpus_measured(at_once: int) -> None:
    every = [each for card in ("h200", "h100") for each in ratios("qwen3.5-9b", card)[at_once]]
    assert len(every) >= 10
    assert all(1 / 1.25 < each < 1.25 for each in every), every


def test_of_the_4b_shape_it_is_told_too_short_by_up_to_a_factor_of_1_7() -> None:
    found = ratios("qwen3.5-4b", "h200")
    assert set(found) == set(AT_ONCE)
    assert all(1 / 1.7 < each < 1.05 for every in found.values() for each in every), found
    assert all(each > 1 / 1.2 for at_once in (1, 4) for each in found[at_once]), found


@pytest.mark.parametrize("at_once", AT_ONCE)
@pytest.mark.parametrize("prompt_tokens", [512, 3840])
def test_a_servers_loop_of_steps_takes_as_long_by_the_same_times_of_steps(
    at_once: int, prompt_tokens: int
) -> None:
    """Waves that do not begin together read prompts in steps that decode too, which saves a few steps."""
    found = told(at_once, prompt_tokens)
    token_ms = prompt_token_ms(NINE, H200)
    loop = counted(
        Asked(at_once, 4 * at_once, prompt_tokens, 129, later_ms=0.3),
        StepTimes(found.tpot_ms, token_ms),
        8192,
    )
    assert 0.85 < loop.e2el_ms / 1000 / found.seconds(129) < 1.05


def test_a_block_takes_its_requests_over_those_at_once_times_a_request() -> None:
    workload = asked(16, prompts_per_block=64)
    found = expected_request(NINE, workload, H200, on_gpu=True)
    assert block_seconds(workload, found) == pytest.approx(4 * found.seconds(workload.new_tokens))


def test_others_at_once_lengthen_a_request_and_are_told_and_shorten_a_block() -> None:
    blocks = {each: asked(each, prompts_per_block=64) for each in AT_ONCE}
    requests = {each: expected_request(NINE, blocks[each], H200, on_gpu=True) for each in AT_ONCE}
    seconds = [requests[each].seconds(129) for each in AT_ONCE]
    assert seconds == sorted(seconds)
    assert seconds[-1] > 2 * seconds[0]
    lasting = [block_seconds(blocks[each], requests[each]) for each in AT_ONCE]
    assert lasting == sorted(lasting, reverse=True)
    assert "the prompts of all 64 at once are read one after the other" in requests[64].basis
    assert "at once" not in requests[1].basis


def test_a_step_of_very_many_takes_its_arithmetic() -> None:
    many = told(4096, 8, 8)
    assert many.tpot_ms > 4096 * prompt_token_ms(NINE, H200)


def test_on_a_processor_prompts_of_others_are_waited_for_too_and_it_stays_a_guess() -> None:
    one, more = (expected_request(NINE, asked(each), None, on_gpu=False) for each in (1, 16))
    assert "guess" in more.basis
    assert more.prompt_ms == pytest.approx(one.prompt_ms, rel=0.15)
    assert more.seconds(129) > one.seconds(129) + 14 * one.prompt_ms / 1000


@pytest.mark.parametrize("at_once", AT_ONCE)
def test_on_a_gpu_that_is_not_listed_it_is_guessed_by_the_slowest_that_is(at_once: int) -> None:
    """A larger model takes longer there too, and more at once do: constants knew of neither."""
    found = expected_request(NINE, asked(at_once), None, on_gpu=True)
    listed = {each.title: told_on(at_once, each).seconds(129) for each in listed_cards()}
    assert found.seconds(129) == max(listed.values())
    slowest = max(listed, key=listed.__getitem__)
    assert found.basis == (
        f"a guess, by the rates of {slowest}, the slowest that is listed: no packaged profile lists this GPU"
    )
    smaller = expected_request(load_model_profile("qwen3.5-0.8b"), asked(at_once), None, on_gpu=True)
    assert smaller.seconds(129) < found.seconds(129) / 2


@pytest.mark.parametrize("at_once", [1, 16, 64])
def test_the_rate_at_which_prompts_are_read_is_of_one_of_them_however_many_are_at_once(at_once: int) -> None:
    """Documents that are scored, and prompts of further workloads, do not wait for others at once."""
    prompt_ms = 512 * prompt_token_ms(NINE, H200)
    assert prompt_ms < told(at_once).prompt_ms < 1.4 * prompt_ms
    measured = Stored(ttft_ms=600.0, tpot_ms=10.0)
    assert known_request(told(at_once), measured).prompt_ms == 600.0 / at_once


def test_a_further_workload_of_more_at_once_takes_as_long_as_if_it_were_the_campaigns() -> None:
    alone = asked(1, prompts_per_block=1)
    further = FurtherWorkload(
        concurrency=16, prompt_tokens=512, new_tokens=129, prompts_per_block=64, warmup_requests=16, blocks=1
    )
    as_further = further_seconds([further], alone, told(1))
    five_rounds = 5 * told(16).seconds(129)
    assert as_further == pytest.approx(five_rounds + told(1).seconds(129), rel=0.15)


def test_the_page_says_what_the_time_of_a_request_is_worth() -> None:
    page = " ".join((DOCS / "plan.md").read_text(encoding="utf-8").split())
    nine = [
        each for card in ("h200", "h100") for every in ratios("qwen3.5-9b", card).values() for each in every
    ]
    four = ratios("qwen3.5-4b", "h200")
    assert (
        f"in {len(nine)} rows of the shape of 9B on an H200 and an H100 it is {min(nine):.2f} to "
        f"{max(nine):.2f} times" in page
    )
    few, many = ([each for at_once in some for each in four[at_once]] for some in ((1, 4), (16, 64)))
    assert (
        f"of the shape of 4B {min(few):.2f} to {max(few):.2f} times at 1 and 4 at once, and "
        f"{min(many):.2f} to {max(many):.2f} times at 16 and 64" in page
    )
    with (TABLES / "h200-9b-steps.csv").open(encoding="utf-8") as file:
        [small] = [
            each
            for each in csv.DictReader(file)
            if (each["serving.max_batch_tokens"], each["concurrency"]) == ("2048", "64")
        ]
    ratio = 1000 * told(64).seconds(129) / float(small["e2el_ms_median"])
    assert f"so that there it is {ratio:.2f}." in page


def test_an_engine_that_dequantizes_reads_weights_in_the_format_that_it_serves() -> None:
    """The memory of a launch in bfloat16 was told beside the time of one in float32."""
    spec = load_campaign("default", {"model": "qwen3.5-9b"})
    made = [
        make_plan(spec, find_model("qwen3.5-9b"), Card("a processor", 10**12, is_gpu=False, free_bytes=free))
        for free in (10**12, 24 * 10**9)
    ]
    assert [each.configuration["serving.dtype"] for each in made] == ["float32", "bfloat16"]
    whole, half = (each.first_verdict.least_s for each in made)
    assert half < 0.6 * whole
    on_gpu = make_plan(spec, find_model("qwen3.5-9b"), card_asked("h200"))
    read_s = NINE.weight_bytes_per_step(FLOAT32) / H200.bandwidth_bytes_per_s
    [told] = [each for each in on_gpu.first_verdict.basis if each.startswith("a request of")]
    workload = spec.plan.workload
    prompt_s = workload.prompt_tokens * prompt_token_ms(NINE, H200) / 1000
    expected_s = prompt_s + workload.new_tokens * (read_s + 0.0023)
    assert told.startswith(f"a request of {format_duration(expected_s)} ")
