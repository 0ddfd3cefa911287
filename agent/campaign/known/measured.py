"""What the baseline experiment measured, under the configurations as the campaign knows them now.

The sweep compares configurations side by side, in one window: what it says of two of them is their ratio.
The noise launches, of the baseline alone, are fresh processes later: they say what the baseline takes, free
of the luck that made it the best of the sweep. The two are not mixed: a machine that slowed down in between
would make the baseline slower than what it beat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known.facts import Facts
from agent.surrogate.kernel_parts import EXPERTS, OUTSIDE, PRODUCTS
from agent.surrogate.lone_prompt import LonePrompt
from db.models import Artifact, ExperimentArtifact
from experiments.engines.kernel_timings import KernelTimings
from experiments.engines.port import PartTime
from experiments.job.baseline import NAIVE_FAILED
from experiments.job.evaluation import EVALUATION_KIND
from experiments.job.kernel_timing import TIMINGS
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Stage
from experiments.measurement.timed import typical
from experiments.recording import load_launches, load_stages


@dataclass(frozen=True)
class Baseline:
    """What the baseline experiment measured.

    `tpot_ms`, `ttft_ms` and `own_ms`, which is of the campaign's own metric, are by configuration digest, as
    the baseline's own launches scale them: the baseline's is the median over its launches after the sweep of
    what is typical of each (`experiments.measurement.timed`), as its experiment's page tells them, that of
    another configuration of the sweep is as many times the baseline's as the sweep measured.
    `sweep_tpot_ms` is what the sweep measured itself. A configuration that did not last through the sweep is
    in none of them. `profile` are the parts of a decode step, `bits_per_byte` is the baseline's (None if it
    was not evaluated), `bandwidth_bytes_per_s` the copy bandwidth of the target as the profile or the
    launches' environment tells it (None if it was not measured). `load_s` is the median load of its launches,
    None without any. `evaluation_s` are the seconds that its evaluation took when it was built, now or
    earlier (None if it was not evaluated). `kernel_timings` are the engine's kernels timed alone, without
    their raw times (None if they were not); `lone_prompt` is what its profile says of one (None if none was
    profiled).
    """

    tpot_ms: dict[str, float]
    ttft_ms: dict[str, float]
    profile: tuple[PartTime, ...]
    bits_per_byte: float | None
    bandwidth_bytes_per_s: float | None
    sweep_tpot_ms: Mapping[str, float] = field(default_factory=dict)
    own_ms: Mapping[str, float] = field(default_factory=dict)
    load_s: float | None = None
    evaluation_s: float | None = None
    kernel_timings: KernelTimings | None = None
    lone_prompt: LonePrompt | None = None


def read_baseline(session: Session, experiment_id: int, own: Metric) -> Baseline:
    """What a baseline experiment measured, from its samples; `own` is the campaign's metric."""
    launches = load_launches(session, experiment_id)
    parts: list[dict[str, Any]] = []
    bandwidth: float | None = None
    timings: KernelTimings | None = None
    lone_prompt: LonePrompt | None = None
    for stage in load_stages(session, experiment_id):
        if stage.stage is Stage.PROFILE:
            found, told = stage.detail.get("parts"), stage.detail.get("bandwidth_bytes_per_s")
            parts = found if isinstance(found, list) else []  # type: ignore[assignment]
            bandwidth = float(told) if isinstance(told, int | float) else None
            lone_prompt = lone_prompt_of(stage.detail.get("prompt"))
        if stage.stage is Stage.KERNELS and isinstance(data := stage.detail.get(TIMINGS), dict):
            timings = KernelTimings.of_data(data)
    return Baseline(
        tpot_ms=scaled(launches, Metric.TPOT_MS),
        ttft_ms=scaled(launches, Metric.TTFT_MS),
        profile=tuple(PartTime(**part) for part in parts),
        bits_per_byte=bits_per_byte(launches, Arm.CONTROL),
        bandwidth_bytes_per_s=bandwidth or _bandwidth(launches),
        sweep_tpot_ms=_medians(_lasting(launches), Metric.TPOT_MS),
        own_ms=scaled(launches, own),
        load_s=median(each.load_s for each in launches) if launches else None,
        evaluation_s=_evaluation_s(session, experiment_id),
        kernel_timings=timings,
        lone_prompt=lone_prompt,
    )


