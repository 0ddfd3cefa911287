"""Depth pruning from checkpoint to checkpoint, ranked on the original or on its quantized form."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.expected_tensors import check_tensors
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.pruning import scoring, scoring_process
from experiments.stages.pruning.block_influence import block_influence
from experiments.stages.pruning.calibration import calibration_documents
from experiments.stages.pruning.choosing import Choice, choose_layers
from experiments.stages.pruning.kept_scores import ROWS_KEPT_S, KeptScores
from experiments.stages.pruning.leave_one_out import LeaveOneOut
from experiments.stages.pruning.prune import PruneReport, RankedOn, prune
from experiments.stages.pruning.rank_correlation import rank_agreement
from experiments.stages.pruning.room import PROCESS_BYTES
from experiments.stages.pruning.scores import Ranking, ranking_from
from experiments.stages.pruning.scoring import PROCESS_MODULE, rank_layers
from experiments.stages.pruning.scoring_process import answer
from experiments.stages.pruning.stage import DepthPruning
from tests.integration.engines.checkpoints import LAYERS, tiny_mixture, tiny_model, write_checkpoint
from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer

DOCUMENTS = [tuple(range(7 * start, 7 * start + 50)) for start in range(4)]


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The criteria by which layers were scored, here and in this process: one of its own, which takes seconds
    to start, is asked by other tests."""
    criteria: list[str] = []

    def ask(module: str, request: dict[str, Any], **_: object) -> object:
        criteria.append(request["criterion"])
        return json.loads(json.dumps(answer(json.loads(json.dumps(request)))))

    monkeypatch.setattr(scoring, "ask", ask)
    return criteria


def rounded(source: Path, target: Path) -> Path:
    """The checkpoint with its layers' matrices rounded to few values: a quantized model, dequantized."""
    shutil.copytree(source, target)
    tensors = load_file(source / "model.safetensors")
    for name, value in tensors.items():
        if name.startswith("model.layers.") and value.ndim == 2:
            step = value.abs().amax(dim=-1, keepdim=True) / 2
            tensors[name] = (value / step).round() * step
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


def pruned_by_influence(source: Path, folder: Path) -> PruneReport:
    return prune(
        source, folder, choice=Choice(2, "any"), criterion="block_influence", documents=DOCUMENTS,
        log_path=folder.parent / "log",
    )  # fmt: skip


