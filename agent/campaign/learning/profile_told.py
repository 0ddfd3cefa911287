"""What the running log says of the baseline's profile: of the time that the campaign is after. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.measurement.evidence import Metric
from knowledge.figures import number
from knowledge.queries.measured.step_profile import StepProfileView


def profile_told(
    by_kind_ms: Mapping[str, float], prompt: StepProfileView | None, own: Metric, no_prompt: str | None = None
) -> str:
    """The sentence: in a campaign whose `own` metric is TTFT, of a lone prompt up to its first token; in
    others of a decode step by kind of part, its largest first, with the prompt after it.

    `no_prompt` is why no prompt was profiled, said where it would have been what is told. Empty where nothing
    was profiled.
    """
    first_token = None if prompt is None else _first_token(prompt)
    if own is Metric.TTFT_MS and first_token is not None:
        return first_token
    told = [_step(by_kind_ms)] if by_kind_ms else []
    if first_token is not None:
        told.append(first_token)
    elif own is Metric.TTFT_MS and no_prompt is not None:
        told.append(f"A lone prompt was not profiled: {no_prompt.rstrip('.')}")
    return ". ".join(told)


def _step(by_kind_ms: Mapping[str, float]) -> str:
    total_ms = sum(by_kind_ms.values())
    shares = sorted(by_kind_ms.items(), key=lambda each: -each[1])
    told = ", ".join(f"{kind} {100 * time_ms / total_ms:.0f} %" for kind, time_ms in shares)
    return f"A decode step of {total_ms:.2f} ms: {told}"


def _first_token(prompt: StepProfileView) -> str:
    length = "" if prompt.prompt_tokens is None else f" of {prompt.prompt_tokens:,} tokens"
    share = 100 * prompt.outside_ms / prompt.step_ms if prompt.step_ms else 0.0
    floor = "" if prompt.floor_ms is None else f"; its floor by physics is {number(prompt.floor_ms)} ms"
    return (
        f"To the first token of a lone prompt{length} {prompt.step_ms:.1f} ms, of which no kernel runs in "
        f"{share:.0f} %{floor}"
    )
