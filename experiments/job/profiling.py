"""The profile of a configuration's decode step: an artifact, made once, with what its parts rest on.

`profile.json` holds `parts` (of `engines.port.PartTime`) and the engine's `record`: for vLLM every kernel by
name with its calls and times, and one step in order, so that parts can be told anew from it. The stage that
made or used it tells the parts, the memory's bandwidth and the names that no part is known for; where the
engine profiles a lone prompt too, under `prompt` its parts and the measured rate of products, or why it has
none. A prompt that failed is tried again by the next job that profiles the same: with the step, as an
artifact whose parent is the one before, up to `PROMPT_TRIES`. Where that fails whole, the artifact holds the
profile of the one before, whose digest it has as `kept`, and the prompt's failure tells of both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import fsum
from pathlib import Path
from typing import Any

from experiments.artifacts.key import ArtifactKey
from experiments.engines.port import DEVICE_FAULTS, GenerationRequest, Infeasible, PartTime
from experiments.job.checkpoints import prepare_checkpoint, record_artifact
from experiments.job.limits import ENDS_MEASURING
from experiments.job.open_launch import ArmInfeasible, OpenLaunch
from experiments.job.running_job import RunningJob
from experiments.job.second_try import PROFILED_ANEW, SecondTries
from experiments.job.staging import StageTold, stage
from experiments.measurement.evidence import Arm, Json, Stage
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

PROFILE_KIND = "profile"
"""Kind of the artifact."""

PROFILE_NAME = "profile.json"

TOLD = ("method", "step_ms", "concurrency", "context_tokens", "steps")
"""What of an engine's record the stage tells as it is."""

TOLD_OF_PROMPT = (
    "method",
    "failure",
    "first_token_ms",
    "prompt_tokens",
    "prompt_steps",
    "prompts",
    "parts",
)
"""What of its record of a lone prompt."""

PROMPT_TRIES = 2
"""Profiles of the same whose lone prompt failed, after which no job tries it again."""

KEPT = "kept"
"""In an artifact: the digest of the one before it whose profile it holds."""

US_PER_MS = 1e3

UNKNOWN_PART = "other"
"""The part of kernels that no part is known for."""


def profile_baseline(
    job: RunningJob, configuration: Configuration, workload: Workload, up: OpenLaunch
) -> None:
    """Profile the baseline in a launch of it that is up and not timed any more; see `_profile`."""
    with stage(job, Stage.PROFILE, 1, "profile the baseline") as told:
        _profile(job, told, configuration, workload, up)


def profile_candidate(
    job: RunningJob,
    workload: Workload,
    up: OpenLaunch,
    second_tries: SecondTries,
    reopen: Callable[[StageTold, list[OpenLaunch]], None],
) -> None:
    """Profile a candidate likewise, in a second try in the launch that `reopen` puts into its place. Nothing
    is claimed of it by its profile, so one that fails is recorded as a failed stage and no more, unless the
    device itself is to blame."""
    launches = [up]
    try:
        with stage(job, Stage.PROFILE, 1, "profile the candidate") as told:

            def profile() -> None:
                told.on(Arm.CANDIDATE)
                _profile(job, told, up.wanted.configuration, workload, launches[0])

            def anew() -> None:
                reopen(told, launches)
                profile()

            second_tries.of(told, up.wanted.index, lambda: launches, profile, anew, PROFILED_ANEW)
    except (ArmInfeasible, Infeasible) as failed:
        reason = failed.reason if isinstance(failed, ArmInfeasible) else failed
        if reason.kind in DEVICE_FAULTS:
            raise


def profiles_candidates(job: RunningJob) -> bool:
    """Whether the engine's profile costs so little, against a load, that each candidate is profiled."""
    return bool(getattr(job.engine, "profiles_candidates", False))


