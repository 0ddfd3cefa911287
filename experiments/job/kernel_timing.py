"""Timing the engine's kernels before anything is loaded: an artifact, made once for a device and a shape.

`timings.json` holds everything, raw times too (`engines.kernel_timings.KernelTimings`); the stage tells it
without them. It is help and no measurement that a verdict rests on, so a timing that fails is a failed stage
and the job goes on, unless the device itself is to blame. What a limit cut off is told and not kept: the next
job has another go at it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.artifacts.key import ArtifactKey
from experiments.engines.kernel_timings import KernelTimings, timed_by
from experiments.engines.port import DEVICE_FAULTS, Infeasible
from experiments.job.checkpoints import record_artifact
from experiments.job.launching import LAUNCH_LOGS, RunningJob
from experiments.job.spec import BaselineJob
from experiments.job.staging import StageTold, stage
from experiments.measurement.evidence import Json, Stage
from experiments.space.configuration import Configuration

TIMINGS_KIND = "kernel-timings"
"""Kind of the artifact."""

TIMINGS_NAME = "timings.json"

TIMINGS = "timings"
"""In the detail of the stage: the timings without their samples."""

VERSION = 2
"""Part of the artifact's key; raised when the same inputs would be timed otherwise."""

LOG_NAME = "kernels.log"


class _CutOff(Exception):
    """Not all was timed, so that it is told and not stored."""

    def __init__(self, timings: KernelTimings) -> None:
        super().__init__(timings.cut_off)
        self.timings = timings


def time_kernels(job: RunningJob, spec: BaselineJob) -> None:
    """Time the kernels that the spec asks for, where the engine can; see the module's page."""
    timer = getattr(job.engine, "time_kernels", None)
    if not spec.kernels or timer is None:
        return
    try:
        with stage(job, Stage.KERNELS, len(spec.kernels), "time kernels for packed weights") as told:
            _time(job, spec, told)
    except Infeasible as failed:
        if failed.kind in DEVICE_FAULTS:
            raise


def _time(job: RunningJob, spec: BaselineJob, told: StageTold) -> None:
    configurations = [Configuration.of(each) for each in spec.kernels]
    rows = spec.workload.concurrency

    def tell(done: int, planned: int, text: str) -> None:
        job.records.progress(Stage.KERNELS, done, planned, text)

    def build(folder: Path) -> None:
        job.guard.before_launches()
        logs = job.context.folder / LAUNCH_LOGS
        found: KernelTimings = job.engine.time_kernels(  # type: ignore[attr-defined]
            configurations,
            job.context.checkpoint,
            spec.device,
            rows,
            logs / LOG_NAME,
            job.context.cache_dir,
            tell,
        )
        if found.cut_off is not None:
            raise _CutOff(found)
        (folder / TIMINGS_NAME).write_text(json.dumps(found.data()), encoding="utf-8")

    try:
        artifact = job.context.artifacts.build(timings_key(job, spec, configurations), build)
    except _CutOff as unfinished:
        told.detail = {TIMINGS: without_samples(unfinished.timings.data())}
        return
    record_artifact(job, artifact)
    told.outcome = "done" if artifact.built else "reused"
    data = json.loads((artifact.path / TIMINGS_NAME).read_bytes())
    told.detail = {"artifact": artifact.digest, TIMINGS: without_samples(data)}


def timings_key(job: RunningJob, spec: BaselineJob, configurations: list[Configuration]) -> ArtifactKey:
    """What timings are the output of: a model on a device, with so many rows."""
    machine = job.context.material.machine()
    device = machine.get("gpu") if spec.device != "cpu" else machine.get("cpu")
    timed: list[Json] = [dict(timed_by(each)) for each in configurations]
    return ArtifactKey(
        TIMINGS_KIND,
        {
            "configurations": timed,
            "device": spec.device.partition(":")[0],
            "device_name": device.get("name") if isinstance(device, dict) else None,
            "engine": spec.engine,
            "model": spec.model_fingerprint,
            "rows": spec.workload.concurrency,
            "version": VERSION,
        },
        (),
        job.context.tool_versions,
    )


def without_samples(data: Mapping[str, Any]) -> dict[str, Any]:
    """Timings as data, less their samples, which the artifact has; pure."""

    def short(timing: Mapping[str, Any]) -> dict[str, Any]:
        parts = [{**each, "samples_us": []} for each in timing["parts"]]
        return {**timing, "parts": parts}

    return {**data, "plain": short(data["plain"]), "packed": [short(each) for each in data["packed"]]}
