"""Further workloads before a campaign begins: refused where its beginning can't serve them, and counted."""

from __future__ import annotations

from typing import Any

import pytest

from agent.campaign.beginning.survey import survey
from agent.ground.drafter import space_of
from agent.plan.card import Card
from agent.plan.duration import duration, further_seconds
from agent.plan.further import further_of, unserved_further
from agent.plan.load_and_request import Request, Stored
from agent.plan.model import find_model
from agent.plan.plan import make_plan
from agent.plan.price import test_job as job_to_quote
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from experiments.job.longest import longest_s
from experiments.measurement.evidence import Stage

GB = 10**9
LIMITS = {Stage.QUICK: 10.0, Stage.FURTHER: 7.0}


def on_vllm(*further: dict[str, int], **more: object) -> CampaignSpec:
    asked = {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": []}
    return load_campaign("default", {**asked, "further_workloads": list(further), **more})


def refused(
    spec: CampaignSpec, memory: int = 141 * GB, at_once: int | None = None, **knobs: int
) -> list[tuple[int, str]]:
    card = Card("a card", memory, is_gpu=True)
    begun = space_of(spec).configuration({f"serving.{name}": value for name, value in knobs.items()})
    found = unserved_further(spec, find_model("qwen3.5-4b"), card, begun, at_once)
    return [(place, why) for place, _, why in found]


def test_what_the_beginning_serves_is_not_refused() -> None:
    assert refused(on_vllm({"concurrency": 4}, {"concurrency": 16, "prompt_tokens": 2048})) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"concurrency": 64}, "serving.max_sequences is 16, and 64 requests at once are asked for."),
        (
            {"prompt_tokens": 4090},
            "serving.max_model_len is 4096, and 4122 tokens and one more are asked for.",
        ),
    ],
)
def test_what_its_knobs_do_not_allow_is_refused(asked: dict[str, int], said: str) -> None:
    assert refused(on_vllm({"concurrency": 4}, asked)) == [(1, said)]


def test_what_its_memory_does_not_hold_beside_the_pairs_other_launch_is_refused() -> None:
    spec = on_vllm({"concurrency": 16, "prompt_tokens": 4000})
    assert refused(spec, 24 * GB, at_once=1) == []
    ((place, why),) = refused(spec, 15 * GB, at_once=1)
    assert place == 0
    assert why.startswith("16 requests at once of 4,000 + 32 tokens do not fit: it needs 14.4 GB, and 13.5")
    wide = on_vllm({"concurrency": 64, "prompt_tokens": 30_000})
    serves = {"max_sequences": 64, "max_model_len": 32768}
    ((_, alone),) = refused(wide, 50 * GB, at_once=1, **serves)
    ((_, beside),) = refused(wide, 50 * GB, **serves)
    assert "do not fit: it needs 81.1 GB" in alone
    assert "do not fit with the other launch of its pair: it needs 99.0 GB" in beside
    assert refused(wide, 12 * GB, **serves) == [], "not even the plan's own fits: that was asked for"


def test_a_campaign_that_begins_from_less_than_they_need_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError) as told:
        survey(load_campaign("default", {"further_workloads": [{"concurrency": 4}]}), "mine.yaml")
    assert told.value.message == (
        "mine.yaml: further_workloads.0.concurrency is 4, and the engine reference serves at most 1 at once."
    )


def test_a_campaign_on_the_reference_model_may_have_other_lengths() -> None:
    ground = survey(load_campaign("default", {"further_workloads": [{"prompt_tokens": 64}]}))
    assert ground.fingerprint


def test_the_plan_says_what_no_campaign_begins_with() -> None:
    spec = on_vllm({"concurrency": 4}, {"concurrency": 64})
    plan = make_plan(spec, find_model("qwen3.5-4b"), Card("a card", 141 * GB, is_gpu=True))
    assert plan.notes[-1].startswith(
        "No campaign begins with further_workloads.1: serving.max_sequences is 16"
    )


def told(spec: CampaignSpec, **more: Any) -> Any:
    return duration(
        spec.plan,
        4,
        2,
        (3, 3),
        3600.0,
        (10.0, "a test's"),
        Request(100.0, 10.0, "a test's"),
        more.pop("stored", Stored()),
        further=further_of(spec),
        **more,
    )


def test_their_seconds_are_those_of_warm_ups_and_blocks_in_each_launch() -> None:
    spec = load_campaign("default", {"further_workloads": [{"prompt_tokens": 256, "blocks": 3}]})
    # a first token of 200 ms and 31 more of 10 ms: one warm-up, and three blocks of two requests; then a
    # request of the campaign's own
    expected = pytest.approx((1 + 3 * 2) * (0.2 + 0.31) + 0.41)
    assert further_seconds(further_of(spec), spec.plan.workload, Request(100.0, 10.0, "")) == expected


def test_a_test_takes_longer_by_them_and_the_baseline_does_not() -> None:
    plain = load_campaign("default")
    more = load_campaign("default", {"further_workloads": [{"prompt_tokens": 256}]})
    each_s = further_seconds(further_of(more), more.plan.workload, Request(100.0, 10.0, ""))
    before, after = told(plain), told(more)
    assert after.baseline_s == before.baseline_s
    assert after.least_test_s == pytest.approx(before.least_test_s + 2 * each_s)
    assert after.most_test_s >= before.most_test_s + 6 * each_s
    assert any("further workloads" in each for each in after.basis)
    assert not any("further workloads" in each for each in before.basis)
    measured = told(more, stored=Stored(test_s=1.0, tests=1))
    assert measured.least_test_s == pytest.approx(1.0 + 2 * each_s)


def test_the_job_that_is_quoted_has_them_and_their_stage_counts_for_its_longest() -> None:
    class Footing:
        fingerprint, target_key, at_once = "f", "desk", None

    asks = {"further_workloads": [{"prompt_tokens": 64}]}
    plain, more = (
        job_to_quote(load_campaign("default", each), Footing(), {}, {})  # type: ignore[arg-type]
        for each in ({}, asks)
    )
    assert [each.key for each in more.further] == ["1x64+32"]
    assert longest_s(more, LIMITS) - longest_s(plain, LIMITS) == LIMITS[Stage.FURTHER]
    assert longest_s(more.model_copy(update={"within_s": 60.0}), LIMITS) == longest_s(plain, LIMITS)
