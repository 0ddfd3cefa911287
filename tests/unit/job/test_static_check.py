"""What the static check could not look at is told with the stage, each thing once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from experiments.job.static_check import check_static
from experiments.measurement.evidence import UNCHECKED
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

ASKED: list[tuple[Any, ...]] = []


def told_by(answers: list[str | None], unwatched: str | None = None) -> dict[str, Any]:
    def check(*arguments: Any) -> str | None:
        ASKED.append(arguments)
        return answers.pop(0)

    job: Any = SimpleNamespace(
        engine=SimpleNamespace(check=check),
        context=SimpleNamespace(checkpoint=Path("model")),
        spec=SimpleNamespace(device="cuda:1"),
        guard=SimpleNamespace(unwatched=lambda: unwatched, before_launches=lambda: None),
    )
    told: Any = SimpleNamespace(detail={"kept": 1})
    for _ in range(len(answers)):
        check_static(job, told, Configuration.of({}), Workload(prompt_tokens=4000, new_tokens=200))
    return dict(told.detail)


def test_nothing_is_told_where_all_was_looked_at() -> None:
    assert told_by([None, None]) == {"kept": 1}


def test_what_was_not_looked_at_is_told_once() -> None:
    assert told_by(["a", None, "a", "b"]) == {"kept": 1, UNCHECKED: ["a", "b"]}
    assert told_by(["a", None], "No driver answers.") == {"kept": 1, UNCHECKED: ["No driver answers.", "a"]}


def test_the_engine_is_asked_for_the_longest_sequence_of_the_workload() -> None:
    ASKED.clear()
    told_by([None])
    assert [(Configuration.of({}), Path("model"), "cuda:1", 4200)] == ASKED
    assert Workload(prompt_tokens=10, evaluation_tokens_per_document=500).context_tokens == 500
    assert Workload(prompt_tokens=400, new_tokens=2, drafting_new_tokens=64).context_tokens == 464
