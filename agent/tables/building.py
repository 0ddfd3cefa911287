"""The checkpoints of a table's loads: built by the stages that a configuration asks for, each once."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.artifacts.store import ArtifactStore
from experiments.artifacts.stored import StoredArtifact
from experiments.engines.reference.inspection import QUANTIZATION_KEYS
from experiments.job.checkpoints import staged_checkpoint
from experiments.job.context import CheckpointStage
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.space.configuration import Configuration

REPORT = "build.json"
"""File of an artifact that tells what its stage told, and the processor's seconds."""


@dataclass(frozen=True)
class Built:
    """A checkpoint of the table: its folder, and the artifacts that it came from, the last one its own."""

    folder: Path
    artifacts: tuple[str, ...]

    @property
    def name(self) -> str:
        """What names its weights: the artifact, or `original`."""
        return self.artifacts[-1] if self.artifacts else "original"


@dataclass
class Builder:
    """Builds into `store`; `tell` gets the fields of a journal's line for each artifact met first."""

    checkpoint: Path
    stages: Sequence[CheckpointStage]
    store: ArtifactStore
    tell: Callable[[Mapping[str, Any]], None]
    told: set[str] = field(default_factory=set)

    def built(self, configuration: Configuration) -> Built:
        """The checkpoint of a configuration. Raises `Infeasible` when it can't be built."""
        folder, artifacts = staged_checkpoint(self.checkpoint, self.stages, configuration, self._run)
        return Built(folder, artifacts)

    def _run(
        self,
        stage: CheckpointStage,
        configuration: Configuration,
        checkpoint: Path,
        inputs: tuple[str, ...],
        beside: Path | None,
    ) -> StoredArtifact:
        def build(folder: Path) -> None:
            before_s = processor_s()
            report = dict(stage.build(configuration, checkpoint, folder, beside))
            told = {"processor_s": round(processor_s() - before_s, 2), "report": report}
            (folder / REPORT).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")

        key = stage.key(configuration, checkpoint, inputs, checkpoint_fingerprint(self.checkpoint))
        artifact = self.store.build(key, build)
        if artifact.digest not in self.told:
            self.told.add(artifact.digest)
            report = json.loads((artifact.path / REPORT).read_text(encoding="utf-8"))
            seconds = {"wall_s": round(artifact.build_s, 2), "processor_s": report["processor_s"]}
            self.tell({"artifact": artifact.digest, "stage": stage.stage.value, **seconds})
        return artifact


def processor_s() -> float:
    """Seconds of all cores that this process and those that it has waited for have taken so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def architecture(folder: Path) -> str:
    """The shape of a checkpoint as text, equal for those whose steps compile to the same code."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return json.dumps({name: config[name] for name in sorted(config) if name not in QUANTIZATION_KEYS})
