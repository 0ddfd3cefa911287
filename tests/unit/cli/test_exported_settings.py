"""Settings that other processes go by reach them, wherever they were set."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
import typer

from cli.console.opening import settings_of
from experiments.engines.port import Infeasible
from experiments.job.device_guard import DeviceGuard
from experiments.job.unnamed_memory import VARIABLE, allowed_bytes
from experiments.stages.quantize.environment import PYTHON_VARIABLE, quantize_python
from experiments.telemetry.occupants import DeviceUse


def test_what_may_be_held_unnamed_is_allowed_by_the_settings_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "autoinfer.toml").write_text('unnamed_gpu_memory = "3GB"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOINFER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv(VARIABLE, "")  # put back as it was at the end
    monkeypatch.delenv(VARIABLE)
    settings_of(typer.Context(click.Command("plan")))
    assert os.environ[VARIABLE] == "3GB"
    assert allowed_bytes() == 3 * 10**9
    DeviceGuard("cuda:0", look=held, xids=lambda _: ()).before_launches()


def held(device: str) -> DeviceUse:
    """Made up: two GB that nobody is named for."""
    return DeviceUse(2 * 10**9, 24 * 10**9, None)


def test_without_it_the_same_is_somebody_else_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    clock = iter(range(0, 1000, 100))
    guard = DeviceGuard(
        "cuda:0", look=held, xids=lambda _: (), wait=lambda _: None, clock=lambda: float(next(clock))
    )
    with pytest.raises(Infeasible, match="unnamed_gpu_memory"):
        guard.before_launches()


def test_an_environment_that_was_made_in_the_data_folder_quantizes_for_plans_and_campaigns_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "data" / "quantize" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOINFER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv(PYTHON_VARIABLE, "")  # put back as it was at the end
    monkeypatch.delenv(PYTHON_VARIABLE)
    settings_of(typer.Context(click.Command("plan")))
    assert quantize_python() == python
