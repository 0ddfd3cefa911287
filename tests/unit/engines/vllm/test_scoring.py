"""What is scored of vLLM is refused where it is no number; the engine's answers are given."""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

import pytest

from experiments.engines.port import NO_NUMBERS, Infeasible, ScoringDocument
from experiments.engines.vllm.loaded_engine import LoadedEngine
from experiments.engines.vllm.scoring import score

IDS = (1, 2, 3)


class Answers:
    """An engine that computes nothing: each document is worth `nll_nats`, by its worker and by vLLM."""

    def __init__(self, nll_nats: float) -> None:
        self.nll_nats = nll_nats

    async def call(self, asked: str, *_: object) -> dict[str, Any]:
        heard = {"nll_nats": self.nll_nats, "kl_nats": None, "top1_agreement": None, "best": []}
        return heard if asked == "autoinfer_heard" else {}

    async def read_prompt(self, ids: tuple[int, ...]) -> list[float]:
        return [-self.nll_nats / (len(ids) - 1)] * (len(ids) - 1)


def scored(nll_nats: float) -> dict[str, Any]:
    documents = [ScoringDocument("doc-0", IDS, 10)]
    return asyncio.run(score(cast(LoadedEngine, Answers(nll_nats)), documents, [], None, None))


def test_a_document_is_worth_what_worker_and_engine_agree_on() -> None:
    (document,) = scored(math.log(2))["documents"]
    assert document["nll_bits"] == pytest.approx(1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_computes_no_numbers_is_not_taken_for_logits_that_were_read_wrongly(
    value: float,
) -> None:
    with pytest.raises(Infeasible, match=f"computes no numbers: nats of doc-0 came out as {value}") as told:
        scored(value)
    assert told.value.kind == NO_NUMBERS
