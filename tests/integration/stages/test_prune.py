"""Depth pruning: the scores are Block Influence, the files are those of a model with fewer layers."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.space.configuration import Configuration
from experiments.stages.block_influence import block_influence
from experiments.stages.layer_removal import remove_layers
from experiments.stages.prune import DepthPruning, calibration_documents, prune
from tests.integration.engines.checkpoints import LAYERS, tiny_config, tiny_model, write_checkpoint
from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer

DOCUMENTS = [tuple(range(7 * start, 7 * start + 50)) for start in range(4)]


def pruned_by_hand(model: Qwen3_5ForCausalLM, removed: set[int]) -> Qwen3_5ForCausalLM:
    """The same model with layers taken out of its module list: no file is involved."""
    kept = [index for index in range(len(LAYERS)) if index not in removed]
    smaller = Qwen3_5ForCausalLM(tiny_config([LAYERS[index] for index in kept])).eval()
    state = {
        name: value for name, value in model.state_dict().items() if not name.startswith("model.layers.")
    }
    for new, old in enumerate(kept):
        for name, value in model.model.layers[old].state_dict().items():
            state[f"model.layers.{new}.{name}"] = value
    smaller.load_state_dict(state)
    return smaller


def test_block_influence_is_read_before_the_final_norm() -> None:
    model = tiny_model(layers=LAYERS)
    scores = block_influence(model, DOCUMENTS)
    cosines = torch.zeros(len(LAYERS), dtype=torch.double)
    tokens = 0
    with torch.inference_mode():
        for document in DOCUMENTS:
            states = list(model(torch.tensor([document]), output_hidden_states=True).hidden_states)
            last = states[-2]
            kind = model.model.layers[-1]
            cos_sin = model.model.rotary_emb(last, torch.arange(len(document)).expand(3, 1, -1))
            mask = torch.full((len(document),) * 2, float("-inf")).triu(1)[None, None]
            states[-1] = kind(last, position_embeddings=cos_sin, attention_mask=mask)
            for layer in range(len(LAYERS)):
                cosines[layer] += (
                    torch.cosine_similarity(states[layer], states[layer + 1], dim=-1).double().sum()
                )
            tokens += len(document)
    assert scores == pytest.approx((1 - cosines / tokens).tolist(), abs=1e-5)
    assert len({round(score, 3) for score in scores}) == len(LAYERS)


@pytest.mark.parametrize("form", [{}, {"wrapper": True}, {"shards": 3}, {"wrapper": True, "shards": 2}])
@pytest.mark.parametrize("removed", [(0,), (1, 3), (4,)])
def test_the_pruned_checkpoint_is_the_model_without_those_layers(
    tmp_path: Path, form: dict[str, int], removed: tuple[int, ...]
) -> None:
    model = tiny_model(layers=LAYERS)
    before = inspect_checkpoint(write_checkpoint(tmp_path / "before", model, **form))  # type: ignore[arg-type]
    remove_layers(before, removed, tmp_path / "after")
    after = inspect_checkpoint(tmp_path / "after")
    loaded = load_model(after, torch.float32, torch.device("cpu"))
    ids = torch.arange(30)[None]
    with torch.inference_mode():
        assert torch.equal(loaded(ids).logits, pruned_by_hand(model, set(removed))(ids).logits)


def test_transformers_loads_the_pruned_checkpoint_unchanged(tmp_path: Path) -> None:
    model = tiny_model(layers=LAYERS)
    before = inspect_checkpoint(write_checkpoint(tmp_path / "before", model, dtype=torch.bfloat16))
    remove_layers(before, (1, 2), tmp_path / "after")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "after")
    assert loaded.config.layer_types == [LAYERS[0], LAYERS[3], LAYERS[4]]
    assert loaded.config.num_hidden_layers == 3
    expected = model.model.layers[3].mlp.up_proj.weight.to(torch.bfloat16)
    assert torch.equal(loaded.model.layers[1].mlp.up_proj.weight, expected)


def test_what_is_no_layer_stays_byte_for_byte(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS), dtype=torch.bfloat16)
    (source / "tokenizer.json").write_text('{"kept": "naïve"}')
    (source / "README.md").write_text("A card of the model before.")
    remove_layers(inspect_checkpoint(source), (0,), tmp_path / "after")
    before, after = (load_file(folder / "model.safetensors") for folder in (source, tmp_path / "after"))
    outside = {name for name in before if not name.startswith("model.layers.")}
    assert {"mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight", "model.norm.weight"} <= outside
    for name in outside:
        assert torch.equal(before[name], after[name])
        assert before[name].dtype == after[name].dtype
    with safe_open(tmp_path / "after" / "model.safetensors", framework="pt") as tensors:
        assert tensors.metadata() == {"format": "pt"}
    for name in ("tokenizer.json", "generation_config.json"):
        assert (tmp_path / "after" / name).read_bytes() == (source / name).read_bytes()
    assert not (tmp_path / "after" / "README.md").exists()


def test_pruning_takes_the_least_influential_layers_and_repeats_itself_to_the_byte(tmp_path: Path) -> None:
    model = tiny_model(layers=LAYERS)
    source = write_checkpoint(tmp_path / "before", model)
    reports = [
        prune(
            source,
            tmp_path / name,
            layers_removed=2,
            criterion="block_influence",
            restrict="any",
            documents=DOCUMENTS,
            log_path=tmp_path / "log",
        )
        for name in ("one", "two")
    ]
    scores = block_influence(model, DOCUMENTS)
    ranked = sorted(range(len(LAYERS)), key=scores.__getitem__)
    assert reports[0] == reports[1]
    assert reports[0].scores == pytest.approx(scores, abs=1e-5)
    assert set(reports[0].removed) == set(ranked[:2])
    assert reports[0].calibration_tokens == 200
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors", "pruning.json"}
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    written = json.loads((tmp_path / "one" / "pruning.json").read_text())
    assert written["removed"] == list(reports[0].removed)
    assert reports[0].weight_bytes == (tmp_path / "one" / "model.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("layers_removed", "restrict", "sentence"),
    [
        (4, "any", r"3 GatedDeltaNet, 2 attention\) one of each kind must stay, which leaves 3"),
        (2, "attention", r"2 attention\) one of each kind must stay, which leaves 1"),
        (3, "gdn", "which leaves 2"),
        (0, "any", "layers_removed is 0"),
        (1, "mamba", "restrict 'mamba'"),
    ],
)
def test_what_cannot_go_is_refused_before_anything_runs(
    tmp_path: Path, layers_removed: int, restrict: str, sentence: str
) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    with pytest.raises(Infeasible, match=sentence) as told:
        prune(
            source,
            tmp_path / "after",
            layers_removed=layers_removed,
            criterion="block_influence",
            restrict=restrict,
            documents=DOCUMENTS,
        )
    assert told.value.kind == "illegal"
    assert not (tmp_path / "after").exists()


def test_weights_that_do_not_load_are_told_and_nothing_is_written(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"intermediate_size": 65}))
    with pytest.raises(Infeasible, match="asks for") as told:
        prune(
            source,
            tmp_path / "after",
            layers_removed=1,
            criterion="block_influence",
            restrict="any",
            documents=DOCUMENTS,
        )
    assert told.value.kind == "checkpoint"
    assert not (tmp_path / "after").exists()
    assert psutil.Process().children() == []


def test_the_process_that_scores_ends_with_its_parent() -> None:
    module = "experiments.stages.block_influence_process"
    with subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 3


class TestStage:
    def configuration(self, **knobs: str | int) -> Configuration:
        base = {
            "pruning.method": "depth",
            "pruning.layers_removed": 1,
            "pruning.criterion": "block_influence",
            "pruning.restrict": "gdn",
            "serving.threads": 1,
        }
        return Configuration.of(base | knobs)

    def test_only_pruning_makes_a_key_and_only_pruning_knobs_change_it(self, tmp_path: Path) -> None:
        stage = DepthPruning()
        assert stage.key(Configuration.of({"serving.threads": 1}), tmp_path, (), "f") is None
        assert stage.key(Configuration.of({"pruning.method": "none"}), tmp_path, (), "f") is None
        keys = [
            stage.key(self.configuration(), tmp_path, (), "f"),
            stage.key(self.configuration(**{"serving.threads": 2}), tmp_path / "elsewhere", (), "f"),
            stage.key(self.configuration(**{"pruning.restrict": "any"}), tmp_path, (), "f"),
            stage.key(self.configuration(), tmp_path, (), "another model"),
            stage.key(self.configuration(), tmp_path, ("parent",), "f"),
        ]
        digests = [key.digest for key in keys if key is not None]
        assert digests[0] == digests[1]
        assert len(set(digests)) == 4

    def test_it_builds_what_the_configuration_asks_for(self, tmp_path: Path) -> None:
        source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
        tiny_tokenizer().save(str(source / "tokenizer.json"))
        DepthPruning().build(self.configuration(), source, tmp_path / "after")
        report = json.loads((tmp_path / "after" / "pruning.json").read_text())
        assert [LAYERS[index] for index in report["removed"]] == ["linear_attention"]
        assert (tmp_path / "after" / "tokenizer.json").is_file()
        documents = calibration_documents(source)
        assert report["calibration_tokens"] == sum(map(len, documents)) == 16 * 512
        assert len({document[0] for document in documents}) == 1, "each text begins after the same token"
