"""Quality of a loaded model: bits, divergence from a reference, instruction items; all teacher-forced.

Documents and items go through a prefill, several in a batch. Sequences in a batch are padded at the end:
nothing in a causal model looks ahead, so the padding changes no value before it. On a CPU every core has a
batch of its own: a small model's operations are too short to be shared among threads.

The path that is timed is not the prefill but the decode step, compiled perhaps; so the first document goes
through that path too, and is reported as a further document named `decode:<item>`: a step that computes
nonsense shows there and nowhere else. It goes token by token; with drafting it goes through the step that
verifies drafts, with the text in their place, of which one token stays in the first step, two in the next and
so on in turn, so that the state is gone back to as in use.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from configs.cpu import usable_cores
from experiments.engines.port import (
    DECODE_ITEM_PREFIX,
    DocumentScore,
    Infeasible,
    ScoringDocument,
    ScoringTask,
    TaskScore,
)
from experiments.engines.reference.capacity import SMALLEST_CAPACITY
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.references import ReferenceReader, ReferenceWriter, kl_rows

BATCH_TOKENS = 1024
"""Tokens of a batch, padding included; on a CPU larger batches are no faster."""

LOGIT_BYTES_MAX = 64 * 2**20
"""Most bytes of float32 logits at once, for large vocabularies."""

DECODE_PREFIX_TOKENS = 64
"""Tokens of the decode document that are prefilled; the rest goes through the decode step."""

DECODE_STEPS_MAX = 128
"""Tokens of the decode document that go through the decode step at most; the sum fits `SMALLEST_CAPACITY`."""

assert DECODE_PREFIX_TOKENS + DECODE_STEPS_MAX <= SMALLEST_CAPACITY


@dataclass
class _Tally:
    """Sums over the rows of a document."""

    nll_nats: float = 0.0
    kl_nats: list[float] = field(default_factory=list)
    agreements: list[float] = field(default_factory=list)

    def score(self, item: str, text_bytes: int) -> DocumentScore:
        rows = len(self.kl_nats)
        return DocumentScore(
            item=item,
            nll_bits=self.nll_nats / math.log(2),
            text_bytes=text_bytes,
            kl_nats=sum(self.kl_nats) / rows if rows else None,
            top1_agreement=sum(self.agreements) / rows if rows else None,
        )


class Scorer:
    """Scores documents and items with one loaded model; `step_tokens` are read by a decode step as timed."""

    def __init__(self, decoder: Decoder, step_tokens: int = 1) -> None:
        self._decoder = decoder
        self._step_tokens = step_tokens
        self._model = decoder.model
        self._vocabulary = int(decoder.model.config.vocab_size)
        self._workers = usable_cores() if decoder.model.device.type == "cpu" else 1

    def score(
        self,
        documents: Sequence[ScoringDocument],
        tasks: Sequence[ScoringTask],
        reference: Path | None,
        write_reference: Path | None,
    ) -> tuple[list[DocumentScore], list[TaskScore]]:
        """As `Launch.score`; one more document, `decode:<item>`, when the first is long enough.

        Raises:
            Infeasible: kind `illegal` for a document too short to score or a token outside the vocabulary.
        """
        self._check(documents, tasks)
        self._decoder.prepare_as_timed(SMALLEST_CAPACITY)
        reader = None if reference is None else ReferenceReader(reference, self._vocabulary)
        with torch.inference_mode():
            with _one_thread_each(self._workers):
                if write_reference is None:
                    scores = self._documents(documents, reader, None)
                else:
                    rows = {document.item: len(document.token_ids) - 1 for document in documents}
                    with ReferenceWriter(write_reference, self._vocabulary, rows) as writer:
                        scores = self._documents(documents, reader, writer)
                solved = self._tasks(tasks)
            return scores + self._decode_document(documents, reader), solved

    def _check(self, documents: Sequence[ScoringDocument], tasks: Sequence[ScoringTask]) -> None:
        for document in documents:
            if len(document.token_ids) < 2:
                raise Infeasible("illegal", f"Document {document.item} has fewer than 2 tokens to score.")
        for task in tasks:
            if not task.prompt_ids or not task.answer_ids:
                raise Infeasible("illegal", f"Item {task.item} has an empty prompt or answer.")
        largest = max(
            (
                max(ids)
                for ids in (*(d.token_ids for d in documents), *(t.prompt_ids + t.answer_ids for t in tasks))
            ),
            default=0,
        )
        if largest >= self._vocabulary:
            raise Infeasible(
                "illegal", f"Token {largest} is outside this model's vocabulary of {self._vocabulary}."
            )

    def _prefilled(self, sequences: Sequence[tuple[int, ...]]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """The sequences in batches, and the last hidden states of each batch; batches side by side."""

        @torch.inference_mode()  # a thread has a mode of its own
        def hidden(indices: list[int]) -> torch.Tensor:
            return self._hidden([sequences[index] for index in indices])

        waiting = deque(batches([len(ids) for ids in sequences]))
        ahead: deque[tuple[list[int], Future[torch.Tensor]]] = deque()
        with ThreadPoolExecutor(self._workers) as pool:
            while waiting or ahead:
                while waiting and len(ahead) <= self._workers:
                    ahead.append((waiting[0], pool.submit(hidden, waiting.popleft())))
                indices, computed = ahead.popleft()
                yield indices, computed.result()

    def _hidden(self, sequences: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """The last hidden states of a padded batch: `[sequences, longest, hidden]`."""
        longest = max(map(len, sequences))
        padded = [ids + (0,) * (longest - len(ids)) for ids in sequences]
        batch = torch.tensor(padded, device=self._model.device)
        hidden: torch.Tensor = self._model.model(batch, use_cache=False).last_hidden_state
        return hidden

    def _log_probs(self, hidden: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Log-probabilities of rows `[rows, hidden]`, in slices: their first row, float32 `[n,
        vocabulary]`."""
        step = max(1, LOGIT_BYTES_MAX // (4 * self._vocabulary))
        for first in range(0, len(hidden), step):
            logits = self._model.lm_head(hidden[first : first + step])
            yield first, torch.log_softmax(logits.float(), dim=-1)

    def _documents(
        self,
        documents: Sequence[ScoringDocument],
        reader: ReferenceReader | None,
        writer: ReferenceWriter | None,
    ) -> list[DocumentScore]:
        scores: dict[int, DocumentScore] = {}
        for indices, hidden in self._prefilled([document.token_ids[:-1] for document in documents]):
            for row, index in enumerate(indices):
                document, tally = documents[index], _Tally()
                targets = torch.tensor(document.token_ids[1:], device=hidden.device)
                comparable = reader is not None and reader.holds(document.item, len(targets))
                for first, log_probs in self._log_probs(hidden[row, : len(targets)]):
                    _add_nll(tally, log_probs, targets[first : first + len(log_probs)])
                    if reader is not None and comparable:
                        _add_comparison(tally, *reader.compare(document.item, first, log_probs))
                    if writer is not None:
                        writer.write(document.item, first, log_probs)
                scores[index] = tally.score(document.item, document.text_bytes)
        return [scores[index] for index in range(len(documents))]

    def _decode_document(
        self, documents: Sequence[ScoringDocument], reader: ReferenceReader | None
    ) -> list[DocumentScore]:
        """The first document through the decode path.

        Compared with the reference's distributions at the same positions, or with this model's own prefill
        when there is no reference. `text_bytes` is the document's in proportion to the tokens scored.
        """
        document = next((d for d in documents if len(d.token_ids) > DECODE_PREFIX_TOKENS + 1), None)
        if document is None:
            return []
        ids = document.token_ids[: DECODE_PREFIX_TOKENS + DECODE_STEPS_MAX + 1]
        steps = len(ids) - 1 - DECODE_PREFIX_TOKENS
        decoded = self._decoded(ids)
        targets = torch.tensor(ids[DECODE_PREFIX_TOKENS + 1 :], device=decoded.device)
        tally = _Tally()
        _add_nll(tally, decoded, targets)
        if reader is not None and reader.holds(document.item, len(ids) - 1):
            _add_comparison(tally, *reader.compare(document.item, DECODE_PREFIX_TOKENS, decoded))
        else:
            hidden = self._hidden([ids[:-1]])[0, DECODE_PREFIX_TOKENS:]
            for first, prefilled in self._log_probs(hidden):
                here = decoded[first : first + len(prefilled)]
                _add_comparison(tally, kl_rows(prefilled, here), prefilled.argmax(-1) == here.argmax(-1))
        text_bytes = max(1, round(document.text_bytes * steps / (len(document.token_ids) - 1)))
        return [tally.score(f"{DECODE_ITEM_PREFIX}{document.item}", text_bytes)]

    def _decoded(self, ids: tuple[int, ...]) -> torch.Tensor:
        """Log-probabilities after each token from the prefix's end to the last but one, by decode steps:
        float32 `[tokens, vocabulary]`."""
        sequence = self._decoder.begin(ids[:DECODE_PREFIX_TOKENS]).sequence
        rows = []
        place, kept = DECODE_PREFIX_TOKENS, 0
        while place < len(ids) - 1:
            kept = kept % self._step_tokens + 1
            chunk = ids[place : min(place + self._step_tokens, len(ids) - 1)]
            logits = sequence.run([*chunk, *[0] * (self._step_tokens - len(chunk))])[1]
            rows.append(torch.log_softmax(logits[: min(kept, len(chunk))].float(), dim=-1))
            sequence.keep(kept)
            place += kept
        return torch.cat(rows)

    def _tasks(self, tasks: Sequence[ScoringTask]) -> list[TaskScore]:
        correct: dict[int, bool] = {}
        sequences = [task.prompt_ids + task.answer_ids[:-1] for task in tasks]
        for indices, hidden in self._prefilled(sequences):
            for row, index in enumerate(indices):
                task = tasks[index]
                first = len(task.prompt_ids) - 1
                answer = self._model.lm_head(hidden[row, first : len(sequences[index])]).argmax(-1)
                correct[index] = tuple(answer.tolist()) == task.answer_ids
        return [TaskScore(task.item, correct[index]) for index, task in enumerate(tasks)]


@contextmanager
def _one_thread_each(workers: int) -> Iterator[None]:
    """Prefills are not timed, so they need not keep to the threads of the configuration: `workers` of them
    run side by side, each on a thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if workers > 1 else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _add_nll(tally: _Tally, log_probs: torch.Tensor, targets: torch.Tensor) -> None:
    tally.nll_nats -= float(log_probs.gather(-1, targets[:, None]).double().sum())


def _add_comparison(tally: _Tally, kl: torch.Tensor, agreement: torch.Tensor) -> None:
    tally.kl_nats += kl.tolist()
    tally.agreements += agreement.float().tolist()


def batches(lengths: Sequence[int], most_tokens: int = BATCH_TOKENS) -> list[list[int]]:
    """Group sequences of these lengths into batches of at most `most_tokens` tokens with their padding.

    Sorted by length, so that little is padded; a sequence longer than that is a batch by itself. Depends on
    the lengths alone, so that both arms of a comparison batch alike.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        longest = lengths[groups[-1][0]] if groups else 0
        if groups and (len(groups[-1]) + 1) * longest <= most_tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
