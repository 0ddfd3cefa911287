"""Quality tasks of a workload: what to ask a launch, and whether its answers are right.

Items and scores come from lm-eval in its own Python, a process for each of the two; the answers come from the
launch that is evaluated, greedily, one for an item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.quality_tasks import AskedTask, asked_tasks
from experiments.engines.one_answer import ask
from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.measurement.evidence import Json
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.quality_tasks.environment import data_folder, may_run_code, needed_python, tool_versions
from experiments.quality_tasks.items import (
    Answer,
    Questions,
    TaskItem,
    answer_of,
    end_tokens,
    longest_tokens,
    requests_for,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PROCESS = "experiments.quality_tasks.lm_eval_process"


@dataclass(frozen=True)
class Asking:
    """The questions of a part, and a request for each, in the same order."""

    questions: Questions
    requests: tuple[GenerationRequest, ...]


class QualityTasks:
    """The quality tasks of a checkpoint. Asks nothing of lm-eval for a workload without tasks.

    Methods raise `Infeasible` in a sentence for what is missing: lm-eval, a task, its data, permission.
    """

    def __init__(self, checkpoint: Path) -> None:
        """`checkpoint` has the tokenizer and the chat template, which stages keep: all arms are asked the
        same."""
        self._checkpoint = checkpoint
        self._asked = lru_cache(maxsize=4)(self._ask_items)

    def asking(self, workload: Workload, part: int = 0) -> Asking:
        """What is asked for a part; parts share no item, and a later one has what is left, down to none."""
        if not workload.evaluation_tasks:
            return Asking(Questions((), templated=False), ())
        return self._asked(workload, part)

    def context_tokens(self, workload: Workload) -> int:
        """The most tokens of a sequence of the first part, prompt and answer; 0 without tasks."""
        return longest_tokens(self.asking(workload).requests)

    def identity(self, workload: Workload, part: int = 0) -> dict[str, Json]:
        """What belongs into the key of an evaluation: items and versions; nothing without tasks."""
        if not workload.evaluation_tasks:
            return {}
        asked: list[Json] = list(workload.evaluation_tasks)
        return {
            "quality_tasks": {
                "asked": asked,
                "digest": self.asking(workload, part).questions.digest,
                "thinking": bool(workload.evaluation_thinking),
                "versions": dict(tool_versions(needed_python())),
            }
        }

    def answers(self, workload: Workload, part: int, traces: Sequence[GenerationTrace]) -> list[Answer]:
        """The answers in what a launch generated, one trace a request."""
        stop_ids, thinking = self._stop_ids, bool(workload.evaluation_thinking)
        items = self.asking(workload, part).questions.items
        return [
            answer_of(item, trace, self._tokenizer, stop_ids, thinking=thinking)
            for item, trace in zip(items, traces, strict=True)
        ]

    def correct(self, workload: Workload, part: int, answers: Sequence[Answer]) -> Mapping[str, bool]:
        """Whether each answer is right, by item, as lm-eval scores it."""
        if not answers:
            return {}
        told = {each.item: each.text for each in answers}
        scored: Mapping[str, bool] = self._process(workload, part, "score", answers=told)["correct"]
        return scored

    @property
    def _tokenizer(self) -> Tokenizer:
        return self._reading()[0]

    @property
    def _stop_ids(self) -> tuple[int, ...]:
        return self._reading()[1]

    @lru_cache(maxsize=1)  # noqa: B019 - lives as long as the job's process
    def _reading(self) -> tuple[Tokenizer, tuple[int, ...]]:
        tokenizer = load_tokenizer(self._checkpoint)
        return tokenizer, end_tokens(self._checkpoint, tokenizer)

    def _ask_items(self, workload: Workload, part: int) -> Asking:
        told = self._process(workload, part, "items")
        items = tuple(TaskItem(**{**each, "until": tuple(each["until"])}) for each in told["items"])
        questions = Questions(items, bool(told["templated"]))
        return Asking(questions, tuple(requests_for(questions, self._tokenizer, self._stop_ids)))

    def _process(self, workload: Workload, part: int, op: str, **more: Any) -> Any:
        data = data_folder()
        request = {
            "op": op,
            "tasks": [[task.name, task.items] for task in tasks_of(workload)],
            "part": part,
            "checkpoint": str(self._checkpoint.absolute()),
            "thinking": bool(workload.evaluation_thinking),
            "answer_tokens": workload.evaluation_answer_tokens,
            "data": None if data is None else str(data),
            "run_code": may_run_code(),
            **more,
        }
        return ask(PROCESS, request, doing=f"runs lm-eval ({op})", python=needed_python())


def tasks_of(workload: Workload) -> tuple[AskedTask, ...]:
    """The tasks that a workload asks for."""
    return asked_tasks(workload.evaluation_tasks or ())