def test_pruning_takes_the_least_influential_layers(tmp_path: Path) -> None:
    model = tiny_model(layers=LAYERS)
    source = write_checkpoint(tmp_path / "before", model)
    report = pruned_by_influence(source, tmp_path / "after")
    scores = block_influence(model, DOCUMENTS)
    ranked = sorted(range(len(LAYERS)), key=scores.means.__getitem__)
    assert report.scores == pytest.approx(scores.means, abs=1e-5)
    assert set(report.removed) == set(ranked[:2])
    assert (report.ranked_on, report.agreement) == ("original", None)
    assert report.calibration_tokens == 200
    names = {path.name for path in (tmp_path / "after").iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors", "prune-scores.json"}
    written = json.loads((tmp_path / "after" / "prune-scores.json").read_text())
    assert written == {"original": report.rankings["original"].to_json()}
    assert report.weight_bytes == (tmp_path / "after" / "model.safetensors").stat().st_size


@pytest.mark.bench_only  # in the suite scores are the same to the bit after a kill, in test_prune_resuming.py
def test_pruning_repeats_itself_to_the_byte(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    one, two = (pruned_by_influence(source, tmp_path / name) for name in ("one", "two"))
    assert one == two
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.usefixtures("scored")
def test_ranked_on_the_quantized_model_the_report_compares_both_rankings(tmp_path: Path) -> None:
    model = tiny_model(layers=LAYERS)
    original = write_checkpoint(tmp_path / "original", model)
    quantized = rounded(original, tmp_path / "quantized")
    report = prune(
        original,
        tmp_path / "after",
        choice=Choice(2, "any"),
        criterion="leave_one_out_kl",
        documents=DOCUMENTS,
        ranked_on=RankedOn(original, quantized, "quantized"),
    )
    other = load_model(inspect_checkpoint(quantized), torch.float32, torch.device("cpu"))
    on_original, on_quantized = (LeaveOneOut(each, DOCUMENTS).all_layers() for each in (model, other))
    assert report.rankings["original"].scores.means == pytest.approx(on_original.means, abs=1e-4)
    assert report.scores == pytest.approx(on_quantized.means, abs=1e-4)
    assert report.scores != pytest.approx(on_original.means, rel=0.05)
    told = report.to_json()
    assert told["ranked_on"] == "quantized"
    assert told["removed"] == list(choose_layers(report.scores, LAYERS, Choice(2, "any")))
    agreement = rank_agreement(report.rankings["original"].scores, report.rankings["quantized"].scores)
    assert told["rank_correlation"] == agreement.to_json()
    assert agreement.documents == len(DOCUMENTS)
    assert set(json.loads((tmp_path / "after" / "prune-scores.json").read_text())) == {
        "original",
        "quantized",
    }
    kept = load_file(tmp_path / "after" / "model.safetensors")["model.layers.0.mlp.up_proj.weight"]
    first = report.kept[0]
    assert torch.equal(kept, model.state_dict()[f"model.layers.{first}.mlp.up_proj.weight"]), "the original's"


@pytest.mark.usefixtures("scored")
def test_pruning_the_quantized_model_by_the_original_s_ranking_compares_both_too(tmp_path: Path) -> None:
    original = write_checkpoint(tmp_path / "original", tiny_model(layers=LAYERS))
    quantized = rounded(original, tmp_path / "quantized")
    report = prune(
        quantized,
        tmp_path / "after",
        choice=Choice(1, "any"),
        criterion="block_influence",
        documents=DOCUMENTS,
        ranked_on=RankedOn(original, quantized, "original"),
    )
    assert report.ranked_on == "original"
    assert list(report.rankings) == ["original", "quantized"]
    assert report.removed == report.rankings["original"].removed
    agreement = rank_agreement(report.rankings["original"].scores, report.rankings["quantized"].scores)
    assert report.to_json()["rank_correlation"] == agreement.to_json()


@pytest.mark.parametrize(
    ("layers_removed", "restrict", "criterion", "sentence"),
    [
        (4, "any", "greedy_kl", r"3 GatedDeltaNet, 2 attention\) one of each kind must stay, which leaves 3"),
        (2, "attention", "greedy_kl", r"2 attention\) one of each kind must stay, which leaves 1"),
        (3, "gdn", "block_influence", "which leaves 2"),
        (0, "any", "block_influence", "layers_removed is 0"),
        (1, "mamba", "block_influence", r"pruning\.restrict 'mamba'"),
        (1, "any", "magic", r"pruning\.criterion 'magic'; it is one of block_influence, leave_one_out_kl"),
    ],
)
def test_what_cannot_go_is_refused_before_anything_runs(
    tmp_path: Path, layers_removed: int, restrict: str, criterion: str, sentence: str
) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    with pytest.raises(Infeasible, match=sentence) as told:
        prune(
            source,
            tmp_path / "after",
            choice=Choice(layers_removed, restrict),
            criterion=criterion,
            documents=DOCUMENTS,
        )
    assert told.value.kind == "illegal"
    assert not (tmp_path / "after").exists()


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize("each_expert", [False, True])
@pytest.mark.parametrize("criterion", ["block_influence", "leave_one_out_kl"])
def test_a_mixture_of_experts_is_pruned_as_any_other(
    tmp_path: Path, each_expert: bool, criterion: str
) -> None:
    model = tiny_mixture(layers=LAYERS)
    source = write_checkpoint(tmp_path / "before", model, wrapper=True, each_expert=each_expert)
    choice = Choice(2, "any")
    report = prune(source, tmp_path / "after", choice=choice, criterion=criterion, documents=DOCUMENTS)
    by = {
        "block_influence": block_influence,
        "leave_one_out_kl": lambda model, documents: LeaveOneOut(model, documents).all_layers(),
    }
    scores = by[criterion](model, DOCUMENTS)
    assert report.scores == pytest.approx(scores.means, abs=1e-4)
    assert report.removed == choose_layers(scores.means, LAYERS, choice)
    files = inspect_checkpoint(tmp_path / "after")
    check_tensors(files)
    left = load_model(files, torch.float32, torch.device("cpu"))
    whole = load_model(inspect_checkpoint(source), torch.float32, torch.device("cpu"))
    for place, layer in enumerate(report.kept):
        own, before = (each.model.layers[at].state_dict() for each, at in ((left, place), (whole, layer)))
        assert all(torch.equal(own[name], before[name]) for name in before)


def test_experts_of_a_layer_that_are_not_all_there_or_differ_are_told(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path, tiny_mixture(), each_expert=True)
    tensors, name = load_file(source / "model.safetensors"), "model.layers.2.mlp.experts.3.up_proj.weight"
    save_file({**tensors, name: tensors[name][:, :-1].clone()}, source / "model.safetensors")
    files = inspect_checkpoint(source)
    with pytest.raises(
        Infeasible, match=r"model\.layers\.2\.mlp\.experts\.\* differ in their shapes"
    ) as told:
        load_model(files, torch.float32, torch.device("cpu"))
    assert told.value.kind == "checkpoint"
    save_file({key: each for key, each in tensors.items() if key != name}, source / "model.safetensors")
    with pytest.raises(Infeasible, match=r"layers\.2\.mlp\.experts\.3\.up_proj\.weight is missing, where"):
        load_model(inspect_checkpoint(source), torch.float32, torch.device("cpu"))


def test_models_to_rank_on_must_be_there_and_have_the_same_layers(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    other = write_checkpoint(tmp_path / "other", tiny_model(layers=LAYERS[:4]))

    def pruned(ranked_on: RankedOn) -> None:
        prune(
            source,
            tmp_path / "after",
            choice=Choice(1, "any"),
            criterion="block_influence",
            documents=DOCUMENTS,
            ranked_on=ranked_on,
        )

    with pytest.raises(Infeasible, match="ranked on the quantized model, and no checkpoint"):
        pruned(RankedOn(source, None, "quantized"))
    with pytest.raises(Infeasible, match="they must be alike"):
        pruned(RankedOn(source, other, "quantized"))
    assert not (tmp_path / "after").exists()


def test_weights_that_do_not_load_are_told_and_nothing_is_written(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"intermediate_size": 65}))
    before = set(psutil.Process().children())
    with pytest.raises(Infeasible, match="asks for") as told:
        prune(
            source,
            tmp_path / "after",
            choice=Choice(1, "any"),
            criterion="block_influence",
            documents=DOCUMENTS,
        )
    assert told.value.kind == "checkpoint"
    assert not (tmp_path / "after").exists()
    assert set(psutil.Process().children()) <= before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda tensors: tensors["model.norm.weight"].fill_(float("nan")), "not finite"),
        (None, "outside the vocabulary of 512"),
    ],
)
def test_what_cannot_be_scored_is_told(
    tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], object] | None, sentence: str
) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    documents = [(1, 2, 3)] if change else [(1, 512, 3)]
    if change:
        tensors = load_file(source / "model.safetensors")
        change(tensors)
        save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    request = {
        "checkpoints": {"original": str(source)},
        "criterion": "leave_one_out_kl",
        "documents": documents,
        "layers_removed": 1,
        "restrict": "any",
        "threads": 1,
        "device": "cpu",
        "number_format": "float32",
    }
    with pytest.raises(Infeasible, match=sentence) as told:
        answer(request)
    assert told.value.kind == "checkpoint"


