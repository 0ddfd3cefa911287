"""Quantization by the real library: what comes out loads here and in transformers, and nothing is lost."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.packed_layout import packed_modules
from experiments.engines.reference.stored_weights import stored_weights
from experiments.stages.copied_files import SCORES_FILE
from experiments.stages.pruning.layer_removal import remove_layers
from experiments.stages.quantize.environment import PYTHON_VARIABLE, needed_python
from experiments.stages.quantize.recipe import CPU_GRID_POINTS, QuantizationRecipe
from experiments.stages.quantize.stage import CalibrationText, quantize
from experiments.torch_build import torch_build
from tests.integration.engines.checkpoints import LAYERS
from tests.integration.stages.quantizable import CPU, quantizable, quantizable_model

pytestmark = pytest.mark.slow

TEXT = CalibrationText(
    [tuple((7 * start + step * (start + 1)) % 256 for step in range(40 + start % 2)) for start in range(6)],
    "of the tests",
    "six documents of 40 or 41 tokens",
)
IDS = torch.arange(60)[None]

EIGHT = QuantizationRecipe("awq", 8, 32, True, 8, False, "none")
FOUR = QuantizationRecipe("rtn", 4, 32, False, 8, False, "none")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that was pruned before: the ranking beside it tells nothing of what is made of it."""
    folder = quantizable(tmp_path_factory.mktemp("original"), quantizable_model())
    (folder / SCORES_FILE).write_text("{}")
    return folder


