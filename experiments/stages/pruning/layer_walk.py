"""Runs the layers of a model by hand, with some left out: all variants of a document walk side by side.
Imports torch.

A variant without layer i is the whole model up to layer i. So it need not begin at the embedding: when the
walk comes to layer i, the variant without it starts as a copy of the whole model's hidden state there, and
goes on as one more row of the batch. Over L layers that is 1 + 2 + … + L rows, half of what L forwards would
take.

Several documents are walked at a time, each by a thread of its own: a small model's operations are too short
to be shared among threads, and so a document's scores don't depend on how many cores there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.one_answer import progress

ROW_TOKENS = 1024
"""Tokens that go through a layer at once, at least one row: it bounds the memory of activations, and on a CPU
larger batches are no faster."""

Row = tuple[float, ...]
"""The scores of one document: one for each layer, or for each candidate."""


class LayerWalk:
    """Walks documents (token ids, each read on its own) through a model's layers, `workers` at a time."""

    def __init__(
        self, model: Qwen3_5ForCausalLM, documents: Sequence[Sequence[int]], workers: int = 1
    ) -> None:
        self._model = model
        self._layers = list(model.model.layers)
        self._documents = documents
        self._workers = workers
        self._arguments = {tokens: self._arguments_for(tokens) for tokens in {*map(len, documents)}}

    def each_document(self, score: Callable[[int], Row]) -> tuple[Row, ...]:
        """The scores of every document, in order; `score` gets its number and runs without gradients."""

        @torch.inference_mode()  # a thread has a mode of its own
        def scored(number: int) -> Row:
            return score(number)

        with ThreadPoolExecutor(self._workers) as pool:
            rows: list[Row] = []
            for row in pool.map(scored, range(len(self._documents))):
                rows.append(row)
                progress(len(rows), len(self._documents), "scored the layers on a calibration document")
            return tuple(rows)

    def steps(self, number: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """What goes into each layer and what comes out, for one document: both `[1, tokens, hidden]`."""
        states = self._embedded(number)
        for layer, arguments in zip(self._layers, self._arguments[self._tokens(number)], strict=True):
            before, states = states, layer(states, **arguments)
            yield before, states

    def last_states(
        self, number: int, gone: Collection[int], candidates: Collection[int]
    ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        """Hidden states of one document after the last layer, before the final norm, `[tokens, hidden]`.

        First those without the layers of `gone`, then, for each of `candidates`, those without that layer
        too.
        """
        tokens = self._tokens(number)
        rows, without = self._embedded(number), list[int]()
        for index, layer in enumerate(self._layers):
            if index in gone:
                continue
            before, arguments = rows[:1], self._arguments[tokens][index]
            parts = torch.split(rows, max(1, ROW_TOKENS // tokens))
            rows = torch.cat([layer(part, **arguments) for part in parts])
            if index in candidates:
                rows = torch.cat([rows, before])
                without.append(index)
        return rows[0], dict(zip(without, rows[1:], strict=True))

    def _tokens(self, number: int) -> int:
        return len(self._documents[number])

    def _embedded(self, number: int) -> torch.Tensor:
        ids = torch.tensor([list(self._documents[number])], device=self._model.device)
        embedded: torch.Tensor = self._model.model.embed_tokens(ids)
        return embedded

    @torch.inference_mode()
    def _arguments_for(self, tokens: int) -> list[Mapping[str, Any]]:
        """What the model hands each layer beside the hidden state: masks and rotary embeddings.

        They depend on the number of tokens alone, so they are taken from one forward for each length.
        """
        seen: list[Mapping[str, Any]] = []

        def before(
            module: torch.nn.Module, args: tuple[torch.Tensor, ...], kwargs: Mapping[str, Any]
        ) -> None:
            seen.append(dict(kwargs))

        handles = [layer.register_forward_pre_hook(before, with_kwargs=True) for layer in self._layers]
        try:
            ids = torch.zeros((1, tokens), dtype=torch.long, device=self._model.device)
            self._model.model(ids, use_cache=False)
        finally:
            for handle in handles:
                handle.remove()
        return seen
