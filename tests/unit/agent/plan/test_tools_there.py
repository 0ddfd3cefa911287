"""What quantizes and what ranks layers is looked at for the target's GPU before anything is measured."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.ground.legal import Legal
from agent.ground.target import Target, find_target
from agent.plan.card import Card
from agent.plan.model import find_model
from agent.plan.plan import make_plan
from agent.plan.start import Start
from agent.plan.starting import check_start
from agent.plan.tools_there import MadeOn, missing_tools, tools_told
from configs.campaign import CampaignSpec, load_campaign
from configs.cpu import probe_cpu
from configs.errors import UsageError
from experiments import torch_build
from experiments.space.loading import load_space
from experiments.stages.quantize.environment import PYTHON_VARIABLE
from experiments.torch_build import TorchBuild
from tests.unit.cli.test_gpu_checks import CARD as CARD_OF_DRIVER

GPU = MadeOn("cuda:0", 13000)
OLD_GPU = MadeOn("cuda:0", 12080)

TELLS = """#!/bin/sh
case "$*" in
  *version.py*) echo '{"version": "2.13.0", "cuda": CUDA}' ;;
  *) echo '{"llmcompressor": VERSION}' ;;
esac
"""

QUANTIZES, PRUNES = "No hypothesis that quantizes", "No hypothesis that takes layers out"


def asked(**more: object) -> CampaignSpec:
    return load_campaign(
        "default", {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": [], **more}
    )


def all_legal() -> Legal:
    return Legal(load_space("vllm"))


@pytest.fixture
def quantizing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for a Python; `with_build` says which PyTorch it tells."""
    python = tmp_path / "python"
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    return python


def with_build(python: Path, cuda: str | None, version: str = "0.14.0.1") -> None:
    told = "null" if cuda is None else f'"{cuda}"'
    python.write_text(TELLS.replace("CUDA", told).replace("VERSION", f'"{version}"'))
    python.chmod(0o755)


def of_this_python(monkeypatch: pytest.MonkeyPatch, cuda: str | None) -> None:
    """What ranks layers: the PyTorch of this Python, which here may be any."""
    real = torch_build.torch_build

    def told(python: Path) -> TorchBuild | None:
        return TorchBuild(python, "2.13.0", cuda) if python == Path(sys.executable) else real(python)

    monkeypatch.setattr("agent.plan.tools_there.torch_build", told)


