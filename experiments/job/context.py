"""What a job is given beside its spec: the place it runs in, the texts it measures with, its stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from configs.limits import LOAD_LIMIT_S
from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.store import ArtifactStore
from experiments.engines.port import GenerationRequest, ScoringDocument, ScoringTask
from experiments.measurement.evidence import Json, Stage
from experiments.measurement.plan import Workload
from experiments.quality_tasks.source import QualityTasks
from experiments.shapes.marker import is_shape
from experiments.space.configuration import Configuration
from experiments.telemetry.watching import GpuWatch

DEFAULT_STAGE_LIMITS_S: Mapping[Stage, float] = {
    Stage.STATIC: 600,
    Stage.PRUNE: 1800,
    Stage.QUANTIZE: 7200,
    Stage.DRAFT: 7200,
    Stage.KERNELS: 300,
    Stage.SWEEP: 1800,
    Stage.NOISE: 1800,
    Stage.PROFILE: 600,
    Stage.SCREEN: 3600,
    Stage.QUICK: 1800,
    Stage.EVALUATE: 3600,
    Stage.FULL: 3600,
    Stage.VALIDATION: 3600,
    Stage.FURTHER: 3600,
}
"""Seconds a stage may take, several times what each took with the largest model it is meant for: loads take
up to 136 s with vLLM (FACTS §2), a whole stage on the reference model under a minute; the static check makes
the items of quality tasks, which for one of lm-eval's own takes some ten seconds and more for a large one.
Timing kernels keeps to shorter limits of its own."""


def stage_limits_s(every_s: float | None) -> dict[Stage, float]:
    """Seconds each stage may take: `every_s` for all of them where it is given, else those above."""
    if every_s is None:
        return dict(DEFAULT_STAGE_LIMITS_S)
    return dict.fromkeys(DEFAULT_STAGE_LIMITS_S, every_s)


class Material(Protocol):
    """The texts of a measurement, tokenised for one checkpoint, and the state of the machine."""

    def requests(self, workload: Workload, seed: int, pair: int, block: int) -> Sequence[GenerationRequest]:
        """The requests of one block: the same for both arms, others for other blocks and launch pairs."""
        ...

    def warmup(self, workload: Workload, seed: int) -> Sequence[GenerationRequest]:
        """Requests that are sent before the first block and not kept."""
        ...

    def documents(self, workload: Workload, part: int = 0) -> Sequence[ScoringDocument]:
        """The held-out documents of a part of the quality evaluation; parts share none."""
        ...

    def tasks(self, workload: Workload, part: int = 0) -> Sequence[ScoringTask]:
        """The instruction items of a part of the quality evaluation; parts share none."""
        ...

    def drafting_prompts(self, workload: Workload) -> Sequence[GenerationRequest]:
        """The requests on which drafting is checked: `drafting_prompts` of each class of content, which an
        item's name begins with (`code:…`, `prose:…`, `instruct:…`)."""
        ...

    def identity(self, workload: Workload, part: int = 0) -> Mapping[str, Json]:
        """What the documents and tasks of a part are: part of the key of an evaluation's artifact."""
        ...

    def texts(self) -> str:
        """A fingerprint of all the text that prompts, documents and items are cut from."""
        ...

    def machine(self) -> Mapping[str, Json]:
        """What does not change while a job runs: hardware, driver, package versions, git revision, and
        under `texts` the fingerprint above."""
        ...

    def moment(self) -> Mapping[str, Json]:
        """What changes: clocks, load, steal time, temperature. Taken before and after each block."""
        ...


class CheckpointStage(Protocol):
    """A stage that turns a checkpoint into another one, such as pruning; its output is an artifact."""

    stage: Stage

    def asked(self, configuration: Configuration) -> bool:
        """Whether the configuration asks for it at all; what it asks may still be impossible."""
        ...

    def place(self, configuration: Configuration) -> int:
        """Where it stands among the stages of this configuration; the lowest is first."""
        ...

    def beside(self, configuration: Configuration) -> Configuration | None:
        """A configuration whose checkpoint it reads beside its own, such as the quantized model on which
        layers are ranked before the full one is pruned; None when there is none."""
        ...

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        """The key of the checkpoint it would build for a configuration that asks for it.

        `parents` are the artifacts that `checkpoint`, and the one beside it, came from. Raises `Infeasible`
        for what can't be built, such as from a file with no text in it.
        """
        ...

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: Callable[[int, int, str], None] = ...,
    ) -> Mapping[str, Json]:
        """Write the new checkpoint into `folder`; return what the stage tells of it, as small JSON data.

        `tell` is to be called with what is done, of how much, and a sentence on it. Raises `Infeasible` when
        it can't be built.
        """
        ...


@dataclass(frozen=True)
class JobContext:
    """Where a job runs and what with.

    `folder` is the job's own; `cache_dir` outlives launches (compiled code); `cores` bounds how many
    launches load at once; `tool_versions` go into the keys of the artifacts it builds; `load_limit_s` is the
    most that one launch may take until it is ready. `quality_tasks` has the tasks of lm-eval that a workload
    may ask for. `gpu_watch` makes what reads the job's GPU while a block
    runs, None on a CPU; `wait` waits for so many seconds.
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
    load_limit_s: float = LOAD_LIMIT_S
    quality_tasks: QualityTasks | None = None
    gpu_watch: Callable[[], GpuWatch] | None = None
    wait: Callable[[float], None] = time.sleep

    @property
    def latency_only(self) -> bool:
        """Whether the checkpoint is a shape, of which nothing but times is known."""
        return is_shape(self.checkpoint)
