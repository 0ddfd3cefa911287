"""Texts for the simulated engine, which reads none of them, and a checkpoint stage that writes one line."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.artifacts.key import ArtifactKey
from experiments.corpora.standard_library import fingerprint, held_out_modules
from experiments.engines.port import GenerationRequest, Infeasible, ScoringDocument, ScoringTask
from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.measurement.evidence import Json, Stage
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration


class SimulatedMaterial:
    def requests(self, workload: Workload, seed: int, pair: int, block: int) -> Sequence[GenerationRequest]:
        return [
            GenerationRequest(f"prompt {pair}.{block}.{number}", (1, 2, 3), workload.new_tokens, seed)
            for number in range(workload.requests_per_block)
        ]

    def warmup(self, workload: Workload, seed: int) -> Sequence[GenerationRequest]:
        return [GenerationRequest("warm-up", (1,), workload.new_tokens, seed)] * workload.requests_before

    def documents(self, workload: Workload, part: int = 0) -> Sequence[ScoringDocument]:
        count = workload.evaluation_documents
        return [ScoringDocument(f"text {count * part + n}", (1, 2), 1000) for n in range(count)]

    def tasks(self, workload: Workload, part: int = 0) -> Sequence[ScoringTask]:
        count = workload.evaluation_items
        return [ScoringTask(f"task {count * part + n}", (1,), (2,)) for n in range(count)]

    def drafting_prompts(self, workload: Workload) -> Sequence[GenerationRequest]:
        return [
            GenerationRequest(f"{content}:{n}", (1, 2, 3), workload.drafting_new_tokens)
            for content in CONTENT_CLASSES
            for n in range(workload.drafting_prompts)
        ]

    def identity(self, workload: Workload, part: int = 0) -> Mapping[str, Json]:
        return {
            "documents": workload.evaluation_documents,
            "tasks": workload.evaluation_items,
            "part": part,
        }

    def texts(self) -> str:
        """Those of the held-out modules here, as a job's are that reads them."""
        return fingerprint(held_out_modules())

    def machine(self) -> Mapping[str, Json]:
        return {"host": "simulated", "texts": self.texts()}

    def moment(self) -> Mapping[str, Json]:
        return {"load": 0.5}


class SimulatedPruning:
    """Builds a checkpoint when `simulated.layers` is set; 0 layers can't be built."""

    stage = Stage.PRUNE

    def asked(self, configuration: Configuration) -> bool:
        return "simulated.layers" in configuration

    def place(self, configuration: Configuration) -> int:
        return 0

    def beside(self, configuration: Configuration) -> Configuration | None:
        return None

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        layers = configuration["simulated.layers"]
        return ArtifactKey("checkpoint", {"layers": layers, "model": model_fingerprint}, tuple(parents))

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: object = None,
    ) -> Mapping[str, Json]:
        if configuration["simulated.layers"] == 0:
            raise Infeasible("build_failed", "Nothing is left of the simulated model.")
        (folder / "weights").write_text(str(configuration["simulated.layers"]))
        return {"layers": configuration["simulated.layers"]}
