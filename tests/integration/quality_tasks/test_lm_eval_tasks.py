"""Tasks of a real lm-eval on data made here: its own items and scores, and what is missing in a sentence."""

import json
import subprocess
from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.measurement.plan import Workload
from experiments.quality_tasks.environment import CODE_VARIABLE, DATA_VARIABLE, needed_python
from experiments.quality_tasks.items import Answer
from experiments.quality_tasks.source import QualityTasks
from experiments.reference_model.load import reference_model_path
from tests.integration.quality_tasks.local_tasks import why_no_lm_eval, write_sums

pytestmark = pytest.mark.skipif(bool(why_no_lm_eval()), reason=why_no_lm_eval() or "there is one")

ITSELF = """
import json, os, sys
os.chdir(sys.argv[1])
import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from transformers import AutoTokenizer

class Says(LM):
    tokenizer_name = "reference"
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
    def loglikelihood(self, requests): raise NotImplementedError
    def loglikelihood_rolling(self, requests): raise NotImplementedError
    def generate_until(self, requests):
        return [json.loads(sys.argv[3])[request.doc_id] for request in requests]
    def apply_chat_template(self, chat, add_generation_prompt=True):
        return self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt)

found = lm_eval.simple_evaluate(
    Says(), tasks=["sums"], limit=4,
    task_manager=TaskManager(include_path=sys.argv[1], include_defaults=False),
    apply_chat_template=True, fewshot_as_multiturn=True, bootstrap_iters=0)
print(json.dumps([
    {"prompt": each["arguments"][0][0], "correct": each["exact_match"], "target": each["target"]}
    for each in found["samples"]["sums"] if each["filter"] == "flexible"
]))
"""
"""lm-eval's own evaluation of the task by a model that says what it is told to."""

SAID = ["it is 1", " 4", "#### 5", "seven"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    monkeypatch.delenv(CODE_VARIABLE, raising=False)
    write_sums(tmp_path)
    return tmp_path


def tasks() -> QualityTasks:
    return QualityTasks(reference_model_path())


def asks(*written: str, **more: object) -> Workload:
    return Workload.model_validate({"evaluation_tasks": written, **more})


def test_items_and_scores_are_those_of_lm_eval_itself(data: Path):
    told = subprocess.run(
        [needed_python(), "-c", ITSELF, data, reference_model_path(), json.dumps(SAID)],
        stdout=subprocess.PIPE,
        check=True,
        cwd=data,
    ).stdout
    itself = json.loads(told.splitlines()[-1])
    ours, workload = tasks(), asks("sums:4")
    asking = ours.asking(workload)
    assert asking.questions.templated
    assert [item.prompt for item in asking.questions.items] == [each["prompt"] for each in itself]
    assert [item.target for item in asking.questions.items] == [each["target"] for each in itself]
    assert {item.until for item in asking.questions.items} == {("Question:", "\n\n")}
    assert {request.new_tokens for request in asking.requests} == {12}
    answers = [
        Answer(item.item, said, 1, finished=True)
        for item, said in zip(asking.questions.items, SAID, strict=True)
    ]
    correct = ours.correct(workload, 0, answers)
    assert list(correct) == [f"lm-eval/sums/{number}" for number in range(4)]
    assert [float(each) for each in correct.values()] == [each["correct"] for each in itself] == [1, 0, 1, 0]


def test_a_second_part_has_the_items_that_follow_and_a_third_none(data: Path):
    ours, workload = tasks(), asks("sums:4", evaluation_answer_tokens=5)
    parts = [[item.item for item in ours.asking(workload, part).questions.items] for part in (0, 1, 2)]
    assert parts == [
        [f"lm-eval/sums/{n}" for n in range(4)],
        [f"lm-eval/sums/{n}" for n in range(4, 6)],
        [],
    ]
    assert {request.new_tokens for request in ours.asking(workload).requests} == {5}
    first = ours.asking(workload).requests
    assert ours.context_tokens(workload) == max(len(each.prompt_ids) for each in first) + 5


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("sums:7", r"The task sums has 6 items, not 7; ask for fewer\."),
        ("no_such_task_at_all:1", r"lm-eval has no task 'no_such_task_at_all'\."),
        ("gsm8k:1", r"The data of the task gsm8k is not at hand .*openai/gsm8k.*hf download .*tasks_data"),
        ("ifeval:1", r"The task ifeval can't be asked: NLTK's table punkt_tab.*nltk\.downloader"),
        ("humaneval:1", r"The task humaneval can't be asked: It runs code: .*AUTOINFER_RUN_GENERATED_CODE"),
    ],
)
def test_what_can_t_be_asked_is_said_in_a_sentence(data: Path, written: str, sentence: str):
    with pytest.raises(Infeasible, match=sentence) as refused:
        tasks().asking(asks(written))
    assert "\n" not in refused.value.cause


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"output_type": "loglikelihood"},
            "sums asks for loglikelihood; quality tasks are those",
        ),
        ({"do_sample": "true"}, "sums draws its answers at random"),
    ],
)
def test_a_task_that_is_not_answered_greedily_is_refused(data: Path, fields: dict[str, str], sentence: str):
    write_sums(data, **fields)  # type: ignore[arg-type]
    with pytest.raises(Infeasible, match=sentence):
        tasks().asking(asks("sums:1"))


def test_thinking_is_refused_where_the_chat_template_knows_none(data: Path):
    with pytest.raises(Infeasible, match="chat template knows no thinking"):
        tasks().asking(asks("sums:1", evaluation_thinking=True))


HUMANEVAL_README = """---
configs:
- config_name: default
  data_files: [{split: test, path: test.jsonl}]
---
"""


def test_a_copy_of_a_hub_s_data_set_is_used_and_its_programs_run_with_permission(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    copy = data / "openai" / "openai_humaneval"
    copy.mkdir(parents=True)
    (copy / "README.md").write_text(HUMANEVAL_README)
    problem = {
        "task_id": "Own/0",
        "prompt": "def add(a, b):\n",
        "canonical_solution": "    return a + b\n",
        "test": "def check(candidate):\n    assert candidate(2, 3) == 5\n",
        "entry_point": "add",
    }
    (copy / "test.jsonl").write_text(
        "".join(json.dumps(problem | {"task_id": f"Own/{place}"}) + "\n" for place in range(2))
    )
    monkeypatch.setenv(CODE_VARIABLE, "true")
    ours, workload = tasks(), asks("humaneval:2")
    right, wrong = ours.asking(workload).questions.items
    answers = [
        Answer(right.item, problem["canonical_solution"], 1, finished=True),
        Answer(wrong.item, "    return a - b\n", 1, finished=True),
    ]
    assert ours.correct(workload, 0, answers) == {right.item: True, wrong.item: False}