@pytest.fixture(scope="module")
def awq(original: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """8 bits by AWQ: so fine that only a mistake in the scaling could change the model."""
    out = tmp_path_factory.mktemp("awq")
    return out, quantize(original, out, EIGHT, TEXT)


@pytest.fixture(scope="module")
def rtn(original: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    out = tmp_path_factory.mktemp("rtn")
    return out, quantize(original, out, FOUR)


def logits(folder: Path) -> torch.Tensor:
    model = load_model(inspect_checkpoint(folder), torch.float32, CPU)
    with torch.inference_mode():
        found: torch.Tensor = model(IDS).logits
    return found


def transformers_logits(folder: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        found: torch.Tensor = model(IDS).logits
    return found


def relative_distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def test_awq_s_scaling_leaves_the_model_what_it_was(
    original: Path, awq: tuple[Path, Mapping[str, Any]], rtn: tuple[Path, Mapping[str, Any]]
) -> None:
    assert relative_distance(logits(awq[0]), logits(original)) < 0.05
    assert 0.05 < relative_distance(logits(rtn[0]), logits(original)) < 1
    before, after = (load_file(folder / "model.safetensors") for folder in (original, awq[0]))
    moved = {name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])}
    ends = {name.split(".", 3)[-1] for name in moved}
    assert ends >= {"input_layernorm.weight", "linear_attn.in_proj_a.weight"}
    assert ends <= {
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
        "linear_attn.in_proj_a.weight",
        "linear_attn.in_proj_b.weight",
    }


@pytest.mark.parametrize("kind", ["awq", "rtn"])
def test_transformers_and_the_engine_read_the_same_model(kind: str, request: pytest.FixtureRequest) -> None:
    folder, _ = request.getfixturevalue(kind)
    torch.testing.assert_close(logits(folder), transformers_logits(folder), atol=1e-4, rtol=1e-4)


@pytest.mark.bench_only
def test_the_same_inputs_give_the_same_bytes(
    original: Path, awq: tuple[Path, Mapping[str, Any]], tmp_path: Path
) -> None:
    """In `make test` one that is killed and gone on with gives the bytes of one that is not."""
    quantize(original, tmp_path, EIGHT, TEXT)
    for path in awq[0].iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_a_checkpoint_and_its_tokenizer_are_written_and_nothing_else(
    awq: tuple[Path, Mapping[str, Any]],
) -> None:
    names = {path.name for path in awq[0].iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}


def test_each_module_has_the_bits_it_was_to_have(original: Path, rtn: tuple[Path, Mapping[str, Any]]) -> None:
    folder, report = rtn
    files = inspect_checkpoint(folder)
    packed = packed_modules(files)
    wanted = {"linear_attention": 3, "full_attention": 4}
    assert len(packed) == report["modules"] == sum(wanted[kind] + 3 for kind in LAYERS)
    for name, module in packed.items():
        bits = 8 if name.endswith("linear_attn.out_proj") else 4
        assert (module.bits, module.group_size, module.symmetric) == (bits, 32, False), name
    high = {name.split(".", 3)[-1] for name in files.tensors if "proj" in name and "weight_" not in name}
    assert high == {"linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight", "mlp.up_proj.weight"}
    assert "mtp.layers.0.mlp.up_proj.weight" in files.tensors, "the only dense up_proj is the MTP head's"
    told = stored_weights(files, "float32")
    assert told["stored"] == ("pack-quantized W4 g32 asymmetric; W8 g32 asymmetric in linear_attn.out_proj")


def test_the_report_tells_what_was_done(original: Path, awq: tuple[Path, Mapping[str, Any]]) -> None:
    report = awq[1]
    assert report["grid_points"] == CPU_GRID_POINTS
    assert report["bits_per_weight"] == 8 + 16 / 32
    parts = report["bytes_by_part"]
    assert parts["after"]["embedding"] == parts["before"]["embedding"]
    assert parts["after"]["mtp"] == parts["before"]["mtp"]
    assert parts["after"]["mlp"] < parts["before"]["mlp"]
    assert report["step_weight_bytes"]["after"] < report["step_weight_bytes"]["before"]
    for side, read in report["step_bytes_by_part"].items():
        assert sum(read.values()) == report["step_weight_bytes"][side]
        assert "mtp" not in read
    assert report["step_bytes_by_part"]["after"]["mlp"] < report["step_bytes_by_part"]["before"]["mlp"]
    errors = report["relative_weight_error"]
    assert set(errors) == {
        *(f"self_attn.{name}_proj" for name in "qkvo"),
        *(f"linear_attn.{name}" for name in ("in_proj_qkv", "in_proj_z", "out_proj")),
        *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
    }
    assert all(0 < error < 0.01 for error in errors.values())
    assert report["corpus"] == {"fingerprint": TEXT.fingerprint, "described": TEXT.described}
    assert report["calibration_tokens"] == 6 * 40 + 3
    assert report["peak_memory_bytes"] > 1e8
    assert report["versions"]["llmcompressor"].startswith("0.14.")
    json.dumps(report)


def test_a_quantized_checkpoint_loses_layers_and_still_loads(
    rtn: tuple[Path, Mapping[str, Any]], tmp_path: Path
) -> None:
    before = json.loads((rtn[0] / "config.json").read_text())["quantization_config"]
    remove_layers(inspect_checkpoint(rtn[0]), (0, 1), tmp_path)
    after = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    assert after["config_groups"] == before["config_groups"], "no name depends on a layer's number"
    assert after["ignore"] == before["ignore"]
    torch.testing.assert_close(logits(tmp_path), transformers_logits(tmp_path), atol=1e-4, rtol=1e-4)


@pytest.mark.bench_only  # in the suite AWQ quantizes such a one in test_quantize_resuming.py
def test_a_head_quantized_on_its_own_is_untied_under_a_wrapper_and_in_shards(tmp_path: Path) -> None:
    layers = ["linear_attention", "linear_attention", "full_attention"]
    source = quantizable(tmp_path / "before", quantizable_model(layers), wrapper=True, shards=2)
    recipe = QuantizationRecipe("rtn", 8, 32, True, 8, True, "edges")
    report = quantize(source, tmp_path / "after", recipe)
    files = inspect_checkpoint(tmp_path / "after")
    assert files.text_config["tie_word_embeddings"] is False
    packed = packed_modules(files)
    assert {name.split(".")[3] for name in packed if name != "lm_head"} == {"1"}, "edges are kept"
    assert "lm_head" in packed
    assert "lm_head" in report["relative_weight_error"]
    assert "model.visual.patch_embed.weight" in files.tensors
    assert "model.language_model.embed_tokens.weight" in files.tensors
    assert relative_distance(logits(tmp_path / "after"), logits(source)) < 0.05
    torch.testing.assert_close(
        logits(tmp_path / "after"), transformers_logits(tmp_path / "after"), atol=1e-4, rtol=1e-4
    )


def test_values_that_are_not_finite_are_refused_with_the_name(tmp_path: Path) -> None:
    source = quantizable(tmp_path / "before", quantizable_model(LAYERS[:2]))
    tensors = load_file(source / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = float("nan")
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(Infeasible, match=r"layers\.1\.mlp\.up_proj.* not finite") as told:
        quantize(source, tmp_path / "after", FOUR)
    assert told.value.kind == "build_failed"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_told_and_not_replaced(original: Path, tmp_path: Path) -> None:
    """A build of PyTorch for CPUs is told before the process begins, anything else by the process."""
    build = torch_build(needed_python())
    assert build is not None
    why = (
        "PyTorch .* is a build for CPUs; .* install quantize --gpu"
        if build.cuda is None
        else "there is no such"
    )
    with pytest.raises(Infeasible, match=f"^Quantizing on cuda:0 can't be: {why}") as told:
        quantize(original, tmp_path / "after", FOUR, device="cuda:0")
    assert told.value.kind == "not_installed"


def test_without_the_library_it_says_how_to_install_it(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    with pytest.raises(
        Infeasible, match=r"llmcompressor, which is not at .*: make .* engines install quantize"
    ) as told:
        quantize(original, tmp_path / "after", FOUR)
    assert told.value.kind == "not_installed"
    assert not (tmp_path / "after").exists()
