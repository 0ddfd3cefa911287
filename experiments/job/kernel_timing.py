"""Timing the engine's kernels before anything is loaded: an artifact, made once for a device and a shape.

`timings.json` holds everything, raw times too (`engines.kernel_timings.KernelTimings`); the stage tells it
without them. It is help and no measurement that a verdict rests on, so a timing that fails is a failed stage
and the job goes on, unless the device itself is to blame.

A limit may cut a timing off. Then what it came to is an artifact all the same, the first of a chain: the next
job finds it unfinished, times what is left, and keeps all that is known by then as an artifact whose parent
is the one before; and so on until nothing is left. A job adds one at most. A timing that was cut off and
settled nothing more than the one before it ends the chain, so that nothing is tried for ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from experiments.artifacts.key import ArtifactKey
from experiments.engines.kernel_timings import KernelTimings, timed_by
from experiments.engines.port import DEVICE_FAULTS, Infeasible
from experiments.job.checkpoints import record_artifact
from experiments.job.running_job import LAUNCH_LOGS, RunningJob
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


GOES_ON = "The next campaign times what is left."
"""Said of a timing that was cut off."""

GIVEN_UP = "It was so before, and nothing more was timed since, so what is left is not tried again."
"""Said of one that is the last, though not all of it was timed."""


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
    """Follow the chain to its end, and add to it where that is unfinished."""
    configurations = [Configuration.of(each) for each in spec.kernels]
    known: KernelTimings | None = None
    parents: tuple[str, ...] = ()
    while True:
        key = timings_key(job, spec, configurations, parents)
        artifact = job.context.artifacts.build(key, partial(_build, job, spec, configurations, known))
        record_artifact(job, artifact)
        data = json.loads((artifact.path / TIMINGS_NAME).read_bytes())
        told.outcome = "done" if artifact.built else "reused"
        told.detail = {"artifact": artifact.digest, TIMINGS: without_samples(data)}
        known, parents = KernelTimings.of_data(data), (artifact.digest,)
        if artifact.built or not known.is_unfinished:
            return


def _build(
    job: RunningJob,
    spec: BaselineJob,
    configurations: Sequence[Configuration],
    known: KernelTimings | None,
    folder: Path,
) -> None:
    """Time what is not known yet, and write all of it."""

    def tell(done: int, planned: int, text: str) -> None:
        job.records.progress(Stage.KERNELS, done, planned, text)

    job.guard.before_launches()
    logs = job.context.folder / LAUNCH_LOGS
    found: KernelTimings = job.engine.time_kernels(  # type: ignore[attr-defined]
        configurations,
        job.context.checkpoint,
        spec.device,
        spec.workload.concurrency,
        logs / LOG_NAME,
        job.context.cache_dir,
        tell,
        known,
    )
    (folder / TIMINGS_NAME).write_text(json.dumps(going_on(known, found).data()), encoding="utf-8")


def going_on(known: KernelTimings | None, found: KernelTimings) -> KernelTimings:
    """What was `found`, after what was `known` before it, with what becomes of what is left of it; pure."""
    if not found.is_unfinished:
        return found
    if known is not None and found.settled <= known.settled:
        return found.given_up(f"{found.cut_off} {GIVEN_UP}")
    return replace(found, cut_off=f"{found.cut_off} {GOES_ON}")


def timings_key(
    job: RunningJob,
    spec: BaselineJob,
    configurations: Sequence[Configuration],
    parents: tuple[str, ...] = (),
) -> ArtifactKey:
    """What timings are the output of: a model on a device, with so many rows; `parents` is the unfinished
    timing that they went on from, none of a first one."""
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
        parents,
        job.context.tool_versions,
    )


def without_samples(data: Mapping[str, Any]) -> dict[str, Any]:
    """Timings as data, less their samples, which the artifact has; pure."""

    def short(timing: Mapping[str, Any]) -> dict[str, Any]:
        parts = [{**each, "samples_us": []} for each in timing["parts"]]
        return {**timing, "parts": parts}

    return {**data, "plain": short(data["plain"]), "packed": [short(each) for each in data["packed"]]}
