"""The rule of quantization: bytes of a step are what it saves, and the profile says where they are. Pure.

Where the engine computes with packed weights the claim is about the campaign's objective. Where it
dequantizes them as it loads, nothing gets faster: then the claim is about the bytes that a step reads or,
where a change only spends them, about the bits that text takes (if the campaign takes such claims).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from agent.proposers.idea import Idea, changed, enumerated, other_values
from agent.proposers.kernel_words import on_fastest_kernels, timed_words
from agent.proposers.of_objective import nothing_faster, of_arithmetic, of_first_tokens
from agent.proposers.port import CampaignView
from agent.proposers.profile_rule import head_words
from agent.proposers.step_profile import StepProfile
from agent.surrogate.weight_bytes import PROJECTION_KINDS
from db.labels import Noun, format_label
from experiments.engines.stored_bytes import bits_per_weight
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import KEEP
from experiments.space.moe_backend_rules import MOE_BACKEND

METHOD, LM_HEAD = "quantization.method", "quantization.lm_head"
KERNEL, CORPUS = "serving.linear_backend", "quantization.corpus"
GROUP_SIZE, BITS = "quantization.group_size", "quantization.bits"

KERNELS: Mapping[str, str] = {KERNEL: "kernel", MOE_BACKEND: "experts' kernel"}
"""The knobs of what multiplies packed weights, and what each chooses, in words."""

STARTS: tuple[Mapping[str, KnobValue], ...] = (
    {METHOD: "awq", GROUP_SIZE: 128},
    {METHOD: "awq", GROUP_SIZE: 32},
    {METHOD: "awq", GROUP_SIZE: 128, LM_HEAD: "quantized"},
    {METHOD: "rtn", GROUP_SIZE: 128, BITS: 8},
    {METHOD: "rtn", GROUP_SIZE: 128},
)
"""Where a model that is not quantized may start: what each of calibration, groups, head and bits is worth."""

WHY_OF_KNOB: Mapping[str, str] = {
    "quantization.method": "AWQ scales channels by what calibration text shows, plain rounding does not",
    "quantization.bits": "8 bits round almost without loss and take twice the bytes",
    "quantization.group_size": "smaller groups round closer to the weights and spend more bits on scales",
    "quantization.symmetric": "symmetric groups need no zero point, and fit skewed weights worse",
    "quantization.corpus": "AWQ protects the channels that its calibration text uses",
    "quantization.samples": "more calibration text makes the scales less a matter of chance",
    "quantization.sample_tokens": "longer samples show the state of the recurrence further in",
    "quantization.out_proj_bits": "no scaling protects linear_attn.out_proj, so that its rounding shows most",
    "quantization.lm_head": "the output head is read whole for every token",
    "quantization.keep": "few modules are so sensitive that their bytes are worth keeping",
}
"""What speaks for trying another value of each knob."""


def quantization(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """A first quantization in several ways, where kernels were timed alone also on the fastest of them; of a
    quantized incumbent every other value of its knobs."""
    where = f"{_bytes_of(step)}{head_words(view)}"
    if of_first_tokens(view) and view.serves_packed:
        where = (
            f"{of_arithmetic(view)}, and packed weights are unpacked for it: whether that takes longer is "
            "not known before it is measured. "
        )
    if view.incumbent.get(METHOD, "none") == "none":
        found = [candidate for knobs in STARTS if (candidate := _start(view, knobs)) is not None]
        if not found:  # a space of one's own, with other methods
            found = other_values(view, "quantization")
        ideas = [each for start in found for each in _begun(view, start, where)]
        return ideas + _on_other_kernels(view) + _with_other_corpora(view)
    ideas = []
    for knob in WHY_OF_KNOB:
        for value in enumerated(view, knob) if knob in view.incumbent else ():
            candidate = changed(view, {knob: value})
            if candidate is None or candidate.get(METHOD) == "none":
                continue
            sentence = f"{where}{WHY_OF_KNOB[knob][0].upper()}{WHY_OF_KNOB[knob][1:]}."
            ideas.append(_idea(view, candidate, sentence))
    return ideas


def _on_other_kernels(view: CampaignView) -> list[Idea]:
    """What was quantized and not found faster, on each other kernel: that it reads fewer bytes is certain,
    and what reads them decides. Nothing where the engine lets none be chosen, or computes with other
    weights."""
    ideas = []
    for trial in view.trials if view.serves_packed else ():
        slower = trial.effect_log is not None and trial.effect_log > math.log1p(-view.min_effect)
        tried = {knob: value for knob, value in trial.candidate.items() if knob.startswith("quantization.")}
        if not slower or not trial.on_objective or tried.get(METHOD, "none") == "none":
            continue
        for knob, value in ((each, value) for each in KERNELS for value in enumerated(view, each)):
            candidate = changed(view, {**tried, knob: value})
            if candidate is not None and value != trial.candidate.get(knob):
                now = f"{KERNELS[knob]} {trial.candidate.get(knob)}"
                differ = (
                    "which kernel reads a prompt fastest is not known"
                    if of_first_tokens(view)
                    else "fewer bytes are read all the same: kernels for packed weights reach very different "
                    "shares of the bandwidth"
                )
                why = timed_words(view, candidate) + (
                    f"{format_label(Noun.EXPERIMENT, trial.experiment_id)} found it not faster with the "
                    f"{now}, and {differ}, and {value} was not measured. {_bits_of(candidate)}"
                )
                ideas.append(_idea(view, candidate, why))
    return ideas


def _with_other_corpora(view: CampaignView) -> list[Idea]:
    """What was quantized and lost the quality, calibrated on each other corpus: what calibration protects is
    what its text uses. Nothing where the engine computes with other weights."""
    ideas = []
    for trial in view.trials if view.serves_packed else ():
        slow = trial.effect_log is not None and trial.effect_log > math.log1p(-view.min_effect)
        tried = {knob: value for knob, value in trial.candidate.items() if knob.startswith("quantization.")}
        if slow or trial.outcome is not Outcome.REFUTED or not trial.on_objective or CORPUS not in tried:
            continue
        for value in enumerated(view, CORPUS):
            candidate = changed(view, {**tried, CORPUS: value})
            if candidate is not None and value != tried[CORPUS]:
                why = (
                    f"{format_label(Noun.EXPERIMENT, trial.experiment_id)} lost the quality calibrated on "
                    f"{tried[CORPUS]}: AWQ protects the channels that its calibration text uses, and {value} "
                    f"was not measured. {_bits_of(candidate)}"
                )
                ideas.append(replace(_idea(view, candidate, why), parents=(trial.hypothesis_id,)))
    return ideas


def _start(view: CampaignView, knobs: Mapping[str, KnobValue]) -> Configuration | None:
    """The incumbent quantized so; where groups of this size do not suit all modules, with those kept with
    which they do."""
    first = changed(view, knobs)
    if first is None or view.refused(first) is None:
        return first
    for value in enumerated(view, KEEP):
        candidate = changed(view, {**knobs, KEEP: value})
        if candidate is not None and view.refused(candidate) is None:
            return candidate
    return first


def _begun(view: CampaignView, start: Configuration, where: str) -> Iterator[Idea]:
    """A first quantization on the kernels that took least with it, where they were timed, the next one right
    behind the fastest, and by the engine's own choice."""
    fastest: Configuration | None = None
    for candidate in on_fastest_kernels(view, start):
        yield replace(_first(view, candidate, where), behind=fastest)
        fastest = fastest or candidate
    yield _first(view, start, where)


