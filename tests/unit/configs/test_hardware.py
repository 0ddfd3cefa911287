from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from configs.catalog import Kind, packaged_names
from configs.cpu import Cache, cpu_flags, probe_cpu, usable_cores
from configs.errors import UsageError
from configs.hardware import load_hardware_profile, profile_of_device
from configs.models import load_model_profile
from configs.weight_formats import BFLOAT16

WITHOUT_FP8 = {"a10", "a100-40gb", "a100-80gb", "rtx-3060", "rtx-3070", "rtx-3080", "rtx-3090", "t4"}
ADA = {"l4", "l40s", "rtx-4060", "rtx-4060-ti", "rtx-4070", "rtx-4070-ti-super", "rtx-4080", "rtx-4090"}
BLACKWELL = {"b200", "rtx-5060-ti", "rtx-5070", "rtx-5070-ti", "rtx-5080", "rtx-5090"}
EXPECTED = {"h200", "h100", *ADA, *BLACKWELL, *WITHOUT_FP8}
GEFORCE = sorted(each for each in EXPECTED if each.startswith("rtx-"))


def test_every_promised_gpu_is_packaged_under_its_own_name() -> None:
    assert set(packaged_names(Kind.HARDWARE)) == EXPECTED
    assert {load_hardware_profile(name).name for name in EXPECTED} == EXPECTED


def test_what_is_older_than_ada_has_no_fp8() -> None:
    profiles = [load_hardware_profile(name) for name in EXPECTED]
    without = {p.name for p in profiles if p.fp8_flop_per_s is None}
    assert without == WITHOUT_FP8
    assert without == {p.name for p in profiles if p.compute_capability in ("7.5", "8.0", "8.6")}


@pytest.mark.parametrize("name", GEFORCE)
def test_a_geforce_multiplies_in_8_bits_at_a_multiple_of_its_rate_with_sums_in_32(name: str) -> None:
    """A slip by a factor of two, such as a rate with sums in 16 bits or with sparsity, breaks the ratios."""
    card = load_hardware_profile(name)
    assert card.int8_op_per_s / card.bf16_flop_per_s == pytest.approx(4, rel=0.01)
    if card.fp8_flop_per_s is not None:
        assert card.fp8_flop_per_s / card.bf16_flop_per_s == pytest.approx(2, rel=0.01)


def test_a_profile_is_found_by_the_drivers_name() -> None:
    names = [name for each in EXPECTED for name in load_hardware_profile(each).device_names]
    assert len(set(names)) == len(names)
    found = profile_of_device("NVIDIA H200")
    assert found is not None
    assert found.name == "h200"
    assert profile_of_device("Quadro 600") is None


def test_the_rate_of_an_a10_is_what_its_tensor_cores_make() -> None:
    """288 of them, 128 multiplications and additions a clock with sums in 32 bits, 1.695 GHz."""
    card = load_hardware_profile("a10")
    assert card.bf16_flop_per_s == pytest.approx(288 * 2 * 128 * 1.695e9, rel=0.001)
    assert card.int8_op_per_s == 2 * card.bf16_flop_per_s


@pytest.mark.parametrize("name", ["NVIDIA A10G", "NVIDIA A10M", "NVIDIA A10-24Q", "NVIDIA A100", "NVIDIA A1"])
def test_an_a10_is_not_taken_for_what_begins_as_its_name_does(name: str) -> None:
    assert profile_of_device(name) is None
    assert profile_of_device(name, 24 * 10**9) is None


@pytest.mark.parametrize("name", GEFORCE)
def test_a_card_is_not_taken_for_its_namesake(name: str) -> None:
    (own,) = load_hardware_profile(name).device_names
    for suffix in (" Laptop GPU", " Max-Q", " D", " Ti", " SUPER", " Ti SUPER"):
        found = profile_of_device(own + suffix)
        assert found is None or found.device_names == (own + suffix,)
    assert profile_of_device(f"{own} Laptop GPU") is None


@pytest.mark.parametrize(
    ("device", "mebibytes", "name"),
    [
        ("NVIDIA GeForce RTX 3060", 12_288, "rtx-3060"),
        ("NVIDIA GeForce RTX 3060", 8192, None),
        ("NVIDIA GeForce RTX 3080", 10_240, "rtx-3080"),
        ("NVIDIA GeForce RTX 3080", 12_288, None),
        ("NVIDIA GeForce RTX 4060 Ti", 16_380, "rtx-4060-ti"),
        ("NVIDIA GeForce RTX 4060 Ti", 8188, None),
        ("NVIDIA GeForce RTX 5090", 32_607, "rtx-5090"),
        ("Tesla T4", 15_360, "t4"),
        ("NVIDIA A10", 23_028, "a10"),
        ("NVIDIA A10G", 23_028, None),
        ("NVIDIA A100-SXM4-40GB", 40_960, "a100-40gb"),
        ("NVIDIA H200", 143_771, "h200"),
        ("NVIDIA B200", 183_359, "b200"),
    ],
)
def test_cards_of_one_name_are_told_apart_by_their_memory(
    device: str, mebibytes: int, name: str | None
) -> None:
    """A card with other memory under the same name may have another bandwidth and other rates."""
    found = profile_of_device(device, mebibytes * 2**20)
    assert (found.name if found else None) == name


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
    assert cpu_flags(root) is None
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
