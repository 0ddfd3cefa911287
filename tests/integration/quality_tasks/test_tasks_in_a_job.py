"""A job asks its launches quality tasks: on the reference model, with a real lm-eval."""

import json
from pathlib import Path

import pytest

from agent.judge.quality import quality_report
from experiments.corpora.instructions import held_out_items
from experiments.engines.port import Infeasible
from experiments.engines.reference.engine import ReferenceEngine
from experiments.job.evaluation import ANSWERS_NAME
from experiments.measurement.evidence import Arm, Evidence, Metric, NoiseProfile
from experiments.measurement.judging import Evaluate
from experiments.measurement.material import HeldOutMaterial
from experiments.quality_tasks.environment import DATA_VARIABLE
from experiments.quality_tasks.source import QualityTasks
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from tests.integration.job.running import Run, run
from tests.integration.quality_tasks.local_tasks import why_no_lm_eval, write_questions
from tests.simulated.specs import PLAN, WORKLOAD, a_test_job

__all__ = ["run"]

ITEMS = 12

ASKING = PLAN.model_copy(
    update={
        "workload": WORKLOAD.model_copy(
            update={
                "evaluation_tokens_per_document": 64,
                "evaluation_items": ITEMS,
                "evaluation_tasks": (f"questions:{ITEMS}",),
            }
        )
    }
)

CONTROL, CANDIDATE = {"serving.dtype": "float32"}, {"serving.dtype": "bfloat16"}


@pytest.mark.skipif(bool(why_no_lm_eval()), reason=why_no_lm_eval() or "there is one")
def test_the_reference_model_s_answers_are_right_where_its_scores_say_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A task of the instruction items themselves: what the model says by generating, scored by lm-eval, must
    be right for the items that teacher-forced scoring calls right."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    instructions = held_out_items(ITEMS)
    write_questions(tmp_path, instructions)
    checkpoint = reference_model_path()
    spec = a_test_job(CANDIDATE, CONTROL, plan=ASKING, engine="reference")
    result = run(
        spec,
        [Evaluate()],
        ReferenceEngine(),  # type: ignore[arg-type]
        checkpoint=checkpoint,
        checkpoint_stages=(),
        material=HeldOutMaterial(checkpoint, "cpu", 0),
        quality_tasks=QualityTasks(checkpoint),
    )
    assert result.failure is None
    scored: dict[Arm, list[float]] = {}
    for launch in result.launches:
        told = {each.item: each.value for each in launch.of(Metric.TASK_CORRECT)}
        generated = [told.pop(f"lm-eval/questions/{number}") for number in range(ITEMS)]
        assert generated == [told[item.id] for item in instructions]
        scored[launch.arm] = generated
    assert 0 < sum(scored[Arm.CONTROL]) < ITEMS, "all alike would tell nothing"

    [artifact] = (each for each in result.artifacts if each.kind == "evaluation")
    [kept] = (tmp_path / "artifacts").rglob(ANSWERS_NAME)
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line["target"] for line in lines] == [item.answer for item in instructions]
    assert [float(line["correct"]) for line in lines] == scored[Arm.CONTROL]
    assert all((line["answer"] == line["target"]) == line["correct"] for line in lines)
    assert artifact.digest in str(kept)

    changes = Configuration.of(CONTROL).changes_to(Configuration.of(CANDIDATE))
    noise = NoiseProfile("desk/cpu", ASKING.metric, 0, 0, None)
    report = quality_report(ASKING, Evidence(result.launches, noise, changes))
    assert report.tasks is not None
    assert report.tasks.count == 2 * ITEMS
    assert report.by_task["questions"][2] == ITEMS
    assert "questions" in report.sentence()


def test_a_job_whose_place_has_no_tasks_says_so_before_anything_is_launched(run: Run):
    result = run(a_test_job(plan=ASKING), [Evaluate()])
    assert result.failure is not None
    assert "quality tasks" in result.failure.cause
    assert not result.launches


def test_without_lm_eval_a_job_that_asks_tasks_ends_with_how_to_get_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    python = tmp_path / "python"
    python.touch()
    monkeypatch.setenv("AUTOINFER_LM_EVAL_PYTHON", str(python))
    result = run(a_test_job(plan=ASKING), [Evaluate()], quality_tasks=QualityTasks(reference_model_path()))
    assert result.failure is not None
    assert "autoinfer engines install lm-eval" in result.failure.cause


def test_a_python_that_is_named_and_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AUTOINFER_LM_EVAL_PYTHON", str(tmp_path / "missing"))
    workload = ASKING.workload
    with pytest.raises(Infeasible, match="which is no Python; make an environment"):
        QualityTasks(reference_model_path()).asking(workload)
