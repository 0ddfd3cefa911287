"""Every setting does something: the code reads it, and what limits a job reaches the job."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.executors.executor import make_executor, worker_times
from configs.settings import Settings
from experiments.executors.local import LocalExecutor
from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.job.place import Place
from experiments.measurement.evidence import Stage

ROOT = Path(__file__).parents[3]
ROOMS = ("agent", "cli", "configs", "dashboard", "db", "experiments", "knowledge")
DEFINITIONS = {ROOT / "configs" / "settings.py", ROOT / "configs" / "settings_sources.py"}


def read_settings() -> Iterator[str]:
    """Names that are read as `settings.NAME` or `settings_of(…).NAME`, outside where settings are defined."""
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if path in DEFINITIONS:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    of = node.value.func if isinstance(node.value, ast.Call) else node.value
                    if isinstance(of, ast.Name) and of.id in ("settings", "settings_of"):
                        yield node.attr


def test_every_setting_is_read_somewhere() -> None:
    assert set(Settings.model_fields) - set(read_settings()) == set()


def place_of(settings: Settings) -> Place:
    executor = make_executor(settings, "local")
    assert isinstance(executor, LocalExecutor)
    return executor._place


def test_a_job_gets_the_limits_of_the_settings(tmp_path: Path) -> None:
    place = place_of(Settings(data_dir=tmp_path, load_limit_s=70, stage_limit_s=5000))
    assert place.load_limit_s == 70
    assert set(place.limits_s.values()) == {5000}, "longer than most stages' own, shorter than others'"


def test_without_a_limit_for_all_each_stage_has_its_own(tmp_path: Path) -> None:
    limits_s = place_of(Settings(data_dir=tmp_path)).limits_s
    assert limits_s == DEFAULT_STAGE_LIMITS_S
    assert limits_s[Stage.QUANTIZE] == 7200


@pytest.mark.parametrize("lease_s", [3.0, 30.0])
def test_a_worker_beats_three_times_in_its_lease(tmp_path: Path, lease_s: float) -> None:
    times = worker_times(Settings(data_dir=tmp_path, lease_s=lease_s, queue_poll_s=0.2))
    assert times.heartbeat_s == lease_s / 3
    assert (times.lease_s, times.idle_poll_s, times.busy_poll_s) == (lease_s, 0.2, 1.0)
