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
from experiments.stages.pruning.kept_rows import NOTHING_KEPT, KeptRows, Row

ROW_TOKENS = 1024
"""Tokens that go through a layer at once, at least one row: it bounds the memory of activations, and on a CPU
larger batches are no faster."""


class LayerWalk:
    """Walks documents (token ids, each read on its own) through a model's layers, `workers` at a time.

    Scores of documents that `kept` has are not computed again.
    """

    def __init__(
        self,
        model: Qwen3_5ForCausalLM,
        documents: Sequence[Sequence[int]],
        workers: int = 1,
        kept: KeptRows = NOTHING_KEPT,
    ) -> None:
        self._model = model
        self._layers = list(model.model.layers)
        self._documents = documents
        self._workers = workers
        self._kept = kept
        self._arguments = {tokens: self._arguments_for(tokens) for tokens in {*map(len, documents)}}

    @property
    def all_layers(self) -> Sequence[int]:
        """The numbers of all layers."""
        return range(len(self._layers))

    def each_document(
        self, score: Callable[[int], Row], candidates: Sequence[int], gone: Sequence[int] = ()
    ) -> tuple[Row, ...]:
        """The scores of every document, in order; `score` gets its number and runs without gradients.

        It scores `candidates` in their order, without the layers of `gone`. Each document's scores are kept
        as soon as they are there.
        """

        @torch.inference_mode()  # a thread has a mode of its own
        def scored(number: int) -> Row:
            row = score(number)
            self._kept.keep(row, number, candidates, gone)
            return row

        count = len(self._documents)
        found = {number: self._kept.find(number, candidates, gone) for number in range(count)}
        rows = {number: row for number, row in found.items() if row is not None}
        if rows:
            progress(len(rows), count, "calibration documents were scored before")
        missing = [number for number in range(count) if number not in rows]
        with ThreadPoolExecutor(self._workers) as pool:
            for number, row in zip(missing, pool.map(scored, missing), strict=True):
                rows[number] = row
                progress(len(rows), count, "scored the layers on a calibration document")
        return tuple(rows[number] for number in range(count))

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

    def whole_states(self, number: int) -> torch.Tensor:
        """The whole model's hidden states of one document, as `last_states` gives them beside all variants.

        Rounding depends on how many rows go through a layer at once. So that they are the same to the bit,
        the variants that share a batch with the whole model there are walked beside it.
        """
        beside = max(1, ROW_TOKENS // self._tokens(number)) - 1
        return self.last_states(number, (), self.all_layers[:beside])[0]

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
