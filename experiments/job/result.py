"""What a job gives back. Written record by record while it runs, so that a killed job leaves its samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from experiments.engines.port import Blames, PartTime
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Stage
from experiments.space.configuration import KnobValue

GB = 1e9

BROKE = "error"
"""The failure of an experiment whose job broke, for no fault of a configuration."""


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
class StageTurn:
    """A stage of a job that began, as `text` says, or, where it has an `outcome`, ended after `wall_s`."""

    stage: Stage
    text: str
    outcome: str | None = None
    wall_s: float = 0.0


@dataclass(frozen=True)
class JobProgress:
    """The last thing a running job told: stage, blocks done of planned, a sentence, and the arm that is
    worked on; None while it is both, or neither. `turns` are the stages that began and ended so far, in the
    order in which they did. `timing`: what is up is timed from here on in this stage, as far as that is
    told. `loading` says what launches do that are coming up, and for how long; None where none is."""

    stage: Stage
    done: int
    planned: int
    text: str
    arm: Arm | None = None
    turns: tuple[StageTurn, ...] = ()
    timing: bool = False
    loading: str | None = None


@dataclass(frozen=True)
class Failure:
    """Why a configuration could not run; kinds and `blames` as in `engines.port.Infeasible`. `versions` are
    those of packages that the engine has, where no launch of the job measured anything and so tells none."""

    kind: str
    cause: str
    blames: Blames = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HeldMemory:
    """Bytes used of a job's GPU, without what is drawn with: before its first launch, the most seen while it
    had any, and after its last one had ended and `waited_s` were waited for it (None: the driver did not
    tell). `left` says what was not given back, in a sentence; None where all was."""

    before_bytes: int
    most_bytes: int
    after_bytes: int | None
    waited_s: float
    left: str | None = None

    def told(self, device: str) -> str:
        """The figures in a sentence, and what is left."""
        after = "not told" if self.after_bytes is None else f"{self.after_bytes / GB:.1f} GB"
        figures = (
            f"Memory of {device}: {self.before_bytes / GB:.1f} GB held before, {self.most_bytes / GB:.1f} GB "
            f"at most, {after} after the last launch."
        )
        return figures if self.left is None else f"{figures} {self.left}"


@dataclass(frozen=True)
class JobResult:
    """Everything a job measured. `further` are launches again, with what was measured in them of further
    workloads, which nothing that reads `launches` sees; `chosen` is the baseline a sweep chose; `profile` its
    parts; `configurations` the knobs, by digest, of what ran beside the configurations of the spec; `memory`
    what it held of a GPU, None on a CPU and where nobody tells."""

    launches: tuple[LaunchRecord, ...] = ()
    further: tuple[LaunchRecord, ...] = ()
    stages: tuple[StageRecord, ...] = ()
    artifacts: tuple[ArtifactRecord, ...] = ()
    profile: tuple[PartTime, ...] = ()
    chosen: Mapping[str, Json] | None = None
    configurations: Mapping[str, Mapping[str, KnobValue]] = field(default_factory=dict)
    stop_reason: str | None = None
    failure: Failure | None = None
    memory: HeldMemory | None = None
    wall_s: float = 0.0


MEASURING = frozenset({Stage.SCREEN, Stage.QUICK, Stage.EVALUATE, Stage.FULL, Stage.VALIDATION})
"""The stages of a test in which launches are loaded, timed and scored for its judge."""


def measured_s(stages: Iterable[StageRecord]) -> float | None:
    """Seconds on the clock of the stages that measured for a judge; None where there was none. What loads
    side by side is waited for once, so that they are fewer than the loads of all launches add up to."""
    took = [each.wall_s for each in stages if each.stage in MEASURING]
    return math.fsum(took) if took else None
