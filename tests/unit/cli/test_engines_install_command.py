"""Which build `autoinfer engines install` takes; pip and the driver are stood in for."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from configs.errors import UsageError
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.stages.quantize.install import QuantizeEnvironment, packages_wanted
from experiments.telemetry.identity import DeviceIdentity
from experiments.torch_build import CPU_INDEX, TorchBuild
from tests.unit.cli.test_gpu_checks import CARD

ASKED = ["engines", "install", "quantize"]
NO_GPU = "No NVIDIA driver answers on this machine."


def stood_in(monkeypatch: pytest.MonkeyPatch, gpu: DeviceIdentity | None) -> None:
    def install(folder: Path, *, for_cpu: bool) -> QuantizeEnvironment:
        python = folder / "bin" / "python"
        build = TorchBuild(python, "2.13.0+cpu" if for_cpu else "2.13.0", None if for_cpu else "13.0")
        return QuantizeEnvironment(python, "0.14.0.1", build)

    found = ({}, NO_GPU) if gpu is None else ({"cuda:0": gpu}, "")
    monkeypatch.setattr("cli.health.gpu_checks.visible_gpus", lambda: found)
    monkeypatch.setattr("experiments.stages.quantize.install.install", install)


def said(tmp_path: Path, *more: str) -> str:
    done = CliRunner().invoke(app, ["--data-dir", str(tmp_path), *ASKED, *more])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    ("gpu", "more", "cuda"),
    [(CARD, (), "13.0"), (None, (), None), (CARD, ("--cpu",), None), (None, ("--gpu",), "13.0")],
)
def test_the_build_is_that_of_the_devices_that_are_seen_unless_one_is_named(
    gpu: DeviceIdentity | None,
    more: tuple[str, ...],
    cuda: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stood_in(monkeypatch, gpu)
    told = json.loads(said(tmp_path, *more, "--json"))
    assert (told["engine"], told["version"], told["cuda"]) == ("quantize", "0.14.0.1", cuda)
    assert told["cpu"] is (cuda is None)
    assert told["python"] == str(tmp_path / "quantize" / "bin" / "python")


def test_why_the_build_for_cpus_is_taken_is_said_where_nobody_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood_in(monkeypatch, None)
    assert f"no GPU is seen ({NO_GPU.rstrip('.')}); --gpu takes the other" in said(tmp_path)
    assert "no GPU is seen" not in said(tmp_path, "--cpu")


def test_vllm_for_gpus_is_installed_without_one_and_the_other_build_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def install(folder: Path, version: str | None, *, for_cpu: bool) -> VllmEnvironment:
        asked.append(for_cpu)
        return VllmEnvironment(folder / "bin" / "python", "0.33.0", for_cpu)

    def vllm(*more: str) -> str:
        done = CliRunner().invoke(app, ["--data-dir", str(tmp_path), "engines", "install", "vllm", *more])
        return " ".join(done.output.split())

    stood_in(monkeypatch, None)
    monkeypatch.setattr("experiments.engines.vllm.install.install", install)
    assert f"No GPU is seen here ({NO_GPU.rstrip('.')}); --cpu takes the build for CPUs." in vllm()
    assert "No GPU is seen" not in vllm("--cpu")
    assert "No GPU is seen" not in vllm("--gpu")
    stood_in(monkeypatch, CARD)
    assert "No GPU is seen" not in vllm()
    assert asked == [False, True, False, False]


def test_a_driver_that_is_too_old_for_what_was_installed_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood_in(monkeypatch, replace(CARD, cuda_driver=12080))
    assert "knows CUDA up to 12.8, is too old for it; update NVIDIA's driver" in said(tmp_path)
    stood_in(monkeypatch, replace(CARD, cuda_driver=13000))
    assert "too old" not in said(tmp_path)


@pytest.mark.parametrize("for_cpu", [True, False])
def test_in_an_environment_of_one_s_own_it_tells_the_commands_that_it_would_run(
    for_cpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PyTorch's index of builds for CPUs, pip would find none."""
    python = tmp_path / "mine" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setenv("AUTOINFER_QUANTIZE_PYTHON", str(python))
    stood_in(monkeypatch, None)
    more = ["--cpu" if for_cpu else "--gpu"]
    done = CliRunner().invoke(app, ["--data-dir", str(tmp_path / "data"), *ASKED, *more])
    assert isinstance(done.exception, UsageError)
    told = done.exception.hint
    wanted, first = packages_wanted(for_cpu=for_cpu)
    assert (CPU_INDEX in told) is for_cpu
    for words in filter(None, (first, wanted)):
        assert f"-m pip install --no-input --upgrade {shlex.join(words)}" in told
