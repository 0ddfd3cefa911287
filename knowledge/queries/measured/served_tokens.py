"""What a token took where it was served, beside the step that was profiled within the engine.

A profiled step is of kernels, one after the other. A token that comes over HTTP has more: the engine's
scheduler and the server's loop on the processor. Where these take less than the step they are hidden by it;
where they take longer, as on a busy machine with a fast step, they are what a token takes. So that difference
says whether a faster kernel can be felt. A processor may be slow at one time and fast at another, so a step
may also have been profiled at a worse time than its tokens were served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from configs.asked_over import ASKED_OVER, HTTP
from db.states import Arm
from experiments.measurement.evidence import Metric, Stage
from knowledge.queries.measured.launches_once import LaunchView
from knowledge.queries.measured.step_profile import StepProfileView
from knowledge.stored import number, workload_of

SAME = 0.01
"""Up to which share of the step a token counts as just as long."""


def served_tokens(
    step: StepProfileView, launches: Sequence[LaunchView], plan: Mapping[str, object], *, drafts: bool
) -> str | None:
    """How long a token took in the launches of the configuration that was profiled, in a sentence; pure.

    Of a test that is the candidate, of a baseline what its fresh launches had. None where a step gives more
    than one token, where several requests are under way, whose prompts are read in steps between, and where
    nothing was timed.
    """
    workload = workload_of(plan)
    if drafts or step.is_prompt or step.concurrency != 1 or number(workload.get("concurrency")) != 1:
        return None
    arm, stage = of_profiled(launches)
    times_ms = sorted(
        each.median
        for launch in launches
        if launch.arm is arm and stage in (None, launch.stage)
        for each in launch.spreads
        if each.metric == Metric.TPOT_MS.value
    )
    if not times_ms:
        return None
    by_http = workload.get(ASKED_OVER) == HTTP
    of = "one launch"
    if len(times_ms) > 1:
        of = f"median of {len(times_ms)} launches, {times_ms[0]:.2f} to {times_ms[-1]:.2f}"
    told = f"Served{' over HTTP' if by_http else ''} a token took {median(times_ms):.2f} ms ({of})"
    more_ms = median(times_ms) - step.step_ms
    if abs(more_ms) <= SAME * step.step_ms:
        kept_up = ": what the processor does meanwhile takes no longer" if by_http else ""
        return f"{told}, as long as this step{kept_up}."
    if more_ms < 0:
        return f"{told}, {-more_ms:.2f} less than this step{_slow_as_profiled(step, median(times_ms))}."
    why = ": the server, requests that were slower, or a processor that had not the next step ready"
    share = f"{100 * more_ms / step.step_ms:.0f} %"
    return f"{told}, {more_ms:.2f} more than this step ({share}){why if by_http else ''}."


def of_profiled(launches: Sequence[LaunchView]) -> tuple[Arm, str | None]:
    """The arm and the stage (None: any) of the launches whose configuration is the one that was profiled: a
    test's candidate, a baseline's fresh ones, for its sweep had others too."""
    if any(each.arm is Arm.CANDIDATE for each in launches):
        return Arm.CANDIDATE, None
    return Arm.CONTROL, Stage.NOISE.value


def _slow_as_profiled(step: StepProfileView, token_ms: float) -> str:
    """Why a token took less than the step of a GPU, where it had room for its kernels; else empty."""
    kernels_ms = step.step_ms - step.outside_kernels_ms
    if not step.outside_kernels_ms or token_ms < kernels_ms * (1 - SAME):
        return ""
    return (
        f", of which kernels take {kernels_ms:.2f}: the GPU waited longer for the processor as it was "
        "profiled than as tokens were served"
    )
