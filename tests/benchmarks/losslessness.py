"""Drafting held against decoding without it, on all held-out prompts: one method at a time, in this process.

The greedy text of each prompt is written once without a draft, a token a step, for each target, type and
mode. A drafted text that is that text is lossless: each of its tokens is the greedy one after those before
it. Only where a text differs is the check that a launch does asked for (`drafting/check.py`), over all texts
of the method: it reads them teacher-forced and tells near-ties from divergences.

On every eighth prompt the text is also written without a draft right after the one with it, so that a
break-even length is a ratio of neighbours in time, whatever else the machine does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import DraftingCheck, GenerationRequest, GenerationTrace
from experiments.engines.reference.checkpoint import DTYPES, load_model
from experiments.engines.reference.drafting.check import check_drafting
from experiments.engines.reference.drafting.factory import decoder_for
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.drafting.speculation import Speculation
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
from experiments.measurement.content_prompts import content_prompts
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.stages.pruning.stage import DepthPruning

NEW_TOKENS = 16
"""Tokens written after each prompt: more would take ten methods longer than a quarter of an hour on two cores
that do nothing else."""

INSTRUCTIONS = 64
"""Instruction items. Held-out code and prose are used up; items are drawn without end, so this many."""

TIMED_EVERY = 8
"""On one prompt in so many the text is written without a draft right after, too."""

FEWER = 4
"""Methods on another target or with a compiled step are checked on one prompt in so many."""

LAYERS_REMOVED = 3
"""Layers that pay for the packaged DFlash drafter, as the campaign `levers` prunes."""

PRUNED = "pruned"
"""Stands for the folder of the pruned target, which differs from run to run, where that drafts for the whole
one: a real draft model, smaller and often wrong."""


@dataclass(frozen=True)
class Setting:
    """What the greedy text without a draft depends on: type, `serving.compile`, layers taken out."""

    dtype: str = "float32"
    mode: str = "off"
    layers_removed: int = 0

    @property
    def words(self) -> str:
        """What is unlike the packaged model in float32, run eagerly: `, bfloat16`."""
        parts = [
            "" if self.dtype == "float32" else self.dtype,
            "" if self.mode == "off" else self.mode,
            "" if not self.layers_removed else f"{self.layers_removed} layers pruned",
        ]
        return "".join(f", {part}" for part in parts if part)


@dataclass(frozen=True)
class Method:
    """A way to draft, in a setting; `every`: it is checked on one prompt in so many."""

    order: DraftingOrder
    setting: Setting = Setting()
    every: int = 1

    @property
    def name(self) -> str:
        """As in the table: `dflash k=7`."""
        by = f" ({LAYERS_REMOVED} layers fewer)" if self.order.drafter == PRUNED else ""
        return f"{self.order.method} k={self.order.draft_tokens}{by}{self.setting.words}"

    def order_in(self, folder: Path) -> DraftingOrder:
        """The order with the drafter's own folder."""
        if self.order.drafter != PRUNED:
            return self.order
        return replace(self.order, drafter=str(folder / _pruned(LAYERS_REMOVED)))


METHODS = (  # those that take longest first
    Method(DraftingOrder("mtp", 1), Setting(mode="cpp_wrapper"), FEWER),
    Method(DraftingOrder("draft_model", 3, PRUNED)),
    Method(DraftingOrder("draft_model", 3, "packaged"), every=FEWER),
    Method(DraftingOrder("mtp", 1), Setting("bfloat16")),
    Method(DraftingOrder("dflash", 1, "packaged")),
    Method(DraftingOrder("ngram", 3, "", 2)),
    *(Method(DraftingOrder("mtp", draft_tokens)) for draft_tokens in (1, 2, 3, 4)),
    Method(DraftingOrder("dflash", 3, "packaged")),
    Method(DraftingOrder("dflash", 7, "packaged")),
    Method(DraftingOrder("dflash", 3, "packaged"), Setting(layers_removed=LAYERS_REMOVED), FEWER),
)

