"""What a job gives back. Written record by record while it runs, so that a killed job leaves its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.engines.port import PartTime
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Stage
from experiments.space.configuration import KnobValue


@dataclass(frozen=True)
class StageRecord:
    """One stage that ran: its outcome is `done`, `reused` (the artifact existed), `failed` or `stopped`."""

    stage: Stage
    started_at: str
    wall_s: float
    outcome: str
    detail: Mapping[str, Json] = field(default_factory=dict)
    log: str | None = None


@dataclass(frozen=True)
class ArtifactRecord:
    """An artifact that the job built or used; `build_s` is 0 when it was there already."""

    digest: str
    kind: str
    inputs: Mapping[str, Json]
    tool_versions: Mapping[str, Json]
    path: str
    bytes: int
    build_s: float


@dataclass(frozen=True)
class JobProgress:
    """The last thing a running job told: stage, blocks done of planned, a sentence, and the arm that is
    worked on; None while it is both, or neither."""

    stage: Stage
    done: int
    planned: int
    text: str
    arm: Arm | None = None


@dataclass(frozen=True)
class Failure:
    """Why a configuration could not run; kinds as in `engines.port.Infeasible`."""

    kind: str
    cause: str


@dataclass(frozen=True)
class JobResult:
    """Everything a job measured. `further` are launches again, with what was measured in them of further
    workloads, which nothing that reads `launches` sees; `chosen` is the baseline a sweep chose; `profile` its
    parts; `configurations` the knobs, by digest, of what ran beside the configurations of the spec."""

    launches: tuple[LaunchRecord, ...] = ()
    further: tuple[LaunchRecord, ...] = ()
    stages: tuple[StageRecord, ...] = ()
    artifacts: tuple[ArtifactRecord, ...] = ()
    profile: tuple[PartTime, ...] = ()
    chosen: Mapping[str, Json] | None = None
    configurations: Mapping[str, Mapping[str, KnobValue]] = field(default_factory=dict)
    stop_reason: str | None = None
    failure: Failure | None = None
    wall_s: float = 0.0
