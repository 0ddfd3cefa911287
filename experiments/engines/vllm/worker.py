"""What is added to vLLM's worker (`worker_extension_cls`): it tells what runs, and scores logits in place.

Methods are called by name from the driver and answer with plain data; a refusal is an answer too, since
vLLM's calls carry no exception's kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import torch
from torch import Tensor

from experiments.engines.messages import infeasible_data
from experiments.engines.port import Infeasible
from experiments.engines.reference.references import ReferenceReader, ReferenceWriter, kl_rows, same_best
from experiments.engines.vllm.describe import described
from experiments.engines.vllm.device_rates import copy_bandwidth, product_rate
from experiments.engines.vllm.kernel_trace import KernelTrace
from experiments.engines.vllm.served_weights import read_by_step
from experiments.engines.vllm.tap import DRAFT_NOTHING, DRAFT_TEXT, LogitTap

SLICE_BYTES = 64 * 2**20
"""Most bytes of float32 log-probabilities at once."""

P = ParamSpec("P")


def _answers(method: Callable[P, Any]) -> Callable[P, dict[str, Any]]:
    @wraps(method)
    def answered(*arguments: P.args, **named: P.kwargs) -> dict[str, Any]:
        try:
            return {"ok": method(*arguments, **named)}
        except Infeasible as refusal:
            return infeasible_data(refusal)
        except LookupError as missing:
            return infeasible_data(Infeasible("unsupported", f"vLLM's logits can't be read: {missing}."))

    return answered


class EngineProbe:
    """Mixed into vLLM's worker; `self` is that worker."""

    @_answers
    def autoinfer_describe(self) -> Any:
        """The resolved configuration."""
        return described(self)

    @_answers
    def autoinfer_open_references(
        self, reference: str | None, write_reference: str | None, rows: dict[str, int]
    ) -> Any:
        """Compare with `reference` from now on, and write `write_reference`."""
        scoring = _Scoring(self)
        vocabulary = scoring.vocabulary
        if reference is not None:
            scoring.reader = ReferenceReader(Path(reference), vocabulary)
        if write_reference is not None:
            scoring.writer = ReferenceWriter(Path(write_reference), vocabulary, rows)
            scoring.writer.__enter__()
        self.__dict__["_autoinfer_scoring"] = scoring

    @_answers
    def autoinfer_close_references(self, whole: bool) -> Any:
        """End scoring; what was written is kept if it is `whole`."""
        scoring: _Scoring = self.__dict__.pop("_autoinfer_scoring")
        scoring.tap.remove()
        if scoring.writer is not None:
            failure = None if whole else RuntimeError
            scoring.writer.__exit__(failure, None, None)

    @_answers
    def autoinfer_listen(self) -> Any:
        """Keep the logits of the request that comes next, and no longer those of the one before."""
        _scoring(self).listen()

    @_answers
    def autoinfer_heard(self, item: str | None, targets: Sequence[int], first: int) -> Any:
        """Score the prompt that was listened to: its tokens from `first` + 1 on, which are `targets`.

        Gives the nats of each target together, KL and agreement with the reference (None without one), and
        the most probable tokens. The document `item` is compared and written; None is an instruction item.
        """
        scoring = _scoring(self)
        logits = scoring.tap.prompt_rows(first + len(targets))[first:]
        scoring.tap.remove()
        return scoring.score(item, 0, logits, targets, keep=True)

    @_answers
    def autoinfer_read_along(self, text: Sequence[int], drafts: str, draft_tokens: int) -> Any:
        """Make the next request say `text`; see `tap.py`."""
        scoring = self.__dict__.get("_autoinfer_scoring") or _Scoring(self)
        self.__dict__["_autoinfer_scoring"] = scoring
        scoring.tap.remove()
        scoring.tap = LogitTap(self.model_runner, draft_tokens)  # type: ignore[attr-defined]
        scoring.tap.read_along(tuple(text), drafts)
        scoring.drafts = drafts

    @_answers
    def autoinfer_read(self, item: str, first: int, targets: Sequence[int]) -> Any:
        """Score the tokens of the text that was read along from place `first` on, which are `targets`."""
        scoring = _scoring(self)
        scoring.tap.remove()
        logits = scoring.tap.read_rows(first, first + len(targets))
        return scoring.score(item, first - 1, logits, targets, keep=False)

    @_answers
    def autoinfer_keep_read(self, first: int, last: int) -> Any:
        """Keep the logits that chose tokens `first` … `last` − 1 of the text, by what was
        drafted meanwhile."""
        scoring = _scoring(self)
        scoring.tap.remove()
        scoring.readings[scoring.drafts] = scoring.tap.read_rows(first, last).float()

    @_answers
    def autoinfer_compare_readings(self, said: Sequence[int]) -> Any:
        """What the text chose against the greedy choice without drafting, and what k + 1 tokens at once
        change: for each token whether it is another, its shortfall, the change of the gap of the two
        best, whether the choice turned."""
        readings = _scoring(self).readings
        alone, together = readings[DRAFT_NOTHING], readings[DRAFT_TEXT]
        chosen = torch.tensor(list(said), device=alone.device)
        best = alone.argmax(-1)
        top, ids = alone.topk(2, dim=-1)
        there = together.gather(-1, ids)
        changes = ((top[:, 0] - top[:, 1]) - (there[:, 0] - there[:, 1])).abs()
        return {
            "other": (chosen != best).tolist(),
            "shortfalls": (top[:, 0] - alone.gather(-1, chosen[:, None])[:, 0]).tolist(),
            "gap_changes": changes.tolist(),
            "flipped": (together.argmax(-1) != best).tolist(),
        }

    @_answers
    def autoinfer_trace(self, on: bool) -> Any:
        """Record kernels from now on, or stop and give the trace (`kernel_steps.py`)."""
        if on:
            trace = self.__dict__["_autoinfer_trace"] = KernelTrace(self.model_runner)  # type: ignore[attr-defined]
            trace.start()
            return None
        return self.__dict__.pop("_autoinfer_trace").stop()

    @_answers
    def autoinfer_read_by_step(self, draft_tokens: int, draft_passes: int) -> Any:
        """What a step reads, by part (`served_weights.py`), and how fast the GPU copies and multiplies."""
        read = read_by_step(self.model_runner, draft_tokens, draft_passes)  # type: ignore[attr-defined]
        return {**read, "bandwidth": copy_bandwidth(), "products": product_rate()}