Texts = Mapping[str, tuple[int, ...]]
"""The greedy text of each prompt without a draft, by item."""


@dataclass(frozen=True)
class Checked:
    """What became of one method: a check for each prompt; how many texts are the one without a draft; ms of a
    mean step by prompt; and pairs of ms of a step with its draft and of one without, of the same prompt."""

    method: Method
    checks: tuple[DraftingCheck, ...]
    same: int
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


def prepare_targets(folder: Path) -> None:
    """Write the pruned target below `folder`, where `plain_texts` and `check_method` look for it."""
    configuration = Configuration.of(
        {
            "pruning.method": "depth",
            "pruning.layers_removed": LAYERS_REMOVED,
            "pruning.criterion": "block_influence",
            "pruning.restrict": "any",
        }
    )
    DepthPruning().build(configuration, reference_model_path(), folder / _pruned(LAYERS_REMOVED))


def every(requests: Sequence[GenerationRequest], step: int) -> Sequence[GenerationRequest]:
    """One request in `step`, of every class of content."""
    return requests[::step]


def plain_texts(setting: Setting, requests: Sequence[GenerationRequest], folder: Path) -> Texts:
    """The greedy texts without a draft; one thread."""
    model, files = _loaded(setting, folder)
    plain, _ = decoder_for(model, files, setting.mode, folder / "compiled", DraftingOrder())
    return {each.item: tuple(plain.generate(each).token_ids) for each in requests}


def check_method(
    method: Method, requests: Sequence[GenerationRequest], texts: Texts, folder: Path
) -> Checked:
    """Check one method; one thread. Raises `Infeasible` as `check_drafting`."""
    setting = method.setting
    model, files = _loaded(setting, folder)
    plain, _ = decoder_for(model, files, setting.mode, folder / "compiled", DraftingOrder())
    _, speculation = decoder_for(model, files, setting.mode, folder / "compiled", method.order_in(folder))
    assert speculation is not None
    for decodes in (plain, speculation):
        decodes.generate(requests[0])  # the first one loads what later ones find loaded
    written = _Written(speculation)
    pairs_ms = []
    for number, request in enumerate(requests):
        written.generate(request)
        if number % TIMED_EVERY == 0:
            pairs_ms.append((written.step_ms[request.item], plain.generate(request).tpot_ms))
    differing = [each for each in requests if written.traces[each.item].token_ids != texts[each.item]]
    checks = (
        check_drafting(written, requests)
        if differing
        else [_same(request, written.traces[request.item]) for request in requests]
    )
    step_ms = tuple(written.step_ms.values())
    return Checked(method, tuple(checks), len(requests) - len(differing), step_ms, tuple(pairs_ms))


def _same(request: GenerationRequest, trace: GenerationTrace) -> DraftingCheck:
    """The check of a text that is the one without a draft."""
    return DraftingCheck(request.item, trace.step_tokens, len(trace.token_ids) - 1, 0, 0, 0.0, 0)


def _pruned(layers: int) -> str:
    return f"pruned-{layers}"


def _loaded(setting: Setting, folder: Path) -> tuple[Qwen3_5ForCausalLM, CheckpointFiles]:
    torch.set_num_threads(1)
    removed = setting.layers_removed
    files = inspect_checkpoint(folder / _pruned(removed) if removed else reference_model_path())
    return load_model(files, DTYPES[setting.dtype], torch.device("cpu")), files


class _Written(Speculation):
    """Writes each text once, and keeps it and how long its steps took."""

    def __init__(self, speculation: Speculation) -> None:
        super().__init__(speculation.decoder, speculation.drafter, speculation.order)
        self.traces: dict[str, GenerationTrace] = {}
        self.step_ms: dict[str, float] = {}

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        if request.item not in self.traces:
            trace = super().generate(request)
            took_s = trace.token_times_s[-1] - trace.token_times_s[0]
            self.traces[request.item] = trace
            self.step_ms[request.item] = 1e3 * took_s / len(trace.step_tokens)
        return self.traces[request.item]