def _first(view: CampaignView, candidate: Configuration, where: str) -> Idea:
    return _idea(view, candidate, f"{timed_words(view, candidate)}{where}{_bits_of(candidate)}")


def _idea(view: CampaignView, candidate: Configuration, why: str) -> Idea:
    if view.serves_packed:
        return Idea(candidate, why)
    why = f"{why} This engine dequantizes weights as it loads, so that {nothing_faster(view)}."
    if view.predict_on is None:
        return Idea(candidate, why)
    fewer = view.predict_on(view.incumbent, candidate, Metric.STEP_WEIGHT_BYTES).log_ratio_mean
    saves = fewer < math.log1p(-view.min_effect)
    return Idea(candidate, why, metric=Metric.STEP_WEIGHT_BYTES if saves else Metric.NLL_BITS)


def _bytes_of(step: StepProfile | None) -> str:
    """Where a step's bytes are, such as: A step reads 19.4 MB of weights, 85 % in projections …"""
    if step is None or not step.weight_bytes:
        return ""
    packed = sum(step.bytes_by_kind.get(kind, 0) for kind in PROJECTION_KINDS) / step.weight_bytes
    head = step.bytes_by_kind.get("lm_head", 0) / step.weight_bytes
    named = "projections and experts" if step.bytes_by_kind.get("experts") else "projections"
    return (
        f"A step reads {step.weight_bytes / 1e6:.1f} MB of weights, {100 * packed:.0f} % of them in "
        f"{named} and {100 * head:.0f} % in the output head. "
    )


def _bits_of(candidate: Configuration) -> str:
    bits, group = candidate.get(BITS), candidate.get(GROUP_SIZE)
    if not isinstance(bits, int) or not isinstance(group, int):
        return "Quantized weights take fewer of them."
    each = bits_per_weight(bits, group, candidate.get("quantization.symmetric") is True)
    head = ", the head included" if candidate.get(LM_HEAD) == "quantized" else ", the head left as it is"
    return f"At {bits} bits in groups of {group} a weight takes {each:.3f} bits with its scale{head}."
