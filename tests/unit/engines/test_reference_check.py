import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from configs.cpu import usable_cores
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import Infeasible
from experiments.engines.reference.engine import ReferenceEngine
from experiments.space.configuration import Configuration, KnobValue


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_5_text", "num_hidden_layers": 4}))
    save_file({"mtp.a": np.ones(3, np.float32)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"serving.dtype": "bfloat16", "serving.threads": 1, "serving.compile": "off"},
        {"pruning.method": "depth", "pruning.layers_removed": 2},
        {"quantization.method": "none", "drafting.method": "none"},
        {"quantization.method": "awq", "quantization.group_size": 32},
        {"drafting.method": "mtp"},
        {"drafting.method": "mtp", "drafting.draft_tokens": 4},
        {"drafting.method": "ngram", "drafting.draft_tokens": 7, "drafting.ngram_tokens": 4},
    ],
)
def test_what_it_serves_passes(checkpoint: Path, knobs: dict[str, KnobValue]) -> None:
    ReferenceEngine().check(Configuration.of(knobs), checkpoint, "cpu")


@pytest.mark.parametrize(
    ("knobs", "kind", "sentence"),
    [
        ({"serving.dtype": "float16"}, "illegal", "float32 or bfloat16"),
        ({"serving.compile": "max-autotune"}, "illegal", "off, default, cpp_wrapper"),
        ({"serving.compile": False}, "illegal", "serving.compile is False"),
        ({"serving.threads": 0}, "illegal", "serving.threads is 0"),
        ({"serving.threads": usable_cores() + 1}, "illegal", f"may use 1 to {usable_cores()} cores"),
        ({"serving.threads": True}, "illegal", "serving.threads is True"),
        ({"serving.threads": "2"}, "illegal", "serving.threads is '2'"),
        ({"serving.cuda_graphs": True}, "unsupported", "no knob serving.cuda_graphs"),
        ({"drafting.method": "eagle3"}, "unsupported", "drafting.method=eagle3"),
        ({"drafting.method": "mtp", "drafting.temperature": 1.0}, "unsupported", "no knob drafting.temp"),
        ({"drafting.method": "mtp", "drafting.draft_tokens": 5}, "illegal", "it may be 1 to 4"),
        ({"drafting.method": "ngram", "drafting.draft_tokens": 8}, "illegal", "it may be 1 to 7"),
        ({"drafting.method": "ngram", "drafting.draft_tokens": 0}, "illegal", "draft_tokens is 0"),
        ({"drafting.method": "ngram", "drafting.draft_tokens": "2"}, "illegal", "is '2'; .*it may be 1 to 7"),
        ({"drafting.method": "ngram", "drafting.draft_tokens": True}, "illegal", "is True; .*be 1 to 7"),
        ({"drafting.method": "ngram", "drafting.ngram_tokens": "banana"}, "illegal", "it may be 2, 3, 4"),
        ({"drafting.method": "ngram", "drafting.ngram_tokens": 5}, "illegal", "it may be 2, 3, 4"),
        (
            {"drafting.method": "draft_model", "drafting.drafter": "/no/where"},
            "checkpoint",
            "no checkpoint at /no/where",
        ),
        (
            {"drafting.method": "dflash", "drafting.drafter": "/no/where"},
            "checkpoint",
            "no drafter at /no/where",
        ),
    ],
)
def test_what_it_does_not_serve_is_told(
    checkpoint: Path, knobs: dict[str, KnobValue], kind: str, sentence: str
) -> None:
    with pytest.raises(Infeasible, match=sentence) as told:
        ReferenceEngine().check(Configuration.of(knobs), checkpoint, "cpu")
    assert told.value.kind == kind


@pytest.mark.parametrize("mode", ["default", "cpp_wrapper"])
def test_compilation_without_a_compiler_is_told(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    engine, configuration = ReferenceEngine(), Configuration.of({"serving.compile": mode})
    with pytest.raises(Infeasible, match="no no-such-compiler on this machine") as told:
        engine.check(configuration, checkpoint, "cpu")
    assert told.value.kind == "unsupported"


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "CPU", "cuda:", ""])
def test_an_unknown_device_is_told(checkpoint: Path, device: str) -> None:
    with pytest.raises(Infeasible, match="no device") as told:
        ReferenceEngine().check(Configuration.of({}), checkpoint, device)
    assert told.value.kind == "unsupported"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU driver")
def test_a_gpu_where_there_is_none_is_told(checkpoint: Path) -> None:
    with pytest.raises(Infeasible, match="no GPU driver on this machine"):
        ReferenceEngine().check(Configuration.of({}), checkpoint, "cuda:0")


