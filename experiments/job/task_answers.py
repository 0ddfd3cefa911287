"""Answers to quality tasks of a launch that is evaluated, and which of them are right."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.engines.port import Infeasible, TaskScore
from experiments.job.open_launch import OpenLaunch
from experiments.job.running_job import RunningJob
from experiments.measurement.evidence import Json
from experiments.measurement.plan import Workload
from experiments.quality_tasks.source import QualityTasks

NOT_AT_HAND = "This job asks for quality tasks, and its place has none."


@dataclass(frozen=True)
class GradedAnswers:
    """Scores of the items, in their order, and a line of JSON data each: `item`, `target`, `answer`,
    `tokens`, `finished`, `correct`."""

    scores: tuple[TaskScore, ...] = ()
    lines: tuple[dict[str, Json], ...] = ()


def tasks_of_job(job: RunningJob, workload: Workload) -> QualityTasks | None:
    """What asks the tasks; None for a workload without any. Raises `Infeasible` where they are asked for and
    can't be."""
    if not workload.evaluation_tasks:
        return None
    if job.context.quality_tasks is None:
        raise Infeasible("unsupported", NOT_AT_HAND)
    return job.context.quality_tasks


def task_identity(job: RunningJob, workload: Workload, part: int) -> dict[str, Json]:
    """What the tasks add to the key of an evaluation; nothing without tasks."""
    tasks = tasks_of_job(job, workload)
    return {} if tasks is None else tasks.identity(workload, part)


def graded_answers(job: RunningJob, launch: OpenLaunch, workload: Workload, part: int) -> GradedAnswers:
    """Ask the launch every item of a part and have its answers scored; nothing without tasks."""
    tasks = tasks_of_job(job, workload)
    if tasks is None:
        return GradedAnswers()
    asking = tasks.asking(workload, part)
    answers = tasks.answers(workload, part, launch.answer(asking.requests))
    correct = tasks.correct(workload, part, answers)
    return GradedAnswers(
        tuple(TaskScore(each.item, correct[each.item]) for each in answers),
        tuple(
            {
                "item": each.item,
                "target": item.target,
                "answer": each.text,
                "tokens": each.tokens,
                "finished": each.finished,
                "correct": correct[each.item],
            }
            for item, each in zip(asking.questions.items, answers, strict=True)
        ),
    )
