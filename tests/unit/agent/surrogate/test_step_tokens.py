"""What tokens of a step do to TPOT, counted; held against what an H200 was measured to do."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest

from agent.campaign.decision.counted_steps import counted_steps, told_auto
from agent.surrogate.levers import LeverView
from agent.surrogate.physics import Physics
from agent.surrogate.step_loop import StepTimes, counted
from agent.surrogate.step_tokens import LEAST_SD_LOG, SD_SHARE, StepTokens
from configs.campaign import load_campaign
from configs.campaign_plan import PlanSpec
from configs.hardware import load_hardware_profile
from configs.models import load_model_profile
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from knowledge.figures import percent

DOCS = Path(__file__).parents[4] / "docs"
MEASURED = DOCS / "results" / "tables" / "h200-9b-steps.csv"

H200, SHAPE, SPACE = load_hardware_profile("h200"), load_model_profile("qwen3.5-9b"), load_space("vllm")
BASELINE = SPACE.configuration({})
SHORT = 2048, 4096, 8192, 16384


def plan(at_once: int, requests: int, **workload: int) -> PlanSpec:
    found = load_campaign("shape").plan
    asked = {"concurrency": at_once, "prompts_per_block": requests, "prompt_tokens": 512, "new_tokens": 129}
    return found.model_copy(update={"workload": found.workload.model_copy(update=asked | workload)})


def steps(at_once: int, tpot_ms: float, requests: int = 0, **workload: int) -> StepTokens:
    found = counted_steps(plan(at_once, requests or 4 * at_once, **workload), H200, SHAPE, BASELINE, tpot_ms)
    assert found is not None
    return found


def batched(tokens: KnobValue, **knobs: KnobValue) -> Configuration:
    return SPACE.configuration({"serving.max_batch_tokens": tokens, **knobs})


def expected(physics: Physics, configuration: Configuration) -> tuple[float, float, float]:
    [(lever, setting)] = LeverView.of(SPACE, BASELINE).settings(configuration).items()
    found = physics.expect(lever, setting)
    return found.mean_log, found.sd_log, math.hypot(*found.joint.values())


@pytest.mark.parametrize("at_once", [16, 64])
def test_more_tokens_a_step_make_no_token_slower_where_waves_begin_together(at_once: int) -> None:
    counted = steps(at_once, 10.0, requests=at_once)
    effects = [counted.effect_log("auto", tokens) for tokens in SHORT]
    assert effects == sorted(effects, reverse=True)
    assert effects[0] > 0
    assert effects[2] == 0, "auto is 8,192 on this card"


def test_room_beyond_what_all_requests_ask_for_changes_nothing() -> None:
    counted = steps(4, 6.0)
    assert [counted.effect_log("auto", tokens) for tokens in (4096, 16384)] == [0, 0]


def test_longer_prompts_make_it_matter_more() -> None:
    brief, long = (steps(16, 8.0, prompt_tokens=tokens).effect_log("auto", 2048) for tokens in (256, 1024))
    assert 0 < brief < long


def test_the_way_back_is_the_way_there_and_of_one_value_nothing_is_expected() -> None:
    counted = steps(64, 10.0)
    assert counted.effect_log(2048, 8192) == -counted.effect_log(8192, 2048)
    assert counted.effect_log("auto", "auto") == counted.effect_log(8192, "auto") == 0


@pytest.mark.parametrize("tpot_ms", [4.0, 10.0, 30.0])
def test_a_step_of_decoding_takes_less_than_the_measured_token_and_no_less_than_its_bytes(
    tpot_ms: float,
) -> None:
    counted = steps(64, tpot_ms)
    assert counted.least_ms <= counted.decode_ms <= tpot_ms
    if tpot_ms == 30.0:
        assert counted.decode_ms > 0.7 * tpot_ms


def test_prompts_are_read_as_fast_as_the_measured_token_says_at_least() -> None:
    """Where even steps of decoding at their bytes would make the counted token slower than the measured."""
    quick = steps(64, 40.0, prompt_tokens=8192)
    assert quick.decode_ms == quick.least_ms
    assert quick.times.token_ms < quick.token_ms / 2
    found = counted(quick.asked, quick.times, quick.auto).tpot_ms
    assert found == pytest.approx(40.0, rel=0.05)
    slow = steps(64, 10.0)
    assert slow.times.token_ms == slow.token_ms


def test_one_request_at_once_and_what_is_not_listed_are_not_counted() -> None:
    several = plan(16, 96)
    assert counted_steps(plan(1, 96), H200, SHAPE, BASELINE, 6.0) is None
    assert counted_steps(several, None, SHAPE, BASELINE, 6.0) is None
    assert counted_steps(several, H200, None, BASELINE, 6.0) is None
    whole = SPACE.configuration({"serving.chunked_prefill": "off"})
    assert counted_steps(several, H200, SHAPE, whole, 6.0) is None
    endless = plan(1024, 10_000, prompt_tokens=100_000)
    assert counted_steps(endless, H200, SHAPE, BASELINE, 40.0) is None
    waiting = several.model_copy(update={"metric": "ttft_ms"})
    assert counted_steps(waiting, H200, SHAPE, BASELINE, 6.0) is None


@pytest.mark.parametrize(("gib", "tokens"), [(24, 2048), (69, 2048), (70, 8192), (159, 8192), (160, 16384)])
def test_auto_goes_by_the_memory_unless_a_launch_told_it(gib: int, tokens: int) -> None:
    asked = plan(16, 96), H200, SHAPE, BASELINE, 6.0, gib * 2**30
    by_memory, told = counted_steps(*asked), counted_steps(*asked, auto=1024)
    assert by_memory is not None
    assert told is not None
    assert (by_memory.auto, told.auto) == (tokens, 1024)


@pytest.mark.parametrize(
    ("name", "tokens"), [("a100-80gb", 2048), ("h100", 8192), ("b200", 16384), ("l4", 2048)]
)
def test_auto_of_an_a100_is_that_of_smaller_cards(name: str, tokens: int) -> None:
    found = counted_steps(plan(16, 96), load_hardware_profile(name), SHAPE, BASELINE, 12.0)
    assert found is not None
    assert found.auto == tokens


def test_what_a_launch_tells_is_of_auto_where_nothing_was_named() -> None:
    assert told_auto(BASELINE, {"max_batch_tokens": 8192}) == 8192
    assert told_auto(batched(4096), {"max_batch_tokens": 4096}) is None
    assert told_auto(BASELINE, {}) is None


def test_the_prior_takes_it_and_is_the_less_sure_the_more_is_expected() -> None:
    counted = steps(64, 10.0)
    physics = Physics(BASELINE, 10.0, shape=SHAPE, step_tokens=counted)
    mean, sd, joint = expected(physics, batched(2048))
    assert mean == counted.effect_log("auto", 2048) > 0.1
    assert (sd, joint) == (LEAST_SD_LOG, pytest.approx(SD_SHARE * mean))
    assert expected(physics, batched(8192)) == (0.0, LEAST_SD_LOG, 0.0)


def test_too_slow_and_too_quick_a_prefill_are_one_unknown_with_a_sign() -> None:
    """If fewer tokens a step cost less than was counted, more of them save less."""
    physics = Physics(BASELINE, 10.0, shape=SHAPE, step_tokens=steps(64, 10.0))
    fewer, more = (
        physics.expect("chunking", (("serving.max_batch_tokens", tokens),)).joint for tokens in (2048, 16384)
    )
    assert fewer.keys() == more.keys()
    assert all(fewer[name] > 0 > more[name] for name in fewer)


def test_what_is_not_counted_is_expected_as_before() -> None:
    counted, plain = (
        Physics(BASELINE, 10.0, shape=SHAPE, step_tokens=each) for each in (steps(64, 10.0), None)
    )
    for knobs in ({"serving.chunked_prefill": "off"}, {"serving.chunked_prefill": "on"}):
        assert expected(counted, SPACE.configuration(knobs)) == expected(plain, SPACE.configuration(knobs))
    assert expected(plain, batched(2048))[0] == 0


def rows() -> list[str]:
    """Lines of the table of docs/ranking.md: TPOT against auto's, counted, counted with successors that are
    there before the next step is put together, and measured."""
    with MEASURED.open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    lines = []
    for at_once in (16, 64):
        here = {
            each["serving.max_batch_tokens"]: each for each in found if each["concurrency"] == str(at_once)
        }
        auto = here["auto"]
        tpot_ms = float(auto["tpot_ms_median"])
        counted = steps(at_once, tpot_ms, requests=int(auto["requests"]))
        at_hand = replace(counted, asked=replace(counted.asked, later_ms=0.0))
        for tokens in (2048, 4096, 16384):
            measured = math.log(float(here[str(tokens)]["tpot_ms_median"]) / tpot_ms)
            told = (counted.effect_log("auto", tokens), at_hand.effect_log("auto", tokens), measured)
            lines.append(f"| {at_once} | {tokens:,} | " + " | ".join(map(percent, told)) + " |")
    return lines


def test_of_first_tokens_the_loop_is_wrong_and_nothing_is_counted() -> None:
    with MEASURED.open(encoding="utf-8") as file:
        here = {
            each["serving.max_batch_tokens"]: each
            for each in csv.DictReader(file)
            if each["concurrency"] == "16"
        }
    fewer, auto = (float(here[tokens]["ttft_ms_median"]) for tokens in ("2048", "auto"))
    found = steps(16, float(here["auto"]["tpot_ms_median"]), requests=96)
    times = StepTimes(found.decode_ms, found.token_ms)
    few, all_ = (counted(found.asked, times, tokens).ttft_ms for tokens in (2048, 8192))
    page = " ".join((DOCS / "ranking.md").read_text(encoding="utf-8").split())
    said = f"the loop has it {1 - few / all_:.0%} lower, where it was {fewer / auto - 1:.0%} higher."
    assert said.replace("%", " %") in page


def test_the_page_holds_what_is_counted_against_what_was_measured() -> None:
    page = (DOCS / "ranking.md").read_text(encoding="utf-8")
    assert "\n".join(rows()) in page
    with MEASURED.open(encoding="utf-8") as file:
        ttft_ms = {
            each["serving.max_batch_tokens"]: float(each["ttft_ms_median"])
            for each in csv.DictReader(file)
            if each["concurrency"] == "64"
        }
    assert (
        f"TTFT in the same table is higher by {ttft_ms['16384'] / ttft_ms['auto'] - 1:.0%}"
        in page.replace(" %", "%")
    )
