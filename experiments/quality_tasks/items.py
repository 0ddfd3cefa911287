"""Items of quality tasks and their answers: requests from prompts, text from tokens. Pure, but for reading a
checkpoint's end tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.engines.port import GenerationRequest, GenerationTrace

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ENDS = ("<|im_end|>", "<|endoftext|>")
"""Tokens that end an answer wherever a tokenizer has them, beside those that the checkpoint names."""

CONFIGS = ("generation_config.json", "config.json")
"""Files of a checkpoint that name the tokens that end an answer."""

THOUGHT_END = "</think>"
"""Ends a thought, in the templates of models that think before they answer."""


@dataclass(frozen=True)
class TaskItem:
    """One question of a task: the text that the model goes on from, with the chat template applied, the texts
    at which an answer is cut, the most tokens of an answer, and what lm-eval takes for right, in words.

    `item` is `lm-eval/TASK/NUMBER`, for a group of tasks `lm-eval/GROUP/TASK/NUMBER`.
    """

    item: str
    prompt: str
    until: tuple[str, ...]
    new_tokens: int
    target: str


@dataclass(frozen=True)
class Questions:
    """The items of all tasks of a part; `templated`: the checkpoint has a chat template, and it was
    applied."""

    items: tuple[TaskItem, ...]
    templated: bool

    @property
    def digest(self) -> str:
        """SHA-256 of everything that an item is."""
        content = [self.templated, [asdict(item) for item in self.items]]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What a launch said to an item, cut as its task has it; `finished`: it came to an end by itself."""

    item: str
    text: str
    tokens: int
    finished: bool


def end_tokens(checkpoint: Path, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that end an answer: those the checkpoint's files name, and `ENDS` where it has them."""
    found: set[int] = set()
    for name in CONFIGS:
        path = checkpoint / name
        if path.is_file():
            found |= _ends_in(json.loads(path.read_text(encoding="utf-8")))
    found |= {token for token in map(tokenizer.token_to_id, ENDS) if token is not None}
    return tuple(sorted(found))


def requests_for(
    questions: Questions, tokenizer: Tokenizer, stop_ids: tuple[int, ...]
) -> list[GenerationRequest]:
    """A request an item. A chat template has written every special token itself; plain text gets those that
    the tokenizer adds."""
    special = not questions.templated
    return [
        GenerationRequest(
            item.item,
            tuple(tokenizer.encode(item.prompt, add_special_tokens=special).ids),
            item.new_tokens,
            stop_ids=stop_ids,
        )
        for item in questions.items
    ]


def answer_of(
    item: TaskItem, trace: GenerationTrace, tokenizer: Tokenizer, stop_ids: Sequence[int], *, thinking: bool
) -> Answer:
    """The answer in the tokens that came.

    A thought is taken away before an answer is cut. One that never ended leaves no answer.
    """
    ids, finished = list(trace.token_ids), False
    if ids and ids[-1] in stop_ids:
        ids, finished = ids[:-1], True
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    _, ended, after = text.rpartition(THOUGHT_END)
    if ended or thinking:
        text = after.lstrip() if ended else ""
    whole = text
    for end in filter(None, item.until):
        text = text.split(end, 1)[0]
    return Answer(item.item, text, len(trace.token_ids), finished or text != whole)


def longest_tokens(requests: Sequence[GenerationRequest]) -> int:
    """The most tokens of a sequence, prompt and answer; 0 without requests."""
    return max((len(each.prompt_ids) + each.new_tokens for each in requests), default=0)


def _ends_in(config: Mapping[str, Any]) -> set[int]:
    """The end tokens that a config names, at the top or for its text part."""
    found: set[int] = set()
    for part in (config, config.get("text_config")):
        if isinstance(part, Mapping):
            named = part.get("eos_token_id")
            found |= {
                each for each in (named if isinstance(named, list) else [named]) if isinstance(each, int)
            }
    return found
