"""What levers that act on a whole step do to TPOT: pruning, compiling, number formats, drafting. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.surrogate.acceptance import AcceptanceBelief
from agent.surrogate.drafting import (
    COST_SD_SHARE,
    HOST_SD_SHARE,
    METHOD,
    DraftingCost,
    acceptance_length,
    drafts,
)
from agent.surrogate.expectation import LEAST_SD_LOG, UNKNOWN_SD_LOG, Expectation
from agent.surrogate.levers import Target
from experiments.space.configuration import Configuration, KnobValue

BITS_OF = {"float32": 32.0, "bfloat16": 16.0, "float16": 16.0, "fp8": 8.0, "int8": 8.0, "int4": 4.0}
"""Bits of a weight in the number formats that a knob may name."""

COMPILE_SHARE_REMOVED: Mapping[str, float] = {"default": 0.5, "cpp_wrapper": 0.65}
"""Share of the overhead that compiling the step is expected to remove, by mode: Python and dispatch go, the
kernels' own time stays. On the reference engine `default` removed 0.42 to 0.6 of the whole step and
`cpp_wrapper` 0.63 to 0.72, on two machines of two cores."""

COMPILE_SHARE_REMOVED_OTHERWISE = 0.4
"""The same for a mode or an engine that is not known; judgement."""

COMPILE_SHARE_SD = 0.2
"""Its standard deviation."""

DTYPE_SD_LOG = 0.35
"""A narrower format without hardware support may cost as much as it saves (bfloat16 on a CPU)."""

DRAFTING_SD_LOG = 0.1
"""What the arithmetic of drafting leaves out: which positions are accepted, and what a drafter costs besides
its tokens."""

PRUNING_SD_SHARE = 0.5
"""Standard deviation of a pruned layer's saving, as a share of it: layers overlap with nothing at batch 1,
but which of them go is not known here, and hooks that time them are not exact."""

MOST_REMOVED = 0.95
"""No change is expected to remove a larger share of the step than this."""


def of_pruning(
    knobs: Mapping[str, KnobValue | None], shares: Mapping[int, float], model_layers: Sequence[str]
) -> Expectation:
    """What layers that go take along: `shares` of the step by layer, of the kinds `model_layers`."""
    removed = knobs.get("pruning.layers_removed")
    count = removed if isinstance(removed, int) else 1
    kind = str(knobs.get("pruning.restrict") or "any")
    chosen = [share for number, share in shares.items() if _may_go(number, kind, model_layers)] or list(
        shares.values()
    )
    if not chosen:
        return Expectation(0.0, UNKNOWN_SD_LOG)
    saved = min(MOST_REMOVED, count * math.fsum(chosen) / len(chosen))
    mean = math.log1p(-saved)
    return Expectation(mean, max(LEAST_SD_LOG, PRUNING_SD_SHARE * abs(mean)))


def of_compiling(knobs: Mapping[str, KnobValue | None], overhead: float) -> Expectation:
    """What compiling the step removes of its `overhead`, a share of the step."""
    removed = COMPILE_SHARE_REMOVED.get(str(knobs.get("serving.compile")), COMPILE_SHARE_REMOVED_OTHERWISE)
    mean = math.log1p(-min(MOST_REMOVED, removed * overhead))
    # to first order: d log(1 − s·o) = −o·ds / (1 − s·o)
    spread = overhead * COMPILE_SHARE_SD / (1 - removed * overhead)
    return Expectation(mean, max(LEAST_SD_LOG, spread))


def of_dtype(knobs: Mapping[str, KnobValue | None], baseline: Configuration, floor: float) -> Expectation:
    """What another number format does to the `floor`, the share of the step that bytes explain."""
    for knob, value in knobs.items():
        now, then = BITS_OF.get(str(baseline.get(knob))), BITS_OF.get(str(value))
        if now and then:
            return Expectation(math.log(1 - floor + floor * then / now), DTYPE_SD_LOG)
    return Expectation(0.0, DTYPE_SD_LOG)


def of_drafting(
    knobs: Mapping[str, KnobValue | None],
    target: Target,
    baseline: Configuration,
    acceptance: AcceptanceBelief,
    drafting_cost: DraftingCost,
) -> Expectation:
    """What drafting does for a target whose weights were changed so, as far as the setting is a drafter's."""
    drafting = drafts({METHOD: baseline.get(METHOD), **knobs})
    if drafting is None:
        return Expectation(0.0, UNKNOWN_SD_LOG)
    method, tokens = drafting
    accepted = acceptance.of(method, target)
    cost = drafting_cost.step(method, tokens)
    mean = math.log(cost) - math.log(acceptance_length(accepted.mean, tokens))
    # One unknown each, whatever the number of tokens: a token more in the pass, one of this drafter, what
    # the processor does for it, and how many are accepted. They enter by how much the step depends on
    # them at so many tokens.
    growth, draft = drafting_cost.growth_of(tokens), drafting_cost.draft(method, tokens)
    host = drafting_cost.host(method, tokens)
    open_ = {
        "growth of a pass": COST_SD_SHARE * growth / cost,
        f"draft of {method}": COST_SD_SHARE * draft / cost,
        f"host work of drafting by {method}": HOST_SD_SHARE * host / cost,
        f"acceptance of {method}": -_length_sd_log(accepted.mean, accepted.sd, tokens),
    }
    if target:
        here = _length_sd_log(accepted.mean, accepted.target_sd, tokens)
        open_[f"acceptance of {method} on {target!r}"] = -here
    return Expectation(mean, DRAFTING_SD_LOG, open_)


def _may_go(layer: int, restrict: str, model_layers: Sequence[str]) -> bool:
    if restrict == "any" or layer >= len(model_layers):
        return restrict == "any"
    linear = any(word in model_layers[layer] for word in ("linear", "gdn"))
    return linear == (restrict == "gdn")


def _length_sd_log(acceptance: float, sd: float, tokens: int) -> float:
    """Standard deviation of the log of the acceptance length, from that of the first token's acceptance."""
    high, low = (acceptance_length(min(1.0, max(0.0, acceptance + side * sd)), tokens) for side in (1, -1))
    return (math.log(high) - math.log(low)) / 2
