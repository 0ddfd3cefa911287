"""What a drafting step costs and what it must accept to pay, in units of a plain decode step. Pure.

A drafting step drafts k tokens, verifies them with the last known one in a single pass, and gives between 1
and k + 1 tokens, on average the acceptance length AL. With the cost c of such a step over a plain one,

    speed-up = AL / c,   c = 1 + k · growth + draft(k) + host(k)

`growth` is the share by which a pass grows with one token more: the recurrence of GatedDeltaNet layers runs
once more, matrix products read the same weights, at no cost in bytes, but not in arithmetic. It is derived
from the baseline's profile by part. In a Mixture of Experts each token more has further experts read, which
the model's shape tells (`read`). `host(k)` is what the processor does more than for a plain step, where a
profile by kernels tells how much of the step waits for it. So AL must exceed c to break even.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.engines.port import PartTime
from experiments.space.configuration import KnobValue

METHOD, TOKENS, NONE = "drafting.method", "drafting.draft_tokens", "none"

GROWTH_BY_KIND: Mapping[str, float] = {
    "gdn": 0.5,
    "attention": 0.2,
    "mlp": 0.15,
    "lm_head": 0.15,
    "sampling": 0.1,
    "gdn_state": 0.5,
    "gemm": 0.02,
    "experts": 0.02,
}
"""Share by which a part's time grows with one token more in the pass, by kind of part; judgement: projections
read their weights once, the recurrence goes token by token. `gemm`, `experts` and `gdn_state` are kernels
of a GPU; further experts that a token more has read come beside."""

KERNELS_OUTSIDE = "outside"
"""The kind of part that a profile by kernels has, and no other."""

NOT_OF_LAYERS = ("lm_head", "sampling", "draft", KERNELS_OUTSIDE)
"""Kinds of parts of a profile by kernels that are not of the layers, which it does not tell apart."""

GROWTH_OTHERWISE = 0.05
"""The same for norms, rotary tables and what lies between the parts: mostly dispatch, which stays."""

GROWTH_UNKNOWN = 0.2
"""Growth of a whole step whose parts are not known, such as a compiled one."""

COST_SD_SHARE = 0.5
"""Standard deviation of what drafting adds to a step, as a share of it."""

MTP_SHARE_UNKNOWN = 0.12
"""Time of the MTP head for one token over a step's, where no profile tells: a layer of a dozen, and the
output head."""

MTP_LAYERS = 1.25
"""Attention layers that the MTP head is worth: one layer, and the projection that fuses its two inputs."""

NGRAM_SHARE = 0.01
"""A look-up in the text so far, over a step."""

DRAFT_MODEL_SHARE = 0.25
"""One token of a smaller model over a step of the target."""

DFLASH_SHARE = 0.3
"""One pass of a block-diffusion drafter over a step: a few layers, for the whole block at once."""

HOST_SHARE = 1.0
"""What drafting its first token adds to the time outside kernels, as a share of it: what the processor does
for a plain step once more, as a drafter is launched, its drafts are compared, and what stood is told before
the next step is planned. Judgement: with the packaged model on an H200, whose step is all but launches, it
was about 0.4 without graphs (by MTP and by DFlash, docs/results/vllm-serving.md) and 2.4 with them (by MTP,
1.67 and 5.67 ms outside kernels in the profiles of E-0001 and E-0023 of docs/results/h200-levers-whole.md,
beside other jobs); with Qwen3.5-4B's shape 0.9, and with 9B's, whose kernels hide what the processor does,
nothing (docs/results/h200-4b.md, h200-9b.md)."""

HOST_TOKEN_SHARE = 0.3
"""The same of each token more, over the first one's, for a method that drafts them one by one: the drafter is
launched again, and nothing else. Judgement: 0.1 with graphs and 0.5 without, in the same places."""

HOST_SD_SHARE = 1.0
"""Standard deviation of both, as a share of them: it may be next to nothing, or twice as much and more."""

ONE_BY_ONE = ("mtp", "draft_model")
"""Methods that launch their drafter once for each token; others draft all tokens at once."""

ACCEPTANCE_DECAY = 0.9
"""Factor by which acceptance falls from one draft position to the next: later ones build on guesses."""

HALVINGS = 40
"""Steps of the bisection that inverts the acceptance length: 2⁻⁴⁰ is below anything measured."""

_LAYER = re.compile(r"layers\.(\d+)(?:\.|$)")


@dataclass(frozen=True)
class DraftingCost:
    """Costs in units of a plain decode step: one token more in a verification, one token of the MTP head, and
    what of the step lies outside kernels; 0 where no profile tells. `read`: what reading the further experts
    takes that 1, 2, … drafts are sent to; empty of a dense model."""

    growth: float
    mtp_token: float
    outside: float = 0.0
    read: tuple[float, ...] = ()

    @classmethod
    def of(cls, profile: Sequence[PartTime], model_layers: Sequence[str] = ()) -> DraftingCost:
        """The costs that a profile by part tells of; assumed ones where it has no parts."""
        total = math.fsum(part.time_ms for part in profile)
        layered = [part for part in profile if _LAYER.match(part.part)]
        by_kernels = bool(model_layers) and any(part.kind == KERNELS_OUTSIDE for part in profile)
        if total <= 0 or not (layered or by_kernels):
            return cls(GROWTH_UNKNOWN, MTP_SHARE_UNKNOWN)
        growth = math.fsum(part.time_ms * GROWTH_BY_KIND.get(part.kind, GROWTH_OTHERWISE) for part in profile)
        layer = (
            _attention_layer_ms(layered, model_layers)
            if layered
            else math.fsum(part.time_ms for part in profile if part.kind not in NOT_OF_LAYERS)
            / len(model_layers)
        )
        head = math.fsum(part.time_ms for part in profile if part.kind in ("lm_head", "sampling"))
        outside = math.fsum(part.time_ms for part in profile if part.kind == KERNELS_OUTSIDE)
        return cls(growth / total, (MTP_LAYERS * layer + head) / total, outside / total)

    def growth_of(self, tokens: int) -> float:
        """By how much the verifying pass is longer than a plain step."""
        read = self.read[min(tokens, len(self.read)) - 1] if self.read and tokens else 0.0
        return tokens * self.growth + read

    def draft(self, method: str, tokens: int) -> float:
        """What drafting so many tokens costs; 0 for a method that is not known here."""
        return {
            "mtp": tokens * self.mtp_token,
            "ngram": NGRAM_SHARE,
            "draft_model": tokens * DRAFT_MODEL_SHARE,
            "dflash": DFLASH_SHARE,
        }.get(method, 0.0)

    def host(self, method: str, tokens: int) -> float:
        """What the processor does for drafting so many tokens while no kernel runs."""
        later = tokens - 1 if method in ONE_BY_ONE else 0
        return HOST_SHARE * self.outside * (1.0 + HOST_TOKEN_SHARE * later)

    def step(self, method: str, tokens: int) -> float:
        """A whole drafting step; also the acceptance length at which it breaks even."""
        return 1.0 + self.growth_of(tokens) + self.draft(method, tokens) + self.host(method, tokens)

    def break_even_acceptance(self, method: str, tokens: int) -> float | None:
        """Acceptance of the first draft token from which on it pays; None where even all would not."""
        needed = self.step(method, tokens)
        return None if needed > acceptance_length(1.0, tokens) else first_acceptance(needed, tokens)


def acceptance_length(first: float, tokens: int) -> float:
    """Mean tokens a step when the first draft token is accepted with probability `first`, the i-th, given the
    ones before, with that times `ACCEPTANCE_DECAY` to the power i − 1."""
    length, running = 1.0, 1.0
    for position in range(tokens):
        running *= first * ACCEPTANCE_DECAY**position
        length += running
    return length


def first_acceptance(length: float, tokens: int) -> float:
    """The acceptance of the first token that gives this acceptance length; 0 or 1 beyond what can be."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if acceptance_length(middle, tokens) < length else (low, middle)
    return (low + high) / 2


def drafts(knobs: Mapping[str, KnobValue | None]) -> tuple[str, int] | None:
    """Method and number of draft tokens of a setting or configuration; None when it does not draft."""
    method, tokens = knobs.get(METHOD), knobs.get(TOKENS, 1)
    if method in (None, NONE) or isinstance(tokens, bool) or not isinstance(tokens, int):
        return None
    return str(method), tokens


def _attention_layer_ms(layered: Sequence[PartTime], model_layers: Sequence[str]) -> float:
    """Mean time of one attention layer; of any layer where there is none."""
    by_layer: dict[int, float] = {}
    for part in layered:
        found = _LAYER.match(part.part)
        assert found is not None
        by_layer[int(found[1])] = by_layer.get(int(found[1]), 0.0) + part.time_ms
    attention = [
        time_ms
        for layer, time_ms in by_layer.items()
        if layer < len(model_layers) and model_layers[layer] == "full_attention"
    ]
    chosen = attention or list(by_layer.values())
    return math.fsum(chosen) / len(chosen)