def test_nothing_is_said_where_both_compute_there(quantizing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_build(quantizing, "13.0")
    of_this_python(monkeypatch, "13.0")
    assert tools_told(asked(), all_legal(), GPU) == ()


@pytest.mark.parametrize(
    ("cuda", "on", "why"),
    [
        (None, GPU, "is a build for CPUs; install one for GPUs: autoinfer engines install quantize --gpu."),
        ("13.0", OLD_GPU, "which knows CUDA up to 12.8, is too old for it; update NVIDIA's driver"),
    ],
)
def test_a_build_that_can_t_compute_there_is_told_with_what_to_do(
    quantizing: Path, monkeypatch: pytest.MonkeyPatch, cuda: str | None, on: MadeOn, why: str
) -> None:
    with_build(quantizing, cuda)
    of_this_python(monkeypatch, cuda)
    quantizes, prunes = tools_told(asked(), all_legal(), on)
    assert quantizes.startswith(
        f"{QUANTIZES} can be tested yet: Quantizing on cuda:0 can't be: PyTorch 2.13.0"
    )
    assert why in quantizes
    assert prunes.startswith(f"{PRUNES} can be tested yet, nor one with quantization.corpus=self: ")
    assert f"PyTorch 2.13.0 at {sys.executable} is" in prunes
    assert f"{sys.executable} -m pip install" in prunes


def test_it_is_told_which_values_need_it_and_what_installs_it(
    quantizing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_this_python(monkeypatch, None)
    quantizes, prunes = missing_tools(asked(), all_legal(), GPU)
    (values,) = quantizes.values.values()
    assert {"awq", "rtn"} <= set(values)
    assert "none" not in values
    assert quantizes.command == "autoinfer engines install quantize --gpu"
    assert set(prunes.values) == {"pruning.method", "quantization.corpus"}
    assert prunes.values["quantization.corpus"] == ("self",)
    assert "none" not in prunes.values["pruning.method"]
    assert prunes.command.startswith(f"{sys.executable} -m pip install")


def test_what_is_not_installed_is_told(quantizing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_this_python(monkeypatch, "13.0")
    (missing,) = tools_told(asked(), all_legal(), GPU)
    assert missing.startswith(f"{QUANTIZES} can be tested yet: ")
    assert "autoinfer engines install quantize" in missing


def test_nothing_is_looked_for_that_the_campaign_can_t_ask_for(
    quantizing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_this_python(monkeypatch, None)
    legal = Legal(load_space("vllm").restrict({"quantization.method": ("none",)}))
    assert [each[: len(PRUNES)] for each in tools_told(asked(), legal, GPU)] == [PRUNES]
    for elsewhere_or_cpu in (None, MadeOn("cpu")):
        assert tools_told(asked(), all_legal(), elsewhere_or_cpu) == ()
    assert tools_told(asked(weights="dummy", model="qwen3.5-4b"), all_legal(), GPU) == ()


def test_a_plan_says_it(quantizing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_build(quantizing, None)
    of_this_python(monkeypatch, "13.0")
    card = Card("NVIDIA H100 80GB HBM3", 80 * 10**9, here=True, free_bytes=80 * 10**9)
    plan = make_plan(asked(), find_model("qwen3.5-4b"), card, made_on=GPU)
    (said,) = (each for each in plan.notes if each.startswith(QUANTIZES))
    assert "is a build for CPUs" in said
    elsewhere = make_plan(asked(), find_model("qwen3.5-4b"), card)
    assert not [each for each in elsewhere.notes if each.startswith(QUANTIZES)]


def quantized_start() -> Start:
    space = load_space("vllm")
    default = space.configuration({})
    rounded = space.with_change(default, {"quantization.method": "rtn"})
    return Start(rounded, default, 1, "quantization.method=rtn")


CARD = Card("a card", 8 * 2**30)


def test_a_start_that_is_quantized_first_needs_a_build_for_the_gpu(quantizing: Path) -> None:
    with_build(quantizing, None)
    check_start(asked(), CARD, quantized_start(), MadeOn("cpu"))
    with pytest.raises(UsageError, match=r"that is quantized first\. Quantizing on cuda:0 can't be"):
        check_start(asked(), CARD, quantized_start(), GPU)


def of_this_machine(device: str) -> Target:
    gpu = None if device == "cpu" else replace(CARD_OF_DRIVER, cuda_driver=13000)
    return Target(device, probe_cpu(), gpu)


@pytest.mark.parametrize(("device", "driver"), [("cpu", None), ("cuda:0", 13000)])
def test_what_quantizes_here_is_asked_of_a_target_of_this_machine(
    quantizing: Path, device: str, driver: int | None
) -> None:
    spec = asked(target=device)
    made_on = MadeOn.of(spec, of_this_machine(device))
    assert made_on == MadeOn(device, driver)
    with pytest.raises(UsageError, match="autoinfer engines install quantize"):  # nothing is installed
        check_start(spec, CARD, quantized_start(), made_on)


@pytest.mark.parametrize("target", ["modal:H100!", "modal:cpu", "runpod:H100-SXM"])
def test_nothing_of_this_machine_is_said_of_a_rented_target(quantizing: Path, target: str) -> None:
    """There another Python quantizes, on a processor too; here is none at all."""
    spec = asked(target=target)
    nothing_is_said(spec, MadeOn.of(spec, find_target(target)))


def test_nor_where_another_executor_or_workers_of_other_hosts_run_the_jobs(quantizing: Path) -> None:
    target = of_this_machine("cuda:0")
    nothing_is_said(asked(), MadeOn.of(asked(), target, worked_here=False))
    nothing_is_said(asked(), MadeOn.of(asked(executor="queue-of-a-cluster"), target))


def nothing_is_said(spec: CampaignSpec, made_on: MadeOn | None) -> None:
    assert tools_told(spec, all_legal(), made_on) == ()
    check_start(spec, CARD, quantized_start(), made_on)
