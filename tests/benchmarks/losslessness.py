"""Drafting held against decoding without it, on all held-out prompts: one method at a time, in this process.

Every text is made with the draft and checked teacher-forced without one (`drafting/check.py`). On every
eighth prompt the same text is made without a draft too, right after, so that a break-even length is a ratio
of neighbours in time, whatever else the machine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from experiments.engines.port import DraftingCheck, GenerationRequest, GenerationTrace
from experiments.engines.reference.checkpoint import DTYPES, load_model
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.check import check_drafting
from experiments.engines.reference.drafting.factory import decoder_for
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.drafting.speculation import Speculation
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.measurement.content_prompts import content_prompts
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path

NEW_TOKENS = 16
"""Tokens written after each prompt: more would take ten methods longer than a quarter of an hour on two cores
that do nothing else."""

INSTRUCTIONS = 64
"""Instruction items. Held-out code and prose are used up; items are drawn without end, so this many."""

TIMED_EVERY = 8
"""On one prompt in so many the text is made without a draft too."""

MODE = "off"
"""`serving.compile`: compiling ten steps would take longer than checking them."""


@dataclass(frozen=True)
class Method:
    """A way to draft, and the type the model is served in."""

    order: DraftingOrder
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """As in the table: `dflash k=7`."""
        precision = "" if self.dtype == "float32" else f", {self.dtype}"
        return f"{self.order.method} k={self.order.draft_tokens}{precision}"


METHODS = (  # those that take longest first
    Method(DraftingOrder("draft_model", 3, "packaged")),
    Method(DraftingOrder("mtp", 1), "bfloat16"),
    Method(DraftingOrder("dflash", 1, "packaged")),
    Method(DraftingOrder("ngram", 3, "", 2)),
    *(Method(DraftingOrder("mtp", draft_tokens)) for draft_tokens in (1, 2, 3, 4)),
    Method(DraftingOrder("dflash", 3, "packaged")),
    Method(DraftingOrder("dflash", 7, "packaged")),
)


@dataclass(frozen=True)
class Checked:
    """What became of one method: a check for each prompt; ms of a mean step by prompt; and pairs of ms of a
    step with its draft and of one without, of the same prompt."""

    method: Method
    checks: tuple[DraftingCheck, ...]
    step_ms: tuple[float, ...]
    pairs_ms: tuple[tuple[float, float], ...]

    @property
    def divergences(self) -> int:
        """Tokens that are not the greedy ones and no near-ties."""
        return sum(check.divergences for check in self.checks)


def held_out_prompts() -> list[GenerationRequest]:
    """Every beginning of held-out code and prose, and the first instruction items."""
    every = Workload(drafting_prompts=10_000, drafting_new_tokens=NEW_TOKENS)
    some = every.model_copy(update={"drafting_prompts": INSTRUCTIONS})
    tokenizer = load_tokenizer(reference_model_path())
    texts = [each for each in content_prompts(tokenizer, every) if not each.item.startswith("instruct:")]
    return texts + [each for each in content_prompts(tokenizer, some) if each.item.startswith("instruct:")]


def check_method(method: Method, requests: Sequence[GenerationRequest]) -> Checked:
    """Check one method on the packaged models; one thread. Raises `Infeasible` as `check_drafting`."""
    torch.set_num_threads(1)
    files = inspect_checkpoint(reference_model_path())
    model = load_model(files, DTYPES[method.dtype], torch.device("cpu"))
    plain, _ = decoder_for(model, files, MODE, Path("unused"), DraftingOrder())
    _, speculation = decoder_for(model, files, MODE, Path("unused"), method.order)
    assert speculation is not None
    for decodes in (plain, speculation):
        decodes.generate(requests[0])  # the first one loads what later ones find loaded
    timed = _Timed(speculation, plain)
    checks = check_drafting(timed, requests)
    return Checked(method, tuple(checks), tuple(timed.step_ms), tuple(timed.pairs_ms))


class _Timed(Speculation):
    """Keeps how long a step took, text by text, and on some texts how long one without a draft does."""

    def __init__(self, speculation: Speculation, plain: Decoder) -> None:
        super().__init__(speculation.decoder, speculation.drafter, speculation.order)
        self.plain = plain
        self.step_ms: list[float] = []
        self.pairs_ms: list[tuple[float, float]] = []

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        trace = super().generate(request)
        took_s = trace.token_times_s[-1] - trace.token_times_s[0]
        self.step_ms.append(1e3 * took_s / len(trace.step_tokens))
        if len(self.step_ms) % TIMED_EVERY == 1:
            self.pairs_ms.append((self.step_ms[-1], self.plain.generate(request).tpot_ms))
        return trace
