"""Times vLLM's kernels for packed weights alone, as a campaign's baseline does first, and nothing else.

    python tests/device/kernel_timings.py --out DIR --device cuda:0
    python tests/device/kernel_timings.py --out DIR --device cpu --shape reference --formats 1

Writes `DIR/timings.json` (raw times too) and `DIR/log`, prints what each kernel took, and for the shape of
9B holds it against what the same products took in profiled steps of an H200 (docs/results/h200-9b.md): where
times alone and in a step differ by more than `TIMED_SD_LOG` says, that constant is wrong.
`AUTOINFER_VLLM_PYTHON` names vLLM's Python (docs/vllm.md).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent.ground.timed_kernels import timed_kernels
from agent.surrogate.timed_kernels import TIMED_SD_LOG
from configs.errors import UsageError
from configs.models import load_model_profile
from experiments.engines.kernel_timings import FORMAT, KERNEL, KernelTiming, KernelTimings
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from tests.recorded.kernel_timings import ORDER, SIXTEEN_BITS_US, STEP_US, STORED

COMPARED = "qwen3.5-9b"
"""The shape whose profiled steps are known."""


def asked_for(shape: str, formats: int) -> tuple[Configuration, ...]:
    """The kernels of the packaged space with so many of its formats."""
    space, _ = legal_levers(load_space("vllm"), ModelFacts.of(load_model_profile(shape)))
    found = timed_kernels(space)
    stored = list(dict.fromkeys(tuple(each.get(knob) for knob in FORMAT) for each in found))[:formats]
    return tuple(each for each in found if tuple(each.get(knob) for knob in FORMAT) in stored)


def table(timings: KernelTimings) -> list[str]:
    """What each kernel took, a line each."""
    lines = []
    for timing in (timings.plain, *timings.packed):
        stored = ", ".join(str(timing.knobs[knob]) for knob in FORMAT if knob in timing.knobs) or "16 bits"
        value = str(timing.knobs.get(KERNEL, "-"))
        if timing.products_us is None:
            why = f"refused: {timing.refused}" if timing.refused else timing.untimed
            lines.append(f"{stored:>16}  {value:8} {why}")
            continue
        parts = " ".join(f"{each.part} {each.count * each.us:.0f}" for each in timing.parts if each.us)
        lines.append(f"{stored:>16}  {value:8} {timing.products_us:8.0f} µs  {parts}  {timing.kernel}")
    return lines


def against_steps(timings: KernelTimings) -> list[str]:
    """Each kernel's products alone over those of profiled steps, and so part by part; and the same of what
    the surrogate takes of it, its ratio to 16 bits."""
    lines = [line for line in [_held("16 bits", timings.plain, SIXTEEN_BITS_US)] if line]
    for timing in timings.packed:
        value = str(timing.knobs.get(KERNEL))
        if value in STEP_US and all(timing.knobs.get(knob) == held for knob, held in STORED.items()):
            lines += [line for line in [_held(value, timing, STEP_US[value])] if line]
            lines += _ratio(value, timings, timing)
    return lines


def _held(name: str, timing: KernelTiming, step_us: Sequence[int]) -> str | None:
    if timing.products_us is None:
        return None
    parts = []
    for part, known in zip(ORDER, step_us, strict=True):
        alone = timing.part_us(part)
        if alone is not None:
            parts.append(f"{part} {alone / known:.2f}")
    whole = timing.products_us / sum(step_us[:-1])
    return f"{name:8} alone over in a step: {whole:.3f}; {', '.join(parts)}"


def _ratio(name: str, timings: KernelTimings, timing: KernelTiming) -> list[str]:
    if timing.products_us is None or timings.plain.products_us is None:
        return []
    alone = math.log(timing.products_us / timings.plain.products_us)
    step = math.log(sum(STEP_US[name][:-1]) / sum(SIXTEEN_BITS_US[:-1]))
    return [f"{name:8} log of its ratio to 16 bits: {alone:+.3f} alone, {step:+.3f} in a step, off by "
            f"{(alone - step) / TIMED_SD_LOG:+.1f} of the spread that is expected"]  # fmt: skip


def main() -> int:
    """Time, write, print."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--device", default="cuda:0")
    asked.add_argument("--shape", default=COMPARED)
    asked.add_argument("--rows", type=int, default=1)
    asked.add_argument("--formats", type=int, default=99, help="how many formats, in their order")
    told = asked.parse_args()
    told.out.mkdir(parents=True, exist_ok=True)
    folder = write_shape(load_model_profile(told.shape), Configuration.of({}), told.out / "shape")
    begun_s = time.monotonic()
    timings = VllmEngine().time_kernels(
        asked_for(told.shape, told.formats),
        folder,
        told.device,
        told.rows,
        told.out / "log",
        told.out / "cache",
        lambda done, planned, text: print(
            f"{time.monotonic() - begun_s:6.1f} s  {done}/{planned}  {text}", file=sys.stderr, flush=True
        ),
    )
    took_s = time.monotonic() - begun_s
    (told.out / "timings.json").write_text(
        json.dumps({"took_s": took_s, **timings.data()}, indent=1), encoding="utf-8"
    )
    print(f"{told.shape} on {told.device}, {timings.rows} row(s), {took_s:.1f} s; {timings.method}")
    print(json.dumps(timings.record))
    print("\n".join(table(timings)))
    if timings.cut_off:
        print(timings.cut_off)
    if told.shape == COMPARED and told.rows == 1 and told.device != "cpu":
        print("\n".join(against_steps(timings)))
    refused, timed = (
        sum(each is not None for each in found)
        for found in (
            [each.refused for each in timings.packed],
            [each.products_us for each in timings.packed],
        )
    )
    print(f"{timed} of {len(timings.packed)} timed, {refused} refused")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (UsageError, Infeasible) as error:
        sys.exit(str(error))
