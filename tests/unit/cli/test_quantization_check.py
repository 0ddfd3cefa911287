"""What the doctor says of quantization is what a job would find."""

from pathlib import Path

import pytest

from cli.health.check_result import Verdict
from cli.health.quantization_check import check_quantization
from configs.settings import Settings
from configs.settings_sources import load_settings
from experiments import other_python
from experiments.stages.quantize import environment


def python_with(folder: Path, version: str | None) -> Path:
    """Stands for a Python: it tells the versions of packages as `tool_versions` asks for them."""
    python = folder / "python"
    told = "null" if version is None else f'"{version}"'
    python.write_text(f"#!/bin/sh\necho '{{\"llmcompressor\": {told}}}'\n")
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