def lone_prompt_of(told: object) -> LonePrompt | None:
    """What a profile's stage tells of a lone prompt; None where it was not profiled; pure."""
    if not isinstance(told, dict) or not told.get("parts"):
        return None
    parts = [PartTime(**part) for part in told["parts"]]
    outside_ms, products_ms, experts_ms = (
        math.fsum(part.time_ms for part in parts if part.kind == kind)
        for kind in (OUTSIDE, PRODUCTS, EXPERTS)
    )
    return LonePrompt(float(told["first_token_ms"]), outside_ms, products_ms, experts_ms)


def naive_failed(session: Session, experiment_id: int) -> str | None:
    """Why the engine's own default did not run; None where it did, and where nothing is told."""
    for each in load_stages(session, experiment_id):
        cause = each.detail.get(NAIVE_FAILED)
        if isinstance(cause, str):
            return cause
    return None


def read_measured(session: Session, facts: Facts) -> Baseline:
    """The baseline of a campaign that has one; see `settling` for why digests may have changed."""
    assert facts.baseline_experiment_id is not None
    return under_digests(read_baseline(session, facts.baseline_experiment_id, facts.objective), facts)


def under_digests(measured: Baseline, facts: Facts) -> Baseline:
    """What was measured, by the digests that its configurations have now."""
    return replace(
        measured,
        tpot_ms=_now(measured.tpot_ms, facts.stored_digests),
        ttft_ms=_now(measured.ttft_ms, facts.stored_digests),
        sweep_tpot_ms=_now(measured.sweep_tpot_ms, facts.stored_digests),
        own_ms=_now(measured.own_ms, facts.stored_digests),
    )


def scaled(launches: Sequence[LaunchRecord], metric: Metric) -> dict[str, float]:
    """A latency metric in ms by configuration digest, as `Baseline.tpot_ms` says; pure.

    Where nothing was launched after the sweep, the sweep's own values.
    """
    sweep = _medians(_lasting(launches), metric)
    alone = _medians((each for each in launches if each.stage is Stage.NOISE), metric)
    for digest, value in alone.items():
        if digest in sweep:
            scale = value / sweep[digest]
            sweep = {each: value if each == digest else ms * scale for each, ms in sweep.items()}
        else:
            sweep[digest] = value
    return sweep


def bits_per_byte(launches: tuple[LaunchRecord, ...], arm: Arm) -> float | None:
    """Total bits over total bytes of the evaluated documents of one arm."""
    bits = [v for each in launches if each.arm is arm for v in each.values(Metric.NLL_BITS)]
    size = [v for each in launches if each.arm is arm for v in each.values(Metric.TEXT_BYTES)]
    return math.fsum(bits) / math.fsum(size) if bits and size else None


def _now(by_digest: Mapping[str, float], stored: Mapping[str, str]) -> dict[str, float]:
    return {**by_digest, **{now: by_digest[then] for now, then in stored.items() if then in by_digest}}


def _lasting(launches: Iterable[LaunchRecord]) -> list[LaunchRecord]:
    """The launches of the sweep that were timed to its end; the others saw other prompts and times."""
    swept = [each for each in launches if each.stage is Stage.SWEEP]
    blocks = [len({sample.block for sample in each.samples}) for each in swept]
    most = max(blocks, default=0)
    return [each for each, count in zip(swept, blocks, strict=True) if count == most]


def _medians(launches: Iterable[LaunchRecord], metric: Metric) -> dict[str, float]:
    """A latency metric in ms, by configuration digest: the median over launches of what is typical of each,
    so that neither a block nor a launch that the machine disturbed moves it."""
    took: dict[str, list[float]] = {}
    for launch in launches:
        value = typical(launch, metric)
        if value is not None:
            took.setdefault(launch.configuration_digest, []).append(value)
    return {digest: median(values) for digest, values in took.items()}


def _evaluation_s(session: Session, experiment_id: int) -> float | None:
    """Seconds that the newest evaluation which the experiment used took to build."""
    return session.scalars(
        select(Artifact.build_s)
        .join(ExperimentArtifact, ExperimentArtifact.artifact_digest == Artifact.digest)
        .where(ExperimentArtifact.experiment_id == experiment_id, Artifact.kind == EVALUATION_KIND)
        .order_by(Artifact.created_at.desc())
        .limit(1)
    ).first()


def _bandwidth(launches: tuple[LaunchRecord, ...]) -> float | None:
    for launch in launches:
        machine = launch.environment.get("machine")
        if isinstance(machine, dict):
            found = machine.get("copy_bandwidth_bytes_per_s")
            if isinstance(found, int | float):
                return float(found)
    return None
