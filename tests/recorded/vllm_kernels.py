"""What was recorded of vLLM's linear kernels on an H200, as launches and a space; see the JSON beside it."""

import json
from pathlib import Path

from experiments.engines.port import PartTime
from experiments.engines.vllm.kernel_parts import kernel_times, typical
from experiments.engines.vllm.kernel_steps import steps_of
from experiments.engines.vllm.part_times import parts_of
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Metric, Sample, Stage
from experiments.space.configuration import Configuration

RECORDED = json.loads(Path(__file__).with_name("vllm_h200_linear_kernels.json").read_text(encoding="utf-8"))
PROFILED = json.loads(Path(__file__).with_name("vllm_h200_kernels.json").read_text(encoding="utf-8"))["runs"]
"""Whole decode steps of the 9B shape, kernel by kernel; what they are is told in the file."""

ARMS: dict[str, dict[str, Json]] = RECORDED["arms"]

SPACE = """
name: recorded-vllm
knobs:
  - name: quantization.method
    lever: quantization
    values: [none, awq]
    default: none
    help: Whether weights are quantized to four bits.
  - name: quantization.group_size
    lever: quantization
    values: [32, 128]
    default: 32
    when: {quantization.method: [awq]}
    help: Weights that share a scale.
  - name: serving.linear_kernel
    lever: kernel
    values: [auto, machete, marlin]
    default: auto
    when: {quantization.method: [awq]}
    pins: {linear_kernel: {machete: MacheteLinearKernel, marlin: MarlinLinearKernel}}
    help: Which kernel multiplies quantized weights, or the engine's own choice (`auto`).
"""


def launch(arm: Arm, name: str, configuration: Configuration | None = None, index: int = 0) -> LaunchRecord:
    """A recorded run as a launch of an arm: what its worker told, and its requests as samples."""
    told = ARMS[name]
    values = told["tpot_ms"]
    assert isinstance(values, list)
    position = 0 if arm is Arm.CONTROL else 1
    return LaunchRecord(
        arm=arm,
        index=index,
        stage=Stage.QUICK,
        configuration_digest=name if configuration is None else configuration.digest,
        resolved={**RECORDED["common"], **_resolved(told)},
        environment={"source": "vllm_h200_linear_kernels.json"},
        load_s=0.0,
        samples=tuple(
            Sample(place, position, "512 in, 257 out", place, Metric.TPOT_MS, float(str(value)))
            for place, value in enumerate(values)
        ),
    )


def _resolved(told: dict[str, Json]) -> dict[str, Json]:
    resolved = told["resolved"]
    assert isinstance(resolved, dict)
    return resolved


def recorded_parts(name: str) -> list[PartTime]:
    """The parts of a recorded step, `bf16`, `marlin` or `machete`; its caches are not counted."""
    run = PROFILED[name]
    kernels = kernel_times(typical(steps_of(run)), run["linears"])
    return parts_of(kernels, run["untraced_step_us"] / 1e3, run["weight_bytes"], {})
