import json
import subprocess
from pathlib import Path

import pytest

from configs.cpu import cpu_flags
from experiments.measurement.environment import (
    cgroup_limits,
    current_mhz,
    git_revision,
    governor,
    hypervisor,
    machine_facts,
    moment,
    package_version,
)
from experiments.measurement.gpu import gpu_facts, gpu_moment

CPUINFO = """processor\t: 0
flags\t\t: fpu sse hypervisor avx2
cpu MHz\t\t: 2700.5

processor\t: 1
flags\t\t: fpu sse hypervisor avx2
cpu MHz\t\t: 2699
"""


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_what_linux_tells_is_read(tmp_path: Path) -> None:
    write(tmp_path, "proc/cpuinfo", CPUINFO)
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "150000 100000\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", "1073741824\n")
    assert current_mhz(tmp_path) == [2700.5, 2699.0]
    assert hypervisor(tmp_path) is True
    assert cpu_flags(tmp_path) == {"fpu", "sse", "hypervisor", "avx2"}
    assert governor(tmp_path) == "performance"
    assert cgroup_limits(tmp_path) == {"cpu_cores": 1.5, "memory_bytes": 2**30}


def test_a_control_group_without_limits_sets_none(tmp_path: Path) -> None:
    write(tmp_path, "sys/fs/cgroup/cpu.max", "max 100000\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", "max\n")
    assert cgroup_limits(tmp_path) == {"cpu_cores": None, "memory_bytes": None}


def test_what_the_system_does_not_tell_is_none_and_no_error(tmp_path: Path) -> None:
    assert (governor(tmp_path), hypervisor(tmp_path), current_mhz(tmp_path)) == (None, None, [])
    assert cgroup_limits(tmp_path) == {"cpu_cores": None, "memory_bytes": None}


def test_facts_are_json_and_name_this_machine() -> None:
    facts = machine_facts("cpu", 7)
    assert json.loads(json.dumps(facts)) == facts
    assert isinstance(facts["cpu"], dict)
    assert facts["cpu"]["cores"] >= 1
    assert facts["memory_bytes"] > 0
    assert facts["copy_bandwidth_bytes_per_s"] > 1e8
    assert facts["seed"] == 7
    assert facts["gpu"] is None
    assert facts["packages"]["numpy"] == package_version("numpy") is not None


def test_a_moment_is_json_and_processor_time_goes_on() -> None:
    before, after = moment("cpu"), moment("cpu")
    assert json.loads(json.dumps(before)) == before
    assert after["cpu_user_s"] >= before["cpu_user_s"]
    assert after["time"] >= before["time"]


def test_nobody_s_name_or_place_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps([machine_facts("cpu", 0), moment("cpu")])
    assert str(Path.home()) not in text.replace('"/"', "")
    assert str(Path.cwd()) not in text


def test_a_work_tree_tells_its_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert git_revision(tmp_path) == (None, None)
    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "One")
    assert git_revision(tmp_path) == (git("rev-parse", "HEAD"), False)
    (tmp_path / "untracked").write_text("1")
    assert git_revision(tmp_path)[1] is False
    (tmp_path / "a").write_text("2")
    assert git_revision(tmp_path)[1] is True


def test_no_gpu_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_facts("cpu") is None
    assert gpu_moment("cpu") is None
    assert gpu_facts("cuda:999") is None


def test_an_unknown_package_has_no_version() -> None:
    assert package_version("no-such-package-at-all") is None
