"""The process in lm-eval's own Python: makes the items of tasks, or scores answers to them.

One request by stdin, one answer on stdout (`engines.one_answer`); nothing is fetched. Request: `op` (`items`
or `score`), `tasks` (`[name, items]`), `part`, `checkpoint` (whose tokenizer has the chat template),
`thinking`, `answer_tokens` (None: as many as the task allows), `data` (a folder or None), `run_code`, and to
score `answers`, a text an item. Answer to `items`: `items` as `items.TaskItem` has them, and `templated`; to
`score`: `correct`, a truth value an item.

Items, few-shot examples, chat turns and stop texts are what lm-eval 0.4.13's own `evaluate` makes with
`apply_chat_template` and its default seed. An item is right by the first metric that its task names, after
its last filter: `exact_match` after `flexible-extract` for gsm8k, `prompt_level_strict_acc` for ifeval.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs.quality_tasks import ITEM_PREFIX
from experiments.engines.one_answer import give
from experiments.engines.port import Infeasible
from experiments.quality_tasks.code_runs import HOW_TO_ALLOW, LimitedCodeEval
from experiments.quality_tasks.items import TaskItem
from experiments.quality_tasks.shares import further, shares
from experiments.quality_tasks.task_data import offline, unreadable

FEW_SHOT_SEED = 1234
"""lm-eval's own default, so that its items are the same."""

ANSWER_TOKENS = 256
"""Most tokens of an answer where a task names none: lm-eval's own default."""

ANSWER_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names under which a task may say it, the first that is there."""

GENERATES = "generate_until"


@dataclass(frozen=True)
class Question:
    """An item as lm-eval has it: the task object and document that its answer is scored by."""

    item: TaskItem
    task: Any
    document: Any


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Make items or score answers; raises `Infeasible` for what can't be loaded, and for a task whose answers
    are not generated greedily or not right or wrong."""
    offline(request["data"], LimitedCodeEval(allowed=request["run_code"]))
    template = (
        None if request["checkpoint"] is None else _template(request["checkpoint"], request["thinking"])
    )
    manager = _manager(request["data"], [name for name, _ in request["tasks"]])
    questions: list[Question] = []
    for name, count in request["tasks"]:
        questions += _questions(manager, name, count, request, template)
    if request["op"] == "score":
        return {"correct": _scored(questions, request["answers"])}
    return {
        "items": [asdict(question.item) for question in questions],
        "templated": template is not None,
    }


def _manager(data: str | None, names: Sequence[str]) -> Any:
    """What knows the tasks: those of the user's folder alone where that is enough, for lm-eval takes seconds
    to read all of its own."""
    from lm_eval.tasks import TaskManager

    own = TaskManager(include_path=data, include_defaults=False)
    entries = [own.task_index.get(name) for name in names]
    alone = all(entry is not None and entry.kind.name == "TASK" for entry in entries)
    return own if alone else TaskManager(include_path=data)


def _questions(
    manager: Any, name: str, count: int, request: Mapping[str, Any], template: Callable[..., str] | None
) -> list[Question]:
    tasks = _tasks(manager, name, run_code=request["run_code"])
    documents = {leaf: list(task.eval_docs) for leaf, task in tasks.items()}
    sizes = [len(each) for each in documents.values()]
    if request["part"] == 0 and sum(sizes) < count:
        raise Infeasible("illegal", f"The task {name} has {sum(sizes)} items, not {count}; ask for fewer.")
    before, until = shares(count * request["part"], sizes), shares(count * (request["part"] + 1), sizes)
    questions: list[Question] = []
    for (leaf, task), first, last in zip(tasks.items(), before, until, strict=True):
        task.set_fewshot_seed(FEW_SHOT_SEED)
        prefix = f"{ITEM_PREFIX}{name}" if len(tasks) == 1 else f"{ITEM_PREFIX}{name}/{leaf}"
        # from the first one on, for the few-shot examples of each are drawn after those of the one before
        for number, document in enumerate(documents[leaf][:last]):
            item = _item(task, document, f"{prefix}/{number}", template, request["answer_tokens"])
            if number >= first:
                questions.append(Question(item, task, document))
    return questions


