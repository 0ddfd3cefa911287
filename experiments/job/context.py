"""What a job is given beside its spec: the place it runs in, the texts it measures with, its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.store import ArtifactStore
from experiments.engines.port import GenerationRequest, ScoringDocument, ScoringTask
from experiments.measurement.evidence import Json, Stage
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

DEFAULT_STAGE_LIMITS_S: Mapping[Stage, float] = {
    Stage.STATIC: 60,
    Stage.PRUNE: 1800,
    Stage.QUANTIZE: 7200,
    Stage.DRAFT: 7200,
    Stage.SWEEP: 1800,
    Stage.NOISE: 1800,
    Stage.PROFILE: 600,
    Stage.QUICK: 1800,
    Stage.EVALUATE: 3600,
    Stage.FULL: 3600,
    Stage.VALIDATION: 3600,
}
"""Seconds a stage may take, several times what each took with the largest model it is meant for: loads take
up to 136 s with vLLM (FACTS §2), a whole stage on the reference model under a minute."""


class Material(Protocol):
    """The texts of a measurement, tokenised for one checkpoint, and the state of the machine."""

    def requests(self, workload: Workload, seed: int, pair: int, block: int) -> Sequence[GenerationRequest]:
        """The requests of one block: the same for both arms, others for other blocks and launch pairs."""
        ...

    def warmup(self, workload: Workload, seed: int) -> Sequence[GenerationRequest]:
        """Requests that are sent before the first block and not kept."""
        ...

    def documents(self, workload: Workload) -> Sequence[ScoringDocument]:
        """The held-out documents of the quality evaluation."""
        ...

    def tasks(self, workload: Workload) -> Sequence[ScoringTask]:
        """The instruction items of the quality evaluation."""
        ...

    def identity(self, workload: Workload) -> Mapping[str, Json]:
        """What the documents and tasks are: part of the key of an evaluation's artifact."""
        ...

    def machine(self) -> Mapping[str, Json]:
        """What does not change while a job runs: hardware, driver, package versions, git revision."""
        ...

    def moment(self) -> Mapping[str, Json]:
        """What changes: clocks, load, steal time, temperature. Taken before and after each block."""
        ...


class CheckpointStage(Protocol):
    """A stage that turns a checkpoint into another one, such as pruning; its output is an artifact."""

    stage: Stage

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey | None:
        """The key of the checkpoint it would build, None when the configuration does not ask for it."""
        ...

    def build(self, configuration: Configuration, checkpoint: Path, folder: Path) -> None:
        """Write the new checkpoint into `folder`; raises `Infeasible` when that can't be done."""
        ...


@dataclass(frozen=True)
class JobContext:
    """Where a job runs and what with.

    `folder` is the job's own; `cache_dir` outlives launches (compiled code); `cores` bounds how many
    launches load at once; `tool_versions` go into the keys of the artifacts it builds.
    """

    folder: Path
    checkpoint: Path
    artifacts: ArtifactStore
    cache_dir: Path
    cores: int
    material: Material
    checkpoint_stages: tuple[CheckpointStage, ...] = ()
    tool_versions: Mapping[str, Json] = field(default_factory=dict)
    limits_s: Mapping[Stage, float] = field(default_factory=lambda: DEFAULT_STAGE_LIMITS_S)
