"""Prompts of each class of content on which drafting is checked; the same for every launch, everywhere.

An item's name begins with its class (`code:email.message#2`), so that acceptance can be told per class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from experiments.corpora.content_classes import held_out_code, held_out_prose
from experiments.corpora.instructions import held_out_items, render_prompt
from experiments.corpora.standard_library import Document
from experiments.engines.port import GenerationRequest
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import end_of_text_id

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONTENT_CLASSES = ("code", "prose", "instruct")
"""Classes of content that are told apart."""

PROMPT_TOKENS_MIN = 16
"""Shorter beginnings of a text say too little of how it goes on."""

GREEDY_SEED = 0
"""Greedy decoding draws nothing; every request of a check has this seed."""


def content_prompts(tokenizer: Tokenizer, workload: Workload) -> list[GenerationRequest]:
    """Up to `drafting_prompts` requests of each class, each of `drafting_new_tokens` new tokens.

    Code and prose are cut to `prompt_tokens`, and to half of the text at most, so that the text does not end
    where the model goes on. Instructions are whole: the model answers.
    """
    texts = {
        "code": _beginnings(tokenizer, held_out_code(), workload.prompt_tokens),
        "prose": _beginnings(tokenizer, held_out_prose(), workload.prompt_tokens),
        "instruct": _instructions(tokenizer, workload.drafting_prompts),
    }
    return [
        GenerationRequest(f"{content}:{name}", ids, workload.drafting_new_tokens, GREEDY_SEED)
        for content in CONTENT_CLASSES
        for name, ids in islice(texts[content], workload.drafting_prompts)
    ]


def _beginnings(
    tokenizer: Tokenizer, documents: Iterable[Document], tokens: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    end = end_of_text_id(tokenizer)
    for document in documents:
        ids = tokenizer.encode(document.text).ids
        ids = ids if end is None else [end, *ids]
        kept = min(tokens, len(ids) // 2)
        if kept >= min(tokens, PROMPT_TOKENS_MIN):
            yield document.name, tuple(ids[:kept])


def _instructions(tokenizer: Tokenizer, count: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for item in held_out_items(count):
        yield item.id, tuple(tokenizer.encode(render_prompt(item)).ids)
