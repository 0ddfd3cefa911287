"""Beliefs of the 9B shape on vLLM, of recorded timings of its kernels, for tests."""

from __future__ import annotations

from dataclasses import replace

from agent.proposers.port import CampaignView
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.physics import Physics
from agent.surrogate.timed_kernels import TimedKernels, refused_by
from configs.models import load_model_profile
from experiments.engines.kernel_timings import KERNEL, KernelTiming, KernelTimings
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from tests.recorded.kernel_timings import recorded
from tests.recorded.vllm_kernels import PROFILED, recorded_parts
from tests.unit.agent import campaigns

SPACE = load_space("vllm")
BASELINE = SPACE.configuration({})
PARTS = tuple(recorded_parts("bf16"))
BANDWIDTH = float(PROFILED["bf16"]["copy_bytes_per_s"])


def packed(kernel: str = "auto", **knobs: KnobValue) -> Configuration:
    told: dict[str, KnobValue] = {
        "quantization.method": "awq",
        "quantization.group_size": 128,
        KERNEL: kernel,
    }
    told |= {f"quantization.{name}": value for name, value in knobs.items()}
    return SPACE.configuration(told)


def physics(timings: KernelTimings | None) -> Physics:
    return Physics(
        baseline=BASELINE,
        tpot_ms=5.24,
        profile=PARTS,
        bandwidth_bytes_per_s=BANDWIDTH,
        shape=load_model_profile("qwen3.5-9b"),
        serves_packed=True,
        timed=None if timings is None else TimedKernels(timings),
    )


def beliefs(timings: KernelTimings | None) -> Beliefs:
    return Beliefs.learn(SPACE, physics(timings), (), Margins(), judges_quality=False)


def view(timings: KernelTimings | None, incumbent: Configuration = BASELINE) -> CampaignView:
    timed = None if timings is None else TimedKernels(timings)
    predict = beliefs(timings).predict
    plain = campaigns.view()
    return replace(
        plain,
        space=SPACE,
        baseline=BASELINE,
        incumbent=incumbent,
        trials=(),
        taken=frozenset(),
        profile=PARTS,
        bandwidth_bytes_per_s=BANDWIDTH,
        serves_packed=True,
        predict=predict,
        predict_on=predict,
        refused=refused_by(timed, plain.refused),
        timed=timed,
    )


def some_left(
    *parts: str, of_kernel: str = "marlin", timed: TimedKernels | None = None, **told: object
) -> TimedKernels:
    """The recorded timings, or those, of which a kernel's products of these parts were cut off, or are as
    `told`."""
    found = recorded() if timed is None else timed.timings

    def cut(timing: KernelTiming) -> KernelTiming:
        if timing.knobs[KERNEL] != of_kernel:
            return timing
        left = {"us": None, "untimed": "The limit was reached.", "left": True, **told}
        changed = (replace(each, **left) if each.part in parts else each for each in timing.parts)  # type: ignore[arg-type]
        return replace(timing, parts=tuple(changed))

    return TimedKernels(replace(found, packed=tuple(map(cut, found.packed))))


def only(timed: TimedKernels, *kernels: str) -> TimedKernels:
    """Of the timings those of these values alone."""
    kept = tuple(each for each in timed.timings.packed if each.knobs[KERNEL] in kernels)
    return TimedKernels(replace(timed.timings, packed=kept))
