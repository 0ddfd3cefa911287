"""Further workloads in a campaign's file: what one leaves out is as in the plan's own; none stands twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.campaign import load_campaign
from configs.campaign_plan import FurtherWorkloadSpec
from configs.errors import UsageError
from experiments.measurement.plan import FurtherWorkload


def test_what_one_leaves_out_is_as_in_the_plans_own_workload() -> None:
    asked = [{"concurrency": 16, "prompt_tokens": 512}, {"new_tokens": 64, "blocks": 2}]
    spec = load_campaign("default", {"further_workloads": asked, "plan.workload.prompts_per_block": 3})
    first, second = spec.further
    assert (first.concurrency, first.prompt_tokens, first.new_tokens, first.blocks) == (16, 512, 32, 1)
    assert (second.concurrency, second.prompt_tokens, second.new_tokens, second.blocks) == (1, 128, 64, 2)
    assert first.prompts_per_block == second.prompts_per_block == 3
    assert load_campaign("default").further == ()


def test_it_has_the_fields_that_a_job_has() -> None:
    assert set(FurtherWorkloadSpec.model_fields) == set(FurtherWorkload.model_fields)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([{"concurrency": n} for n in range(2, 11)], "further_workloads"),
        ([{"concurrency": 4}, {"concurrency": 4, "blocks": 2}], "as further_workloads.0 does"),
        ([{"prompt_tokens": 128}], "as plan.workload does"),
        ([{"concurrency": 4, "evaluation_items": 9}], "evaluation_items"),
        ([{"concurrency": 0}], "further_workloads.0.concurrency"),
        ([{"concurrency": 4, "blocks": 17}], "further_workloads.0.blocks"),
    ],
)
def test_what_can_not_be_is_refused_in_one_sentence(asked: list[dict[str, int]], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_campaign("default", {"further_workloads": asked})
    assert said in refused.value.message
    assert "\n" not in refused.value.message


def test_a_file_like_a_packaged_one_may_have_them(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "like: default\nname: mine\nfurther_workloads:\n  - {prompt_tokens: 64}\n  - {new_tokens: 8}\n"
    )
    assert [each.asks for each in load_campaign(file).further] == [(1, 64, 32), (1, 128, 8)]


def test_a_workload_that_several_options_give_is_held_against_others_as_a_whole() -> None:
    """16 requests of the file's lengths are the further workload; 16 of the options' are not."""
    further = {"further_workloads": [{"concurrency": 16, "prompt_tokens": 128, "new_tokens": 32}]}
    lengths = {"plan.workload.prompt_tokens": 512, "plan.workload.new_tokens": 64}
    asked = load_campaign("default", {**further, "plan.workload.concurrency": 16, **lengths})
    assert FurtherWorkloadSpec().beside(asked.plan.workload).asks == (16, 512, 64)
    with pytest.raises(UsageError) as refused:
        load_campaign("default", {**further, "plan.workload.concurrency": 16})
    assert refused.value.message.startswith("--concurrency: further_workloads.0 asks for 16 at once of 128")
    with pytest.raises(UsageError, match=r"^--concurrency and --new-tokens: .*as plan\.workload does"):
        load_campaign(
            "default",
            {**further, "plan.workload.concurrency": 16, "plan.workload.new_tokens": 32},
        )
