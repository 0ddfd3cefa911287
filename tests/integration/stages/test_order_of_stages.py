"""A job prunes before or after quantization, and gets the model that the ranking needs beside its own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.store import ArtifactStore
from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.context import JobContext
from experiments.job.limits import StageLimits
from experiments.job.records import Records
from experiments.job.running_job import RunningJob
from experiments.measurement.evidence import Json, Stage
from experiments.space.configuration import Configuration
from experiments.stages.pruning.stage import DepthPruning
from tests.integration.engines.checkpoints import LAYERS, tiny_model, write_checkpoint
from tests.simulated.engine import SimulatedEngine
from tests.simulated.material import SimulatedMaterial
from tests.simulated.specs import a_test_job
from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer


class Rounding:
    """The smallest quantization: matrices of layers become few values, written out in full."""

    stage = Stage.QUANTIZE

    def asked(self, configuration: Configuration) -> bool:
        return configuration.get("quantization.method", "none") != "none"

    def place(self, configuration: Configuration) -> int:
        return 1

    def beside(self, configuration: Configuration) -> Configuration | None:
        return None

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        return ArtifactKey("checkpoint", {"stage": "round", "model": model_fingerprint}, tuple(parents))

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: object = None,
    ) -> Mapping[str, Json]:
        for path in checkpoint.iterdir():
            if not path.name.endswith("-report.json"):
                (folder / path.name).write_bytes(path.read_bytes())
        tensors = load_file(folder / "model.safetensors")
        for name, value in tensors.items():
            if name.startswith("model.layers.") and value.ndim == 2:
                tensors[name] = rounded(value)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return {}


def rounded(value: torch.Tensor) -> torch.Tensor:
    step = value.abs().amax(dim=-1, keepdim=True) / 2
    return (value / step).round() * step


@pytest.fixture
def job(tmp_path: Path) -> Iterator[RunningJob]:
    source = write_checkpoint(tmp_path / "model", tiny_model(layers=LAYERS))
    tiny_tokenizer().save(str(source / "tokenizer.json"))
    with ArtifactStore(tmp_path / "artifacts") as store, Records(tmp_path / "records.jsonl") as records:
        stages = (DepthPruning(), Rounding())
        place = JobContext(tmp_path, source, store, tmp_path, 2, SimulatedMaterial(), stages)
        yield RunningJob(a_test_job(), place, SimulatedEngine(), records, StageLimits({}, None))


def depth(order: str, ranked_on: str) -> Configuration:
    return Configuration.of(
        {
            "pruning.method": "depth",
            "pruning.layers_removed": 2,
            "pruning.criterion": "block_influence",
            "pruning.restrict": "any",
            "pruning.order": order,
            "pruning.ranked_on": ranked_on,
            "quantization.method": "rtn",
            "serving.threads": 1,
        }
    )


@pytest.mark.bench_only
def test_both_orders_ranked_on_the_quantized_model_give_the_same_weights(job: RunningJob) -> None:
    """Rounding is by weight, so that only the ranking could make the two differ, and it is the same one."""
    before, of_before = prepare_checkpoint(job, depth("before_quantization", "quantized"))
    after, of_after = prepare_checkpoint(job, depth("after_quantization", "quantized"))
    tensors, others = (load_file(folder / "model.safetensors") for folder in (before, after))
    assert tensors.keys() == others.keys()
    assert all(torch.equal(value, others[name]) for name, value in tensors.items())
    assert of_before != of_after

    artifacts = {each.digest: each for each in job.records.fold.result().artifacts}
    kinds = {digest: each.inputs["stage"] for digest, each in artifacts.items()}
    assert [kinds[digest] for digest in of_before] == ["prune", "round"]
    assert [kinds[digest] for digest in of_after] == ["round", "prune"]
    assert artifacts[of_before[0]].inputs["parents"] == [of_after[0]], "it was ranked on the rounded model"
    assert artifacts[of_after[1]].inputs["parents"] == [of_after[0]]

    reports = [
        stage.detail["report"] for stage in job.records.fold.result().stages if stage.stage is Stage.PRUNE
    ]
    first, second = reports
    assert isinstance(first, dict)
    assert first == second
    assert first["ranked_on"] == "quantized"
    correlation = first["rank_correlation"]
    assert isinstance(correlation, dict)
    assert correlation["documents"] == 16
    assert json.loads((after / "prune-report.json").read_text()) == second
