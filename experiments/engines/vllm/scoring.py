"""Quality of a model that vLLM serves: bits, divergence from a reference, instruction items. In the driver.

Every document is one prefill whose log-probabilities vLLM is asked for; the logits behind them are read in
the worker (`tap.py`), and both must say the same, so that no row is taken for another. The first document
that is long enough also goes through the path that is timed, token by token or, with drafting, by steps that
verify drafts, as the further document `decode:<item>`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.engines.messages import data_of
from experiments.engines.port import (
    DECODE_ITEM_PREFIX,
    DocumentScore,
    Infeasible,
    ScoringDocument,
    ScoringTask,
    TaskScore,
    no_numbers,
)
from experiments.engines.vllm.tap import DRAFT_IN_TURNS, DRAFT_NOTHING

if TYPE_CHECKING:
    from experiments.engines.vllm.loaded_engine import LoadedEngine

DECODE_PREFIX_TOKENS = 64
"""Tokens of the decode document that are prefilled; the rest goes through decode steps."""

DECODE_STEPS_MAX = 128
"""Tokens of the decode document that go through decode steps at most."""

NATS_APART_MAX = 0.02
"""Most nats a token by which the logits that were read and vLLM's own log-probabilities may differ: both
are of one float32 softmax, so that anything more is another row."""


async def score(
    engine: LoadedEngine,
    documents: Sequence[ScoringDocument],
    tasks: Sequence[ScoringTask],
    reference: str | None,
    write_reference: str | None,
) -> dict[str, Any]:
    """As `Launch.score`, as JSON data."""
    for document in documents:
        if len(document.token_ids) < 2:
            raise Infeasible("illegal", f"Document {document.item} has fewer than 2 tokens to score.")
    for task in tasks:
        if not task.prompt_ids or not task.answer_ids:
            raise Infeasible("illegal", f"Item {task.item} has an empty prompt or answer.")
    rows = {document.item: len(document.token_ids) - 1 for document in documents}
    await engine.call("autoinfer_open_references", reference, write_reference, rows)
    whole = False
    try:
        scores: list[DocumentScore] = []
        decoded: list[DocumentScore] = []
        for document in documents:
            scores.append(await _document(engine, document))
            if not decoded and len(document.token_ids) > DECODE_PREFIX_TOKENS + 1:
                decoded.append(await _decode_document(engine, document))
        solved = [await _task(engine, task) for task in tasks]
        whole = True
    finally:
        await engine.call("autoinfer_close_references", whole)
    return {
        "documents": [data_of(each) for each in (*scores, *decoded)],
        "tasks": [data_of(each) for each in solved],
    }


async def _document(engine: LoadedEngine, document: ScoringDocument) -> DocumentScore:
    told = await _prefilled(engine, document.item, document.token_ids, 0)
    return _scored(document.item, document.text_bytes, told)


async def _task(engine: LoadedEngine, task: ScoringTask) -> TaskScore:
    first = len(task.prompt_ids) - 1
    told = await _prefilled(engine, None, task.prompt_ids + task.answer_ids, first)
    return TaskScore(task.item, tuple(told["best"]) == task.answer_ids)


async def _prefilled(
    engine: LoadedEngine, item: str | None, ids: tuple[int, ...], first: int
) -> dict[str, Any]:
    """What the worker tells of the tokens after place `first`, checked against vLLM's own numbers."""
    await engine.call("autoinfer_listen")
    by_vllm = await engine.read_prompt(ids)
    told: dict[str, Any] = await engine.call("autoinfer_heard", item, list(ids[first + 1 :]), first)
    if not math.isfinite(told["nll_nats"]):
        raise no_numbers(f"nats of {item or 'an item'}", told["nll_nats"])
    apart = abs(told["nll_nats"] + math.fsum(by_vllm[first:]))
    if len(by_vllm) != len(ids) - 1 or not apart <= NATS_APART_MAX * (len(ids) - 1 - first):
        raise Infeasible(
            "crashed",
            f"The logits that were read of vLLM and its own log-probabilities differ by {apart:.3f} nats "
            f"over {len(ids) - 1 - first} tokens, so nothing can be scored with them.",
        )
    return told


async def _decode_document(engine: LoadedEngine, document: ScoringDocument) -> DocumentScore:
    ids = document.token_ids[: DECODE_PREFIX_TOKENS + DECODE_STEPS_MAX + 1]
    drafts = engine.order.draft_tokens
    first = DECODE_PREFIX_TOKENS + 1  # the prefill chooses the token before
    await engine.call("autoinfer_read_along", list(ids), DRAFT_IN_TURNS if drafts else DRAFT_NOTHING, drafts)
    await engine.say(ids[:DECODE_PREFIX_TOKENS], len(ids) - DECODE_PREFIX_TOKENS)
    told = await engine.call("autoinfer_read", document.item, first, list(ids[first:]))
    share = (len(ids) - first) / (len(document.token_ids) - 1)
    return _scored(f"{DECODE_ITEM_PREFIX}{document.item}", max(1, round(document.text_bytes * share)), told)


def _scored(item: str, text_bytes: int, told: dict[str, Any]) -> DocumentScore:
    return DocumentScore(
        item=item,
        nll_bits=told["nll_nats"] / math.log(2),
        text_bytes=text_bytes,
        kl_nats=told["kl_nats"],
        top1_agreement=told["top1_agreement"],
    )