class _Scoring:
    """What lasts while documents are scored."""

    def __init__(self, worker: Any) -> None:
        self.vocabulary = int(worker.vllm_config.model_config.get_vocab_size())
        self.tap = LogitTap(worker.model_runner, 0)
        self.reader: ReferenceReader | None = None
        self.writer: ReferenceWriter | None = None
        self.drafts = DRAFT_NOTHING
        self.readings: dict[str, Tensor] = {}
        self._own: tuple[str, Tensor] | None = None

    def listen(self) -> None:
        """Keep the logits of the request that comes next. A document's own are let go, so that those of two
        never take memory at once: a later reading of a document follows its scoring."""
        self._own = None
        self.tap.listen()

    def score(
        self, item: str | None, offset: int, logits: Tensor, targets: Sequence[int], *, keep: bool
    ) -> dict[str, Any]:
        """Score rows that predict `targets`; `offset` is the first row's place in the document. With `keep`
        they are written as the reference, and kept: without a reference a later reading of the same
        document is compared with them."""
        wanted = torch.tensor(list(targets), device=logits.device)
        step = max(1, SLICE_BYTES // (4 * self.vocabulary))
        nll_nats, kl, agreements, best = 0.0, [], [], []
        compared = (
            item is not None and self.reader is not None and self.reader.holds(item, offset + len(wanted))
        )
        for first in range(0, len(logits), step):
            log_probs = torch.log_softmax(logits[first : first + step].float(), dim=-1)
            here = wanted[first : first + len(log_probs)]
            nll_nats -= float(log_probs.gather(-1, here[:, None]).double().sum())
            best += log_probs.argmax(-1).tolist()
            if item is not None and keep and self.writer is not None:
                self.writer.write(item, offset + first, log_probs)
            if compared and self.reader is not None and item is not None:
                divergence, same = self.reader.compare(item, offset + first, log_probs)
                kl += divergence.tolist()
                agreements += same.float().tolist()
            elif item is not None and not keep and self._own is not None and self._own[0] == item:
                own = self._own[1][offset + first : offset + first + len(log_probs)].float()
                divergence = kl_rows(torch.log_softmax(own, dim=-1), log_probs)
                kl += divergence.tolist()
                agreements += same_best(own, log_probs).float().tolist()
        if item is not None and keep:
            self._own = (item, logits)
        return {
            "nll_nats": nll_nats,
            "kl_nats": sum(kl) / len(kl) if kl else None,
            "top1_agreement": sum(agreements) / len(agreements) if agreements else None,
            "best": best,
        }


def _scoring(worker: Any) -> _Scoring:
    found: _Scoring = worker.__dict__["_autoinfer_scoring"]
    return found
