"""What the doctor says of quantization is what a job would find."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.health.check_result import Verdict
from cli.health.quantization_check import check_quantization
from configs.settings import Settings
from configs.settings_sources import load_settings
from experiments import other_python
from experiments.stages.quantize import environment
from tests.unit.cli.test_gpu_checks import CARD, NONE, driver


def python_with(folder: Path, version: str | None, cuda: str | None = None) -> Path:
    """Stands for a Python: it tells the versions of packages as `tool_versions` asks for them."""
    python = folder / "python"
    told = "null" if version is None else f'"{version}"'
    build = "null" if cuda is None else f'"{cuda}"'
    python.write_text(
        f"""#!/bin/sh
case "$*" in
  *version.py*) echo '{{"version": "2.13.0", "cuda": {build}}}' ;;
  *) echo '{{"llmcompressor": {told}}}' ;;
esac
"""
    )
    python.chmod(0o755)
    return python


def test_the_python_of_the_settings_and_its_llmcompressor_are_named(tmp_path: Path) -> None:
    python = python_with(tmp_path, "0.14.0")
    found = check_quantization(Settings(data_dir=tmp_path, quantize_python=python))
    assert found.verdict is Verdict.OK
    assert found.found == f"llmcompressor 0.14.0 of {python}"


def test_a_python_without_llmcompressor_and_one_that_is_not_there_say_how_to_go_on(tmp_path: Path) -> None:
    without = python_with(tmp_path, None)
    for python, said in ((without, "has no llmcompressor"), (tmp_path / "gone", "there is no Python at")):
        named = {"AUTOINFER_DATA_DIR": str(tmp_path), environment.PYTHON_VARIABLE: str(python)}
        found = check_quantization(load_settings(environment=named, working_dir=tmp_path))
        assert found.verdict is Verdict.WARN
        assert said in found.found
        assert "autoinfer engines install quantize" in found.advice


def test_where_none_is_named_and_none_found_it_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ENVIRONMENT_NAME", "no-such-environment")
    monkeypatch.setattr(other_python, "find_spec", lambda name: None)
    found = check_quantization(Settings(data_dir=tmp_path))
    assert (found.verdict, found.found) == (Verdict.WARN, "infeasible: llmcompressor is not installed")


@pytest.mark.parametrize(
    ("cuda", "verdict", "found"),
    [
        (None, Verdict.WARN, "; PyTorch 2.13.0 at {python} is a build for CPUs"),
        (
            "14.0",
            Verdict.WARN,
            "; PyTorch 2.13.0 at {python} is built for CUDA 14.0, and the driver, which knows CUDA up to "
            "13.0, is too old for it",
        ),
        ("13.0", Verdict.OK, ""),
    ],
)
def test_a_pytorch_that_can_t_compute_on_the_gpu_that_is_here_is_told(
    tmp_path: Path, cuda: str | None, verdict: Verdict, found: str
) -> None:
    python = python_with(tmp_path, "0.14.0", cuda)
    settings = Settings(data_dir=tmp_path, quantize_python=python)
    told = check_quantization(settings, driver(replace(CARD, cuda_driver=13000)))
    assert (told.verdict, told.found) == (
        verdict,
        f"llmcompressor 0.14.0 of {python}{found.format(python=python)}",
    )
    assert ("autoinfer engines install quantize --gpu" in told.advice) is (verdict is Verdict.WARN)
    assert check_quantization(settings, NONE).verdict is Verdict.OK, "without a GPU the CPU quantizes"
