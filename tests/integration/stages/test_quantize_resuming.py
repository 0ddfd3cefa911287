"""A quantization in the memory of one layer: what is finished outlives a kill, and the rest of a checkpoint,
sharded or wrapped around a vision tower, is what it was. By the real library."""

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from experiments.engines.one_answer import ask
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.packed_layout import packed_modules
from experiments.stages.quantize.environment import needed_python
from experiments.stages.quantize.finished_layers import FinishedLayers
from experiments.stages.quantize.recipe import QuantizationRecipe
from experiments.stages.quantize.stage import quantize
from tests.integration.engines.checkpoints import LAYERS
from tests.integration.stages.quantizable import quantizable, quantizable_model
from tests.integration.stages.test_quantize import TEXT, logits, relative_distance, transformers_logits

pytestmark = pytest.mark.slow

AWQ = QuantizationRecipe("awq", 4, 32, False, 8, True, "edges")
SHARDS = 3


@dataclass
class Told:
    """Everything that was told of progress; at `dies` layers, the process that quantizes is killed."""

    dies: int | None = None
    lines: list[tuple[int, int, str]] = field(default_factory=list)

    def __call__(self, done: int, planned: int, text: str) -> None:
        self.lines.append((done, planned, text))
        if done == self.dies:
            for child in psutil.Process().children():
                if "quantizing_process" in " ".join(child.cmdline()):
                    os.kill(child.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Qwen publishes: a wrapper with a vision tower and an MTP head, in several files."""
    folder = tmp_path_factory.mktemp("wrapped")
    return quantizable(folder, quantizable_model(), wrapper=True, shards=SHARDS)


@pytest.fixture(scope="module")
def whole(wrapped: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Told]:
    out, told = tmp_path_factory.mktemp("whole"), Told()
    quantize(wrapped, out, AWQ, TEXT, tell=told)
    return out, told


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return {name: each for path in folder.glob("*.safetensors") for name, each in load_file(path).items()}


def weight_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors*")}


def test_each_layer_is_told_when_it_is_finished(whole: tuple[Path, Told]) -> None:
    told = whole[1].lines
    layers = len(LAYERS)
    assert [line[:2] for line in told] == [(n, layers) for n in range(1, layers + 1)] + [(layers, layers)]
    assert told[1][2] == "quantized layer 2 of 5"
    assert told[-1][2] == "quantized the head"
    assert not (whole[0] / "unfinished").exists()


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(AWQ, id="awq"),
        pytest.param(replace(AWQ, method="rtn"), id="rtn", marks=pytest.mark.bench_only),
    ],
)
def test_nothing_of_a_finished_layer_is_held(
    wrapped: Path, recipe: QuantizationRecipe, tmp_path: Path
) -> None:
    """Else a model would be in memory whole when its last layer is quantized."""
    request = {
        "checkpoint": str(wrapped),
        "work": str(tmp_path),
        "recipe": asdict(recipe),
        "documents": [list(each) for each in TEXT.documents] if recipe.method == "awq" else [],
    }
    held = ask("tests.integration.stages.held_layers", request, doing="quantizes", python=needed_python())
    assert held == [0] * (len(LAYERS) + 1), "bytes after each layer and after the head"


@pytest.fixture(scope="module")
def killed(wrapped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a quantization that was killed after its second layer left to go on with."""
    folder = tmp_path_factory.mktemp("killed")
    with pytest.raises(Infeasible, match="process that quantizes ended") as told:
        quantize(wrapped, folder / "out", AWQ, TEXT, work_dir=folder / "work", tell=Told(dies=2))
    assert told.value.kind == "crashed"
    (kept,) = (folder / "work").iterdir()
    assert FinishedLayers(kept).count(len(LAYERS)) >= 2
    return folder / "work"


def test_a_killed_one_goes_on_after_its_last_finished_layer_and_gives_the_same_bytes(
    wrapped: Path, whole: tuple[Path, Told], killed: Path, tmp_path: Path
) -> None:
    work, again = shutil.copytree(killed, tmp_path / "work"), Told()
    report = quantize(wrapped, tmp_path / "out", AWQ, TEXT, work_dir=work, tell=again)
    assert report["resumed_layers"] >= 2
    assert "were finished before" in again.lines[0][2]
    assert len(again.lines) < len(whole[1].lines)
    assert weight_files(tmp_path / "out") == weight_files(whole[0])
    assert list(work.iterdir()) == []


def test_finished_layers_are_those_of_their_text_alone(
    wrapped: Path, killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the process that quantizes is told to look for them."""
    asked: list[str] = []

    def ask(module: str, request: Mapping[str, Any], **_: object) -> None:
        asked.append(request["work"])
        raise Infeasible("crashed", "It was only asked.")

    monkeypatch.setattr("experiments.stages.quantize.stage.ask", ask)
    for text in (TEXT, replace(TEXT, documents=TEXT.documents[:4])):
        with pytest.raises(Infeasible, match="only asked"):
            quantize(wrapped, tmp_path / "out", AWQ, text, work_dir=killed)
    (kept,) = killed.iterdir()
    assert asked[0] == str(kept)
    assert Path(asked[1]).parent == killed
    assert asked[1] != asked[0]


@pytest.mark.bench_only
def test_another_text_begins_anew_and_leaves_what_is_finished_of_the_first(
    wrapped: Path, killed: Path, tmp_path: Path
) -> None:
    work = shutil.copytree(killed, tmp_path / "work")
    other = type(TEXT)(TEXT.documents[:4], "other", "four")
    assert quantize(wrapped, tmp_path / "out", AWQ, other, work_dir=work)["resumed_layers"] == 0
    (kept,) = work.iterdir()
    assert FinishedLayers(kept).count(len(LAYERS)) >= 2


def test_all_but_the_quantized_layers_is_what_it_was(wrapped: Path, whole: tuple[Path, Told]) -> None:
    before, after = tensors(wrapped), tensors(whole[0])
    files = inspect_checkpoint(whole[0])
    packed = packed_modules(files)
    gone = {module.weight for module in packed.values()}
    assert {path.name for path in whole[0].glob("*.safetensors")} == {
        path.name for path in wrapped.glob("*.safetensors")
    }
    assert (before.keys() - gone) <= after.keys()
    untouched = ("model.visual.", "mtp.", "model.language_model.embed_tokens", "model.language_model.norm")
    edges = ("model.language_model.layers.0.", f"model.language_model.layers.{len(LAYERS) - 1}.")
    for name in before:
        if name.startswith((*untouched, *edges)):
            assert torch.equal(before[name], after[name]), name
    assert {name.split(".")[3] for name in packed if name != "lm_head"} == {"1", "2", "3"}
    assert "lm_head" in packed
    assert files.text_config["tie_word_embeddings"] is False, "it is quantized on its own"
    assert all(name.startswith("model.language_model.layers.") or name == "lm_head" for name in packed)


def test_what_comes_out_is_near_the_model_that_went_in_and_read_alike_by_transformers(
    wrapped: Path, whole: tuple[Path, Told]
) -> None:
    after = logits(whole[0])
    assert 0 < relative_distance(after, logits(wrapped)) < 0.5
    torch.testing.assert_close(after, transformers_logits(whole[0]), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda tokens: 10**6, "outside the vocabulary"),
        (lambda tokens: None, "AWQ needs calibration documents"),
    ],
)
def test_text_that_can_not_be_read_is_refused(
    wrapped: Path, tmp_path: Path, damage: Callable[[int], int | None], words: str
) -> None:
    token = damage(1)
    text = type(TEXT)([] if token is None else [(1, token)], "wrong", "wrong")
    with pytest.raises(Infeasible, match=words):
        quantize(wrapped, tmp_path / "out", AWQ, text)
