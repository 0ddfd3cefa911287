"""Documents and instruction items of the quality evaluation, tokenised for a checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from configs.errors import UsageError
from experiments.corpora.instructions import (
    IM_END,
    InstructionItem,
    held_out_items,
    render_answer,
    render_prompt,
)
from experiments.corpora.standard_library import Document
from experiments.engines.port import ScoringDocument, ScoringTask
from experiments.measurement.prompts import end_of_text_id

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DOCUMENT_TOKENS_MIN = 64
"""Shorter documents are left out: their first tokens, which nothing foretells, would weigh too much."""


def scoring_documents(
    tokenizer: Tokenizer, documents: Sequence[Document], count: int, tokens: int, part: int = 0
) -> list[ScoringDocument]:
    """The first `count` documents that are long enough, each cut to `tokens` scored tokens.

    The token between texts comes first and is not scored. `text_bytes` is the UTF-8 length of the scored text
    up to the end of the last token's last character. Part 1 has the `count` documents that follow, and so on;
    the last part has what is left, down to none.

    Raises:
        UsageError: there are fewer documents than part 0 asks for.
    """
    end = end_of_text_id(tokenizer)
    found: list[ScoringDocument] = []
    for document in documents:
        if len(found) == count * (part + 1):
            break
        encoding = tokenizer.encode(document.text)
        ids = tuple(encoding.ids[: tokens if end is not None else tokens + 1])
        scored = len(ids) if end is not None else len(ids) - 1
        if scored < min(tokens, DOCUMENT_TOKENS_MIN):
            continue
        start_char = 0 if end is not None else encoding.offsets[0][1]
        text = document.text[start_char : encoding.offsets[len(ids) - 1][1]]
        found.append(ScoringDocument(document.name, ids if end is None else (end, *ids), len(text.encode())))
    if len(found) < count:
        raise UsageError(
            f"The held-out text gives {len(found)} documents of at least {min(tokens, DOCUMENT_TOKENS_MIN)} "
            f"tokens, not {count}.",
            "Ask for fewer evaluation_documents.",
        )
    return found[count * part :]


def part_of_items(count: int, part: int) -> Sequence[InstructionItem]:
    """The held-out instruction items of a part: `count` of them that no earlier part has."""
    return held_out_items(count * (part + 1))[count * part :]


def scoring_tasks(tokenizer: Tokenizer, items: Sequence[InstructionItem]) -> list[ScoringTask]:
    """Instruction items: the chat up to the answer, and the answer up to the token that ends the message.

    That token is part of the answer, so that an answer that goes on is wrong, as `corpora.instructions.grade`
    has it. Grading tolerates white space around an answer; this does not, so it is the stricter of the two.
    """
    return [_task(tokenizer, item) for item in items]


def _task(tokenizer: Tokenizer, item: InstructionItem) -> ScoringTask:
    prompt, answer = render_prompt(item), render_answer(item)
    answer = answer[: answer.index(IM_END) + len(IM_END)]
    prompt_ids = tokenizer.encode(prompt).ids
    together = tokenizer.encode(prompt + answer).ids
    if together[: len(prompt_ids)] == prompt_ids:
        answer_ids = together[len(prompt_ids) :]
    else:  # the tokenizer merges across the seam: keep to what a server would have been sent
        answer_ids = tokenizer.encode(answer, add_special_tokens=False).ids
    return ScoringTask(item.id, tuple(prompt_ids), tuple(answer_ids))


def material_digest(documents: Sequence[ScoringDocument], tasks: Sequence[ScoringTask]) -> str:
    """SHA-256 of tokens, names and bytes of documents and tasks: equal material is scored alike."""
    content = [[asdict(document) for document in documents], [asdict(task) for task in tasks]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