def _profile(
    job: RunningJob, told: StageTold, configuration: Configuration, workload: Workload, up: OpenLaunch
) -> None:
    """Record the profile, from the store or made in `up`; nothing may be timed in it afterwards."""
    request = job.context.material.requests(workload, job.spec.seed, 0, 0)[0]
    _, parents = prepare_checkpoint(job, configuration)

    kept: dict[str, Any] | None = None

    def build(folder: Path) -> None:
        try:
            parts = up.profile(request, workload.concurrency)
            document: dict[str, Any] = {
                "parts": [asdict(part) for part in parts],
                "record": getattr(up.launch, "profile_record", None),
            }
        except (ArmInfeasible, Infeasible) as failed:
            reason = _reason(job, failed)
            if kept is None or reason.kind in (*DEVICE_FAULTS, *ENDS_MEASURING):
                raise
            document = failed_again(kept, reason.cause)
        (folder / PROFILE_NAME).write_text(json.dumps(document), encoding="utf-8")

    for _ in range(PROMPT_TRIES):
        key = profile_key(job, configuration, workload, request, parents)
        artifact = job.context.artifacts.build(key, build)
        record_artifact(job, artifact)
        document = json.loads((artifact.path / PROFILE_NAME).read_bytes())
        if artifact.built or not prompt_failed(document["record"] or {}):
            break
        parents, kept = (*parents, artifact.digest), {**document, KEPT: artifact.digest}
    told.outcome = "done" if artifact.built and KEPT not in document else "reused"
    told.detail = {**told.detail, "artifact": artifact.digest, **told_of(document["record"] or {})}
    job.records.profile([PartTime(**part) for part in document["parts"]])
    told.advance()


def profile_key(
    job: RunningJob,
    configuration: Configuration,
    workload: Workload,
    request: GenerationRequest,
    parents: Sequence[str],
) -> ArtifactKey:
    """What a profile is the output of; the device's name is part of it, as times are the device's, and so is
    the version of the engine's profile where it has one. `parents` are what the checkpoint was made of, and
    the profile whose failed prompt is tried again."""
    machine = job.context.material.machine()
    device = machine.get("gpu") if job.spec.device != "cpu" else machine.get("cpu")
    version = getattr(job.engine, "profile_version", None)
    return ArtifactKey(
        PROFILE_KIND,
        {
            "configuration": dict(configuration),
            "concurrency": workload.concurrency,
            "device": job.spec.device.partition(":")[0],
            "device_name": device.get("name") if isinstance(device, dict) else None,
            "engine": job.spec.engine,
            "model": job.spec.model_fingerprint,
            "new_tokens": request.new_tokens,
            "prompt_tokens": len(request.prompt_ids),
            **({} if version is None else {"version": version}),
        },
        tuple(parents),
        job.context.tool_versions,
    )


def prompt_failed(record: Mapping[str, Any]) -> bool:
    """Whether an engine's record tells why a lone prompt was not profiled; pure."""
    return bool((record.get("prompt") or {}).get("failure"))


def failed_again(kept: Mapping[str, Any], cause: str) -> dict[str, Any]:
    """A kept profile, whose lone prompt failed, after a second try that failed whole for this cause; pure."""
    record = kept["record"]
    before = record["prompt"]["failure"]
    failure = f"{before} It was tried again, and the whole profile failed: {cause}"
    return {**kept, "record": {**record, "prompt": {**record["prompt"], "failure": failure}}}


def told_of(record: Mapping[str, Any]) -> dict[str, Json]:
    """What the stage tells of an engine's record; pure."""
    found: dict[str, Json] = {name: record[name] for name in TOLD if name in record}
    bandwidth = (record.get("read") or {}).get("bandwidth")
    if bandwidth:
        found["bandwidth_bytes_per_s"] = bandwidth["bytes_per_s"]
        found["bandwidth_method"] = bandwidth["method"]
    found |= _recorded(record) | _unknown(record)
    prompt = record.get("prompt")
    if prompt:
        told = {name: prompt[name] for name in TOLD_OF_PROMPT if name in prompt}
        rate = (record.get("read") or {}).get("products")
        if rate:
            told |= {"operations_per_s": rate["operations_per_s"], "operations_method": rate["method"]}
        found["prompt"] = told | _recorded(prompt) | _unknown(prompt)
    return found


def _reason(job: RunningJob, failed: ArmInfeasible | Infeasible) -> Infeasible:
    """Why a launch was not profiled; where its time was up, which kills it, that."""
    try:
        job.limits.check()
    except Infeasible as up:
        return up
    return failed.reason if isinstance(failed, ArmInfeasible) else failed


def _recorded(record: Mapping[str, Any]) -> dict[str, Json]:
    """What the kernels of a record took together as they were recorded, before they were put to a step or
    prompt of which they may not take more; empty without any."""
    kernels = record.get("kernels") or ()
    return {"kernels_ms": fsum(each["us"] for each in kernels) / US_PER_MS} if kernels else {}


def _unknown(record: Mapping[str, Any]) -> dict[str, Json]:
    """The kernels of a record that no part is known for; empty without any."""
    unknown = [each for each in record.get("kernels", ()) if each["part"] == UNKNOWN_PART]
    told: list[Json] = [
        {"name": each["name"], "launches": each["launches"], "us": each["us"]} for each in unknown
    ]
    return {"unknown_kernels": told} if told else {}
