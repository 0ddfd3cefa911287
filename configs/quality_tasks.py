"""How quality tasks are written: `gsm8k:200`, a task of lm-eval and how many of its items are asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from configs.errors import UsageError

_WRITTEN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.+-]*):(?P<items>[1-9][0-9]{0,6})")

ITEM_PREFIX = "lm-eval/"
"""Begins the name of an item of a quality task, `lm-eval/TASK/NUMBER`; instruction items have other names."""

ANSWER_TOKENS = 256
"""Tokens of an answer where nothing is known of them: what lm-eval allows an answer of a task that says
nothing of it. To foretell times only."""

HOW_TO_WRITE = "Write a task of lm-eval and how many items to ask, such as gsm8k:200."


@dataclass(frozen=True)
class AskedTask:
    """A task or a group of tasks by lm-eval's name, and how many of its items are asked."""

    name: str
    items: int

    @property
    def item_prefix(self) -> str:
        """What the names of its items begin with."""
        return f"{ITEM_PREFIX}{self.name}/"


def asked_task(written: str) -> AskedTask:
    """The task of `NAME:ITEMS`; raises `ValueError` for anything else."""
    found = _WRITTEN.fullmatch(written.strip())
    if found is None:
        raise ValueError(f"{written!r} is no quality task. {HOW_TO_WRITE}")
    return AskedTask(found["name"], int(found["items"]))


def asked_tasks(written: Sequence[str]) -> tuple[AskedTask, ...]:
    """The tasks of a list; raises `ValueError` for one that can't be read, or stands twice."""
    found = tuple(map(asked_task, written))
    names = [task.name for task in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the quality task {twice[0]} stands twice")
    return found


def split_tasks(option: str) -> list[str]:
    """The tasks of a command line's `gsm8k:200,ifeval:100`; raises `UsageError` for what is none."""
    written = [part.strip() for part in option.split(",") if part.strip()]
    if not written:
        raise UsageError("--tasks names no task.", HOW_TO_WRITE)
    try:
        asked_tasks(written)
    except ValueError as cause:
        sentence = str(cause).removesuffix(f" {HOW_TO_WRITE}")
        raise UsageError(sentence[0].upper() + sentence[1:].rstrip(".") + ".", HOW_TO_WRITE) from None
    return written
