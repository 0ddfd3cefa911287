"""Where vLLM is looked for, and which one may serve."""

import os
import sys
from pathlib import Path
from shutil import which

import pytest

from agent.plan.begin import engine_check
from configs.campaign import load_campaign
from experiments.engines.port import Infeasible
from experiments.engines.vllm import environment
from experiments.engines.vllm.driver_process import driver_environment
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import (
    PYTHON_VARIABLE,
    VllmEnvironment,
    needed_environment,
    untried,
    vllm_python,
)
from experiments.engines.vllm.order import VARIABLES
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration


def found(version: str, *, for_cpu: bool = True) -> VllmEnvironment:
    return VllmEnvironment(Path(sys.executable), version, for_cpu)


@pytest.fixture
def having(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)
    return monkeypatch


def test_the_variable_names_the_python_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    assert vllm_python({PYTHON_VARIABLE: sys.executable}) == Path(sys.executable)
    with pytest.raises(Infeasible, match="which is no Python; make an environment") as refused:
        vllm_python({PYTHON_VARIABLE: str(tmp_path / "missing")})
    assert refused.value.kind == "not_installed"


def test_where_the_folder_of_an_environment_is_named_its_python_is_told(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(Infeasible, match=f"no Python; name the one in it: {tmp_path}/bin/python"):
        vllm_python({PYTHON_VARIABLE: str(tmp_path)})


def test_a_python_without_vllm_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(silent))
    with pytest.raises(Infeasible, match=f"not installed at {silent}: make an environment"):
        needed_environment("cpu")


@pytest.mark.parametrize(
    ("version", "for_cpu", "device", "words"),
    [
        ("0.25.1", True, "cpu", "older than 0.26"),
        ("0.1.dev17+g0a1b2c3", True, "cpu", "can't be told from its version, 0.1.dev17.*git fetch --tags"),
        (
            "0.1.dev1+g0a1b2c3.cpu",
            True,
            "cpu",
            "SETUPTOOLS_SCM_PRETEND_VERSION naming its version, such as 0.33.0",
        ),
        ("0.10.2", True, "cpu", "older than 0.26"),
        ("0.32.0", True, "cuda:0", "a build for CPUs"),
        ("0.32.0", False, "cpu", "a build for GPUs"),
        ("nightly", True, "cpu", "'nightly', is not understood; make an environment with"),
    ],
)
def test_a_vllm_that_can_not_serve_here_is_refused(
    having: pytest.MonkeyPatch, version: str, for_cpu: bool, device: str, words: str
) -> None:
    having.setattr(environment, "installed", lambda python: found(version, for_cpu=for_cpu))
    with pytest.raises(Infeasible, match=words) as refused:
        needed_environment(device)
    assert refused.value.kind == "unsupported"


def test_a_newer_one_serves_and_what_that_means_is_told_once_and_not_of_each_configuration(
    having: pytest.MonkeyPatch,
) -> None:
    having.setattr(environment, "installed", lambda python: found("0.41.0"))
    told = VllmEngine().newer_on("cpu")
    assert told is not None
    assert told == untried(needed_environment("cpu"))
    for words in ("vLLM 0.41.0 is newer than 0.33", "read from its own sources", "as of 0.33 alone"):
        assert words in told
    assert told.count(". ") == 0, "one sentence"
    of_each = VllmEngine().check(
        Configuration.of({"serving.dtype": "float32"}), reference_model_path(), "cpu"
    )
    assert "newer" not in (of_each or "")


def test_nothing_is_said_of_one_that_was_run_or_is_not_there(having: pytest.MonkeyPatch) -> None:
    having.setattr(environment, "installed", lambda python: found("0.33.2"))
    assert VllmEngine().newer_on("cpu") is None
    having.setattr(environment, "installed", lambda python: None)
    assert VllmEngine().newer_on("cpu") is None


def test_a_plan_says_it_where_the_engine_is_asked(having: pytest.MonkeyPatch) -> None:
    having.setattr(environment, "installed", lambda python: found("0.41.0"))
    spec = load_campaign("levers", {"engine": "vllm", "space": "vllm", "target": "cpu"})
    check, told = engine_check(spec, reference_model_path(), "cpu")
    assert check is not None
    assert told is not None
    assert "newer than 0.33" in told


def test_a_variable_of_the_users_own_is_not_what_decides_a_knob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES.values():
        monkeypatch.setenv(name, "triton")
    told = driver_environment(tmp_path / "python", "cuda:0", tmp_path, str(tmp_path), str(tmp_path))
    assert not set(VARIABLES.values()) & set(told)


def test_what_vllm_calls_is_looked_for_beside_its_own_python_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FlashInfer and PyTorch call `ninja` by name, which pip puts there; an environment that nobody
    activated is on nobody's path."""
    beside, elsewhere, base = (tmp_path / each for each in ("engine/bin", "elsewhere", "base"))
    for folder in (beside, elsewhere, base):
        folder.mkdir(parents=True)
    for folder in (beside, elsewhere):
        (folder / "ninja").write_text("#!/bin/sh\n")
        (folder / "ninja").chmod(0o755)
    (base / "python").touch()
    (beside / "python").symlink_to(base / "python")  # as of a virtual environment
    monkeypatch.setenv("PATH", str(elsewhere))
    told = driver_environment(beside / "python", "cuda:0", tmp_path, str(tmp_path), str(tmp_path))
    assert which("ninja", path=told["PATH"]) == str(beside / "ninja")
    assert told["PATH"].endswith(str(elsewhere))
    monkeypatch.delenv("PATH")
    told = driver_environment(beside / "python", "cuda:0", tmp_path, str(tmp_path), str(tmp_path))
    assert told["PATH"] == os.pathsep.join([str(beside), os.defpath])