def test_the_engine_s_side_imports_no_torch() -> None:
    program = (
        "import sys; import experiments.engines.reference.engine, experiments.stages.pruning.stage, "
        "experiments.measurement.material; "
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"


def test_a_checkpoint_without_a_head_is_not_asked_to_draft_with_it(checkpoint: Path) -> None:
    save_file({"a": np.ones(3, np.float32)}, checkpoint / "model.safetensors")
    with pytest.raises(Infeasible, match="has no MTP head") as told:
        ReferenceEngine().check(Configuration.of({"drafting.method": "mtp"}), checkpoint, "cpu")
    assert told.value.kind == "illegal"


def a_drafter(
    folder: Path, vocabulary: int, tokenizer: dict[str, object] | None, method: str = "draft_model"
) -> Path:
    folder.mkdir()
    config: dict[str, object] = {"model_type": "qwen3_5_text", "num_hidden_layers": 4, "hidden_size": 128}
    if method == "dflash":
        config = json.loads((packaged_drafter_path() / "config.json").read_text())
    config["vocab_size"] = vocabulary
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"a": np.ones(3, np.float32)}, folder / "model.safetensors")
    if tokenizer is not None:
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.mark.parametrize(
    ("vocabulary", "tokenizer", "sentence"),
    [
        (100, {"model": {"vocab": {"a": 0}}}, None),
        (100, {"model": {"vocab": {"a": 0}}, "decoder": "another way to write text does not matter"}, None),
        (100, None, None),
        (101, None, "a vocabulary of 101 tokens and its target one of 100"),
        (100, {"model": {"vocab": {"b": 0}}}, "another tokenizer"),
        (100, {"nothing": 1}, "can't be read"),
    ],
)
@pytest.mark.parametrize("method", ["draft_model", "dflash"])
def test_a_drafter_must_share_its_target_s_vocabulary(
    tmp_path: Path, vocabulary: int, tokenizer: dict[str, object] | None, sentence: str | None, method: str
) -> None:
    target = a_drafter(tmp_path / "target", 100, {"model": {"vocab": {"a": 0}}})
    drafter = a_drafter(tmp_path / "drafter", vocabulary, tokenizer, method)
    knobs: dict[str, KnobValue] = {"drafting.method": method, "drafting.drafter": str(drafter)}
    if sentence is None:
        ReferenceEngine().check(Configuration.of(knobs), target, "cpu")
        return
    with pytest.raises(Infeasible, match=sentence) as told:
        ReferenceEngine().check(Configuration.of(knobs), target, "cpu")
    assert told.value.kind == ("checkpoint" if "read" in sentence else "illegal")


@pytest.mark.parametrize(
    ("method", "is_one_for", "sentence"),
    [
        ("dflash", "draft_model", r"config.json names the architecture None, not DFlashDraftModel"),
        ("draft_model", "dflash", r"is of type 'qwen3'"),
    ],
)
def test_a_folder_with_a_drafter_of_another_method_is_none(
    tmp_path: Path, method: str, is_one_for: str, sentence: str
) -> None:
    target = a_drafter(tmp_path / "target", 100, None)
    drafter = a_drafter(tmp_path / "drafter", 100, None, is_one_for)
    knobs: dict[str, KnobValue] = {"drafting.method": method, "drafting.drafter": str(drafter)}
    with pytest.raises(Infeasible, match=sentence) as told:
        ReferenceEngine().check(Configuration.of(knobs), target, "cpu")
    assert told.value.kind == "checkpoint"


def a_mixture(folder: Path) -> Path:
    a_drafter(folder, 100, None)
    told = json.loads((folder / "config.json").read_text()) | {
        "model_type": "qwen3_5_moe_text", "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 4, "shared_expert_intermediate_size": 4,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(told))
    return folder


def test_a_mixture_of_experts_is_served_and_drafts_and_a_dense_model_beside_it(tmp_path: Path) -> None:
    folders = {"mixture": a_mixture(tmp_path / "mixture"), "dense": a_drafter(tmp_path / "dense", 100, None)}
    for target in folders.values():
        ReferenceEngine().check(Configuration.of({}), target, "cpu")
        for drafter in folders.values():
            drafts: dict[str, KnobValue] = {
                "drafting.method": "draft_model", "drafting.drafter": str(drafter)
            }  # fmt: skip
            ReferenceEngine().check(Configuration.of(drafts), target, "cpu")


def test_a_drafter_in_the_home_folder_may_be_written_with_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = a_drafter(tmp_path / "target", 100, None)
    for method in ("draft_model", "dflash"):
        a_drafter(tmp_path / f"my-{method}", 100, None, method)
        mine: dict[str, KnobValue] = {"drafting.method": method, "drafting.drafter": f"~/my-{method}"}
        ReferenceEngine().check(Configuration.of(mine), target, "cpu")


def test_the_plain_configuration_neither_compiles_nor_drafts() -> None:
    knobs: dict[str, KnobValue] = {
        "serving.compile": "default",
        "serving.threads": 2,
        "drafting.method": "mtp",
        "drafting.draft_tokens": 2,
    }
    assert dict(ReferenceEngine().plain(Configuration.of(knobs))) == {
        "serving.compile": "off",
        "serving.threads": 2,
        "drafting.method": "none",
    }
    asked = Configuration.of({"serving.threads": 2})
    assert ReferenceEngine().plain(asked) == asked
