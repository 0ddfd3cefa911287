"""Tasks that tests make: YAML files with their data beside, and a Python that has lm-eval where there is
one."""

import json
from collections.abc import Sequence
from pathlib import Path

from experiments.corpora.instructions import InstructionItem
from experiments.engines.port import Infeasible
from experiments.quality_tasks.environment import needed_python

SUMS = """
task: sums
dataset_path: json
dataset_kwargs:
  data_files: {{train: sums.json, test: sums.json}}
training_split: train
fewshot_split: train
test_split: test
output_type: {output_type}
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
num_fewshot: 2
generation_kwargs: {{until: ["Question:", "\\n\\n"], do_sample: {do_sample}, max_gen_toks: 12}}
filter_list:
  - name: strict
    filter: [{{function: regex, regex_pattern: "#### (\\\\d+)"}}, {{function: take_first}}]
  - name: flexible
    filter: [{{function: regex, group_select: -1, regex_pattern: "(\\\\d+)"}}, {{function: take_first}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""

QUESTIONS = """
task: questions
dataset_path: json
dataset_kwargs:
  data_files: {test: questions.json}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
num_fewshot: 0
generation_kwargs: {until: [], do_sample: false, max_gen_toks: 48}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


def why_no_lm_eval() -> str:
    """Why tests that need lm-eval are skipped; empty where it is installed."""
    try:
        needed_python()
    except Infeasible as reason:
        return reason.cause
    return ""


def write_sums(
    folder: Path, items: int = 6, output_type: str = "generate_until", do_sample: str = "false"
) -> None:
    """A task of sums with two examples each, and two filters of which the last one is lenient."""
    (folder / "sums.yaml").write_text(SUMS.format(output_type=output_type, do_sample=do_sample))
    sums = [{"question": f"What is {a}+{a + 1}?", "answer": str(2 * a + 1)} for a in range(items)]
    (folder / "sums.json").write_text(json.dumps(sums))


def write_questions(folder: Path, items: Sequence[InstructionItem]) -> None:
    """A task of instruction items, right when the answer is exactly theirs."""
    (folder / "questions.yaml").write_text(QUESTIONS)
    told = [{"question": item.prompt_messages[0]["content"], "answer": item.answer} for item in items]
    (folder / "questions.json").write_text(json.dumps(told))
