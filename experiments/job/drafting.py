"""The check of drafting in a job: whose is due, the samples that it gives, and where it is kept.

The candidate's is made in the launch that is scored. The control is the same in many experiments, so its
check is an artifact, as its evaluation is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from experiments.artifacts.key import ArtifactKey
from experiments.engines.port import DraftingCheck, GenerationRequest
from experiments.job.checkpoints import prepare_checkpoint, record_artifact
from experiments.job.drafter_identity import drafter_identity
from experiments.job.launching import launches
from experiments.job.open_launch import OpenLaunch, Wanted
from experiments.job.running_job import RunningJob
from experiments.measurement.drafting_due import METHOD, check_is_due, is_drafting
from experiments.measurement.evidence import Arm, Metric, Stage
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

DRAFTING_CHECK_KIND = "drafting-check"
"""Kind of the artifact that holds the check of a control's drafting."""

CHECK_NAME = "check.json"

CHECK_BLOCK = 1
"""The block of a check's samples within an evaluation, whose scores are block 0."""

CHECK_INDEX = 1
"""The place of a control's check among its evaluations; that of its scores, which may be another launch, is
0."""


def arms_to_check(control: Configuration, candidate: Configuration) -> frozenset[Arm]:
    """The arms whose drafting must be checked; see `experiments.measurement.drafting_due`."""
    changes = control.changes_to(candidate)
    arms = {Arm.CONTROL: control, Arm.CANDIDATE: candidate}
    return frozenset(
        arm
        for arm, configuration in arms.items()
        if check_is_due(changes, is_drafting(configuration.get(METHOD)))
    )


def check_drafting(job: RunningJob, launch: OpenLaunch, number: int, workload: Workload) -> None:
    """Check the drafting of a launch that is up and record it under the launch of this number."""
    material = job.context.material
    before = material.moment()
    checks = launch.check_drafting(material.drafting_prompts(workload))
    rows = [(item, seq, metric, value) for seq, (item, metric, value) in enumerate(drafting_values(checks))]
    job.records.block(number, CHECK_BLOCK, 0, rows, before, material.moment())


def check_control(job: RunningJob, wanted: Wanted, workload: Workload, up: OpenLaunch | None = None) -> None:
    """Check the control's drafting, or take the check from the store, and record it under stage `evaluate`.

    `up` is a launch of it that may be used; without one a fresh launch is started when there is nothing to
    reuse. Raises `Infeasible` when the control can't draft.
    """
    requests = job.context.material.drafting_prompts(workload)
    _, parents = prepare_checkpoint(job, wanted.configuration)
    key = ArtifactKey(
        DRAFTING_CHECK_KIND,
        {
            "configuration": dict(wanted.configuration),
            "device": job.spec.device.partition(":")[0],
            "engine": job.spec.engine,
            "prompts": prompts_digest(requests),
            "model": job.spec.model_fingerprint,
            **drafter_identity(wanted.configuration),
        },
        parents,
        job.context.tool_versions,
    )

    def build(folder: Path) -> None:
        if up is not None:
            _store_check(job, up, requests, folder)
            return
        with launches(job, Stage.EVALUATE, [wanted]) as [launch]:
            _store_check(job, launch, requests, folder)

    artifact = job.context.artifacts.build(key, build)
    record_artifact(job, artifact)
    stored = json.loads((artifact.path / CHECK_NAME).read_bytes())
    number = job.records.launch(
        Arm.CONTROL,
        CHECK_INDEX,
        Stage.EVALUATE,
        wanted.configuration.digest,
        stored["resolved"],
        {**stored["machine"], "drafting_check": artifact.digest},
        stored["load_s"],
    )
    rows = [(item, seq, Metric(metric), value) for seq, (item, metric, value) in enumerate(stored["values"])]
    job.records.block(number, CHECK_BLOCK, 0, rows, {}, {})


def prompts_digest(requests: Sequence[GenerationRequest]) -> str:
    """SHA-256 over what the prompts of a check are: names, tokens in, tokens out."""
    told = [[each.item, list(each.prompt_ids), each.new_tokens] for each in requests]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _store_check(
    job: RunningJob, launch: OpenLaunch, requests: Sequence[GenerationRequest], folder: Path
) -> None:
    values = drafting_values(launch.check_drafting(requests))
    content = {
        "resolved": dict(launch.resolved()),
        "machine": dict(job.context.material.machine()),
        "load_s": launch.launch.load_s,
        "values": [[item, metric.value, value] for item, metric, value in values],
    }
    (folder / CHECK_NAME).write_text(json.dumps(content))


def drafting_values(checks: Sequence[DraftingCheck]) -> list[tuple[str, Metric, float]]:
    """The samples of checks (item, metric, value): the tokens of every step, and the counts of every
    prompt."""
    values: list[tuple[str, Metric, float]] = []
    for check in checks:
        values += [(check.item, Metric.STEP_TOKENS, float(tokens)) for tokens in check.step_tokens]
        values += [
            (check.item, Metric.CHECKED_TOKENS, float(check.positions)),
            (check.item, Metric.DIVERGENCES, float(check.divergences)),
            (check.item, Metric.NEAR_TIES, float(check.near_ties)),
            (check.item, Metric.NEAR_TIE_LOGITS, check.near_tie_logits),
            (check.item, Metric.FLIPS_WITHOUT_DRAFT, float(check.flips_without_draft)),
        ]
    return values
