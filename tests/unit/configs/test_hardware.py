from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from configs.catalog import Kind, packaged_names
from configs.cpu import Cache, probe_cpu, usable_cores
from configs.errors import UsageError
from configs.hardware import load_hardware_profile, profile_of_device
from configs.models import load_model_profile
from configs.weight_formats import BFLOAT16

AMPERE = {"a100-40gb", "a100-80gb", "rtx-3090"}
EXPECTED = {"h200", "h100", "b200", "l40s", "l4", "rtx-4090", "rtx-5090", *AMPERE}


def test_every_promised_gpu_is_packaged_under_its_own_name() -> None:
    assert set(packaged_names(Kind.HARDWARE)) == EXPECTED
    assert {load_hardware_profile(name).name for name in EXPECTED} == EXPECTED


def test_only_ampere_has_no_fp8() -> None:
    profiles = [load_hardware_profile(name) for name in EXPECTED]
    without = {p.name for p in profiles if p.fp8_flop_per_s is None}
    assert without == AMPERE
    assert without == {p.name for p in profiles if p.compute_capability in ("8.0", "8.6")}


def test_a_profile_is_found_by_the_drivers_name() -> None:
    names = [name for each in EXPECTED for name in load_hardware_profile(each).device_names]
    assert len(set(names)) == len(names)
    found = profile_of_device("NVIDIA H200")
    assert found is not None
    assert found.name == "h200"
    assert profile_of_device("Quadro 600") is None


def test_the_floor_of_the_nine_billion_shape_on_an_h200_is_below_what_was_measured() -> None:
    # Measured 5.28 ms in bf16 at batch 1 (vLLM 0.26), 1.6 ms of it above a floor taken at copy bandwidth.
    step = load_model_profile("qwen3.5-9b").weight_bytes_per_step(BFLOAT16)
    assert 3.0e-3 < load_hardware_profile("h200").read_time_s(step) < 3.7e-3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bandwidth_bytes_per_s": 4800}, "bandwidth_bytes_per_s is 4800"),
        ({"fp8_flop_per_s": 5e14}, "an 8-bit rate is below the bf16 rate"),
        ({"power_limit_w": -1}, "power_limit_w is -1"),
        ({"recorded": "yesterday"}, "recorded is 'yesterday'"),
        ({"device_names": []}, "device_names"),
        ({"bandwith": 1}, "there is no field bandwith"),
    ],
)
def test_a_slip_in_a_profile_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    data = load_hardware_profile("h200").model_dump(mode="json") | change
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(UsageError, match=r"own\.yaml") as caught:
        load_hardware_profile(path)
    assert said in caught.value.message


def test_this_machine_is_probed_within_its_affinity() -> None:
    cpu = probe_cpu()
    assert 1 <= cpu.cores <= len(os.sched_getaffinity(0)) <= cpu.machine_cores
    assert cpu.memory_bytes > 2**28
    assert cpu.name
    assert cpu.bandwidth_bytes_per_s is None
    assert cpu.with_bandwidth(2e10).bandwidth_bytes_per_s == 2e10


def test_fewer_allowed_cores_are_seen() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def laid_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return root


def test_caches_names_and_limits_are_read_from_the_kernel(tmp_path: Path) -> None:
    index = "sys/devices/system/cpu/cpu0/cache/index2"
    root = laid_out(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some  CPU @ 3.0GHz\n\nmodel name\t: Other",
            f"{index}/size": "2048K",
            f"{index}/level": "2",
            f"{index}/type": "Unified",
            f"{index}/shared_cpu_list": "0-3,8",
            "sys/fs/cgroup/memory.max": "300000000",
            "sys/fs/cgroup/cpu.max": "150000 100000",
        },
    )
    cpu = probe_cpu(root)
    assert cpu.name == "Some CPU @ 3.0GHz"
    assert cpu.caches == (Cache(2, "unified", 2 * 2**20, 5),)
    assert cpu.memory_bytes == 300_000_000
    assert cpu.cores == 1


def test_a_machine_that_tells_nothing_is_still_described(tmp_path: Path) -> None:
    cpu = probe_cpu(tmp_path)
    assert cpu.caches == ()
    assert cpu.name
    assert cpu.cores >= 1
    unlimited = laid_out(tmp_path, {"sys/fs/cgroup/cpu.max": "max 100000", "sys/fs/cgroup/memory.max": "max"})
    assert probe_cpu(unlimited).cores == cpu.cores
    assert probe_cpu(unlimited).memory_bytes == cpu.memory_bytes