def _tasks(manager: Any, name: str, *, run_code: bool) -> dict[str, Any]:
    """The tasks of a name, each with its data."""
    if name not in manager.task_index:
        raise Infeasible("unsupported", f"lm-eval has no task {name!r}.{further(name, manager.all_tasks)}")
    try:
        tasks: dict[str, Any] = manager.load([name])["tasks"]
    except Exception as cause:
        raise unreadable(name, cause) from cause
    for leaf, task in tasks.items():
        _check_kind(leaf, task)
        if getattr(task, "UNSAFE_CODE", False) and not run_code:
            raise Infeasible("unsupported", f"The task {leaf} runs code: {HOW_TO_ALLOW}.")
    return tasks


def _check_kind(leaf: str, task: Any) -> None:
    if task.OUTPUT_TYPE != GENERATES:
        raise Infeasible(
            "unsupported",
            f"The task {leaf} asks for {task.OUTPUT_TYPE}; quality tasks are those whose answers are "
            f"generated ({GENERATES}), such as gsm8k, ifeval, mmlu_pro and humaneval.",
        )
    asked = task.config.generation_kwargs or {}
    if asked.get("do_sample") or float(asked.get("temperature") or 0.0) > 0 or (task.config.repeats or 1) > 1:
        raise Infeasible(
            "unsupported",
            f"The task {leaf} draws its answers at random; they are paired here, and so generated greedily.",
        )


def _item(
    task: Any, document: Any, name: str, template: Callable[..., str] | None, answer_tokens: int | None
) -> TaskItem:
    prompt = task.fewshot_context(
        document,
        num_fewshot=task.config.num_fewshot or 0,
        apply_chat_template=template is not None,
        fewshot_as_multiturn=template is not None,
        chat_template=template,
        gen_prefix=task.doc_to_prefix(document),
    )
    asked = task.config.generation_kwargs or {}
    until = asked.get("until") or []
    named = next((asked[each] for each in ANSWER_LENGTHS if asked.get(each) is not None), ANSWER_TOKENS)
    return TaskItem(
        item=name,
        prompt=prompt,
        until=tuple([until] if isinstance(until, str) else until),
        new_tokens=int(answer_tokens or named),
        target=str(task.doc_to_target(document)),
    )


def _scored(questions: list[Question], answers: Mapping[str, str]) -> dict[str, bool]:
    """Whether each answer is right; raises `Infeasible` for a score that is neither 0 nor 1."""
    from lm_eval.api.instance import Instance

    by_task: dict[int, list[tuple[Question, Any]]] = {}
    for question in questions:
        said = Instance(
            request_type=GENERATES,
            doc=question.document,
            arguments=(question.item.prompt, {}),
            idx=0,
            metadata=(question.item.item, 0, 1),
            resps=[answers[question.item.item]],
        )
        by_task.setdefault(id(question.task), []).append((question, said))
    correct: dict[str, bool] = {}
    for pairs in by_task.values():
        task = pairs[0][0].task
        task._instances = [said for _, said in pairs]
        task.apply_filters()
        for question, said in pairs:
            scores = task.process_results(question.document, [list(said.filtered_resps.values())[-1]])
            metric, score = next(iter(scores.items()))
            if score not in (0, 1):
                raise Infeasible(
                    "unsupported",
                    f"{question.item.item} scores {score!r} by {metric}: it is not right or wrong.",
                )
            correct[question.item.item] = bool(score)
    return correct


def _template(checkpoint: str, thinking: bool) -> Callable[..., str] | None:
    """What writes a chat as the checkpoint's template has it; None for a checkpoint without one."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(Path(checkpoint))
    if tokenizer.chat_template is None:
        if thinking:
            raise Infeasible(
                "unsupported", "Thinking was asked for, and the checkpoint has no chat template."
            )
        return None

    def write(
        chat: list[dict[str, str]], add_generation_prompt: bool = True, *, thinks: bool = thinking
    ) -> str:
        written = tokenizer.apply_chat_template(
            chat,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
            enable_thinking=thinks,
        )
        return str(written)

    question = [{"role": "user", "content": "?"}]
    if thinking and write(question, thinks=True) == write(question, thinks=False):
        raise Infeasible(
            "unsupported", "Thinking was asked for, and the checkpoint's chat template knows no thinking."
        )
    return write


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    give(answer)
    sys.stderr.flush()
    os._exit(0)  # the thread that reads stdin would fail the interpreter's own end