def test_layers_are_ranked_in_the_format_that_was_asked_for_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))

    def ranked(number_format: str, free: int) -> Ranking:
        monkeypatch.setattr(scoring_process, "available_bytes", lambda device: free)
        request = {
            "checkpoints": {"original": str(source)},
            "criterion": "leave_one_out_kl",
            "documents": [(1, 2, 3), (4, 5)],
            "layers_removed": 1,
            "restrict": "any",
            "threads": 1,
            "device": "cpu",
            "number_format": number_format,
        }
        return ranking_from(answer(request)["original"])

    full, half = ranked("float32", 2**40), ranked("bfloat16", 2**40)
    assert (full.computed_in, half.computed_in) == ("float32 on cpu", "bfloat16 on cpu")
    assert half.scores.means == pytest.approx(full.scores.means, rel=0.2, abs=0.02)
    assert half.scores.means != full.scores.means
    with pytest.raises(Infeasible, match=r"in float32, .* takes 0\.\d GB even .* 0\.\d GB are avail") as told:
        ranked("float32", PROCESS_BYTES)
    assert told.value.kind == "out_of_memory"


def test_a_gpu_that_is_not_there_is_told(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    why = "PyTorch .* is a build for CPUs" if torch.version.cuda is None else "there is no such GPU here"
    with pytest.raises(Infeasible, match=f"^Ranking layers on cuda:0 can't be: {why}") as told:
        rank_layers({"original": source}, "block_influence", Choice(1, "any"), [(1, 2, 3)], device="cuda:0")
    assert told.value.kind == "not_installed"


class TestKeptScores:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        return write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))

    def ranked(self, source: Path, kept: KeptScores | None, criterion: str, choice: Choice) -> Ranking:
        documents = [(1, 2, 3), (4, 5)]
        return rank_layers({"original": source}, criterion, choice, documents, kept=kept)["original"]

    @pytest.mark.parametrize("criterion", ["block_influence", "leave_one_out_kl"])
    def test_another_choice_is_made_from_them_without_scoring_again(
        self, source: Path, tmp_path: Path, scored: list[str], criterion: str
    ) -> None:
        two = Choice(2, "gdn")
        fresh = self.ranked(source, None, criterion, two)
        kept = KeptScores(tmp_path / "kept")
        self.ranked(source, kept, criterion, Choice(1, "any"))
        assert len(scored) == 2
        assert self.ranked(source, kept, criterion, two) == fresh
        assert len(scored) == 2

    def test_those_of_another_number_format_are_not_taken(
        self, source: Path, tmp_path: Path, scored: list[str]
    ) -> None:
        kept = KeptScores(tmp_path / "kept")
        for number_format in ("float32", "bfloat16", "bfloat16"):
            rankings = rank_layers(
                {"original": source}, "block_influence", Choice(1, "any"), [(1, 2, 3)], kept=kept,
                number_format=number_format,
            )  # fmt: skip
            assert rankings["original"].computed_in == f"{number_format} on cpu"
        assert len(scored) == 2

    def test_a_checkpoint_that_was_written_anew_is_scored_again(
        self, source: Path, tmp_path: Path, scored: list[str]
    ) -> None:
        kept = KeptScores(tmp_path / "kept")
        for _ in range(2):
            self.ranked(source, kept, "block_influence", Choice(1, "any"))
        assert len(scored) == 1
        os.utime(source / "config.json", ns=(1, 1))
        self.ranked(source, kept, "block_influence", Choice(1, "any"))
        assert len(scored) == 2

    def test_what_can_not_be_read_or_kept_is_computed_and_the_log_says_so(
        self, source: Path, tmp_path: Path, scored: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        kept = KeptScores(tmp_path / "kept")
        fresh = self.ranked(source, kept, "block_influence", Choice(1, "any"))
        [file] = kept.folder.iterdir()
        file.write_text('{"by_document": [')
        assert self.ranked(source, kept, "block_influence", Choice(1, "any")) == fresh
        assert f"{file} is damaged" in caplog.text
        nowhere = KeptScores(source / "config.json")
        assert self.ranked(source, nowhere, "block_influence", Choice(1, "any")) == fresh
        assert "Scores can't be kept" in caplog.text
        assert len(scored) == 3

    def test_a_criterion_that_scores_anew_in_each_round_keeps_rounds_and_no_ranking(
        self, source: Path, tmp_path: Path, scored: list[str]
    ) -> None:
        kept = KeptScores(tmp_path / "kept")
        for layers_removed in (2, 3):
            choice = Choice(layers_removed, "any")
            found = self.ranked(source, kept, "greedy_kl", choice)
            assert found == self.ranked(source, None, "greedy_kl", choice)
            [rows] = kept.folder.iterdir()
            assert len(list(rows.iterdir())) == 2 * layers_removed, "a file for each document and round"

    def test_rows_that_nothing_was_added_to_for_a_week_go(self, source: Path, tmp_path: Path) -> None:
        kept = KeptScores(tmp_path / "kept")
        old, young = kept.rows("old"), kept.rows("young")
        for rows, age_s in ((old, ROWS_KEPT_S + 3600), (young, ROWS_KEPT_S - 3600)):
            rows.mkdir(parents=True)
            os.utime(rows, (time.time() - age_s, time.time() - age_s))
        kept.drop_old_rows()
        assert (old.exists(), young.exists()) == (False, True)


def test_the_process_that_scores_ends_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", PROCESS_MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 3


class TestStage:
    def configuration(self, **knobs: KnobValue) -> Configuration:
        base: dict[str, KnobValue] = {
            "pruning.method": "depth",
            "pruning.layers_removed": 1,
            "pruning.criterion": "block_influence",
            "pruning.restrict": "gdn",
            "serving.threads": 1,
        }
        return Configuration.of(base | knobs)

    def checkpoint(self, folder: Path) -> Path:
        source = write_checkpoint(folder, tiny_model(layers=LAYERS))
        tiny_tokenizer().save(str(source / "tokenizer.json"))
        return source

    @pytest.mark.usefixtures("scored")
    def test_it_builds_what_the_configuration_asks_for(self, tmp_path: Path) -> None:
        source = self.checkpoint(tmp_path / "before")
        report = DepthPruning().build(self.configuration(), source, tmp_path / "after")
        assert report["computed_in"] == "float32 on cpu"
        assert [LAYERS[index] for index in report["removed"]] == ["linear_attention"]
        assert (tmp_path / "after" / "tokenizer.json").is_file()
        documents = calibration_documents(source)
        assert report["calibration_tokens"] == sum(map(len, documents)) == 16 * 512
        assert len({document[0] for document in documents}) == 1, "each text begins after the same token"

    @pytest.mark.usefixtures("scored")
    def test_after_quantization_it_prunes_the_quantized_checkpoint_by_either_ranking(
        self, tmp_path: Path
    ) -> None:
        original = self.checkpoint(tmp_path / "original")
        quantized = rounded(original, tmp_path / "quantized")
        configuration = self.configuration(
            **{
                "quantization.method": "rtn",
                "pruning.order": "after_quantization",
                "pruning.ranked_on": "original",
            }
        )
        report = DepthPruning().build(configuration, quantized, tmp_path / "after", beside=original)
        assert report["ranked_on"] == "original"
        assert report["rank_correlation"]["layers"] == len(LAYERS)
        documents = calibration_documents(original)
        model = load_model(inspect_checkpoint(original), torch.float32, torch.device("cpu"))
        assert report["scores"] == pytest.approx(block_influence(model, documents).means, abs=1e-5)
        name = "mlp.up_proj.weight"
        pruned = load_file(tmp_path / "after" / "model.safetensors")[f"model.layers.0.{name}"]
        first = report["kept"][0]
        assert torch.equal(pruned, load_file(quantized / "model.safetensors")[f"model.layers.{first}.{name}"])

    def test_another_method_is_told(self, tmp_path: Path) -> None:
        configuration = self.configuration(**{"pruning.method": "width"})
        with pytest.raises(Infeasible, match=r"no pruning\.method 'width'"):
            DepthPruning().build(configuration, tmp_path, tmp_path / "after")
