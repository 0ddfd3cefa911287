"""Quality tasks in the judge: pooled with the other items, told apart, and missed where they are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.judge.noninferiority import Quality
from agent.judge.quality import quality_report
from experiments.measurement.evidence import Arm, Evidence, LaunchRecord, Metric, Sample, Stage
from experiments.measurement.plan import Workload
from tests.simulation.experiment import PLAN, Truth
from tests.unit.agent.judge.test_quality import evidence

ITEMS = 1000

ASKING = PLAN.model_copy(
    update={"workload": Workload(evaluation_items=200, evaluation_tasks=(f"sums:{ITEMS}",))}
)
TASKS_ALONE = PLAN.model_copy(
    update={"workload": Workload(evaluation_items=0, evaluation_tasks=(f"sums:{ITEMS}",))}
)


def answered(before: Evidence, lost: int, items: int = ITEMS, stage: Stage = Stage.EVALUATE) -> Evidence:
    """The same evidence with answers to a quality task: all right in the control, `lost` of them wrong in the
    candidate."""

    def told(record: LaunchRecord) -> LaunchRecord:
        if record.stage is not stage:
            return record
        wrong = lost if record.arm is Arm.CANDIDATE else 0
        answers = tuple(
            Sample(1, 0, f"lm-eval/sums/{n}", 10_000 + n, Metric.TASK_CORRECT, float(n >= wrong))
            for n in range(items)
        )
        return replace(record, samples=(*record.samples, *answers))

    return replace(before, launches=tuple(map(told, before.launches)))


EQUAL = Truth(bits_document_sd=0.0)


def test_answers_are_pooled_with_the_instruction_items_and_told_apart() -> None:
    report = quality_report(ASKING, answered(evidence(EQUAL), lost=6))
    assert report.tasks is not None
    assert (report.tasks.count, report.tasks.difference) == (1200, pytest.approx(0.5))
    assert report.by_task == {"sums": (6, 0, ITEMS)}
    assert report.state == Quality.HELD
    assert "sums −0.6 points of 1000" in report.sentence()
    assert report.as_json()["by_task"] == {"sums": {"lost": 6, "gained": 0, "items": ITEMS}}


def test_answers_that_were_lost_are_worse_with_confidence() -> None:
    assert quality_report(ASKING, answered(evidence(EQUAL), lost=60)).state == Quality.WORSE


def test_a_task_that_was_asked_for_and_not_answered_leaves_quality_undecided() -> None:
    report = quality_report(ASKING, evidence(EQUAL))
    assert report.state == Quality.UNDECIDED
    assert "no paired items of sums" in report.sentence()


def test_what_other_items_refute_stays_refuted_without_answers() -> None:
    report = quality_report(ASKING, evidence(Truth(tasks_lost=20)))
    assert report.state == Quality.WORSE
    assert "no paired items" not in report.sentence()


def test_tasks_alone_decide_where_there_are_no_instruction_items() -> None:
    without = evidence(EQUAL, TASKS_ALONE)
    assert quality_report(TASKS_ALONE, answered(without, lost=0)).state == Quality.HELD
    assert quality_report(TASKS_ALONE, without).state == Quality.UNDECIDED


def test_a_screen_waits_for_answers_that_come_with_the_evaluation() -> None:
    few = ASKING.model_copy(update={"workload": ASKING.workload.model_copy(update={"evaluation_items": 50})})
    assert quality_report(few, evidence(EQUAL, few, Stage.SCREEN)).state == Quality.HELD
    assert quality_report(few, evidence(Truth(tasks_lost=30), few, Stage.SCREEN)).state == Quality.WORSE
    alone = evidence(EQUAL, TASKS_ALONE, Stage.SCREEN)
    assert quality_report(TASKS_ALONE, alone).state == Quality.HELD


def test_without_quality_tasks_a_report_says_nothing_of_them() -> None:
    report = quality_report(PLAN, evidence(EQUAL))
    assert "by_task" not in report.as_json()
    assert report.state == Quality.HELD
