"""Quality tasks as a command line or a campaign writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.campaign import load_campaign
from configs.errors import UsageError
from configs.quality_tasks import AskedTask, asked_tasks, split_tasks
from experiments.measurement.plan import Prediction, StoppingPlan, Workload
from experiments.quality_tasks.shares import shares
from experiments.space.configuration import Configuration
from knowledge.scope import Scope

TASKS = "plan.workload.evaluation_tasks"


def test_a_task_is_a_name_and_a_number_of_items():
    assert asked_tasks(["gsm8k:200", "mmlu_pro:70"]) == (AskedTask("gsm8k", 200), AskedTask("mmlu_pro", 70))
    assert split_tasks("gsm8k:200, ifeval:100") == ["gsm8k:200", "ifeval:100"]


@pytest.mark.parametrize("written", ["gsm8k", "gsm8k:", "gsm8k:0", "gsm8k:-1", "gsm8k:all", "../x:3", ":3"])
def test_what_is_no_task_is_refused_with_how_to_write_one(written: str):
    with pytest.raises(UsageError, match="is no quality task") as refused:
        split_tasks(written)
    assert "gsm8k:200" in refused.value.hint


def test_a_task_that_stands_twice_is_refused():
    with pytest.raises(UsageError, match="gsm8k stands twice"):
        split_tasks("gsm8k:200,gsm8k:100")


def test_no_task_is_refused():
    with pytest.raises(UsageError, match="names no task"):
        split_tasks(" , ")


def test_a_campaign_takes_tasks_from_its_command_line():
    spec = load_campaign("default", {TASKS: ["gsm8k:200"], "plan.workload.evaluation_thinking": True})
    assert spec.plan.workload.evaluation_tasks == ("gsm8k:200",)
    assert spec.plan.workload.evaluation_thinking is True


def test_a_campaign_with_a_task_that_can_t_be_read_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match="is no quality task"):
        load_campaign("default", {TASKS: ["gsm8k"]})


def test_a_plan_without_tasks_is_hashed_as_it_was_before_there_were_any():
    def digest(**more: object) -> str:
        plan = StoppingPlan(
            prediction=Prediction(log_ratio_mean=-0.1, log_ratio_sd=0.1), workload=Workload(**more)
        )
        return plan.digest("a", "b")

    before = "c8a27ec9"
    assert digest()[:8] == before
    assert digest(evaluation_tasks=("gsm8k:200",)) != digest()
    assert digest(evaluation_tasks=("gsm8k:200",), evaluation_thinking=True) != digest(
        evaluation_tasks=("gsm8k:200",)
    )


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 60), st.integers(0, 60))
def test_shares_are_even_whole_and_never_taken_back(sizes: list[int], few: int, more: int):
    first, last = shares(few, sizes), shares(few + more, sizes)
    assert sum(first) == min(few, sum(sizes))
    assert all(a <= b <= size for a, b, size in zip(first, last, sizes, strict=True))
    open_ones = [given for given, size in zip(first, sizes, strict=True) if given < size]
    assert max(first) - min(open_ones, default=max(first)) <= 1


def test_a_finding_is_about_the_tasks_that_its_quality_was_judged_by():
    def workload_of_scope(**more: object) -> dict[str, int]:
        workload = Workload(**more).model_dump()  # type: ignore[arg-type]
        scope = Scope.of(
            model="m",
            model_fingerprint="f",
            target="cpu",
            engine="reference",
            versions={},
            workload=workload,
            control=Configuration.of({}),
        )
        return dict(scope.workload)

    without = workload_of_scope()
    assert workload_of_scope(evaluation_tasks=("gsm8k:200",)) == without | {"task gsm8k": 200}
