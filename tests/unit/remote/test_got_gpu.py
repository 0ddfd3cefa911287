"""A result of another GPU than was asked for is not compared, whoever rents it out."""

from pathlib import Path

import pytest

from experiments.executors.modal.executor import ModalExecutor
from experiments.executors.port import RentedMachine
from experiments.executors.runpod.executor import RunPodExecutor
from experiments.job.result import JobResult
from experiments.measurement.evidence import Arm, LaunchRecord, Stage
from experiments.remote.got_gpu import GotGpu, compared, gpu_asked, gpus_of_launches


class OfTheUser:
    """An executor that names a hardware profile and nothing else."""

    name = "mine"

    @classmethod
    def machine(cls, target: str) -> RentedMachine:
        gpu = target.partition(":")[2]
        return RentedMachine(None if gpu == "cpu" else gpu, 4, 8 * 2**30)


def a_result(name: str | None = None, memory_gb: float = 24.0) -> JobResult:
    gpu = None if name is None else {"name": name, "memory_bytes": int(memory_gb * 1e9)}
    machine = {"machine": {"gpu": gpu}, "blocks": []}
    return JobResult(launches=(LaunchRecord(Arm.CONTROL, 0, Stage.QUICK, "0", {}, machine, 1.0, ()),))


def recorded(target: str, result: JobResult, executor: object = OfTheUser()) -> JobResult:
    asked = gpu_asked(executor, target)  # type: ignore[arg-type]
    return compared(asked, "mine", gpus_of_launches(result), result)


def test_the_gpu_that_was_asked_for_is_recorded_as_it_is() -> None:
    result = a_result("NVIDIA L4", 24.2)
    assert recorded("mine:l4", result) is result


@pytest.mark.parametrize(("name", "gb"), [("NVIDIA L40S", 48.0), ("NVIDIA L4", 48.0), ("NVIDIA A10G", 24.0)])
def test_another_gpu_is_recorded_as_a_failure_that_names_both_without_a_sample(name: str, gb: float) -> None:
    kept = recorded("mine:l4", a_result(name, gb))
    assert kept.launches == ()
    assert kept.failure is not None
    assert kept.failure.cause == (
        f"mine gave {name} with {gb:.0f} GB where l4 was asked for; "
        "times of another GPU are not compared, so nothing of it is kept."
    )


def test_one_launch_of_many_on_another_gpu_is_enough() -> None:
    both = JobResult(launches=a_result("NVIDIA L4").launches + a_result("NVIDIA L40S", 48).launches)
    assert recorded("mine:l4", both).launches == ()


def test_without_a_gpu_asked_for_or_told_there_is_nothing_to_compare() -> None:
    for target, result in (("mine:cpu", a_result("NVIDIA L4")), ("mine:l4", a_result(None))):
        assert recorded(target, result) is result


@pytest.mark.parametrize(
    ("executor", "target", "right", "wrong"),
    [
        (
            ModalExecutor,
            "modal:H100!",
            GotGpu("NVIDIA H100 80GB HBM3", int(85e9)),
            GotGpu("NVIDIA H200", 151),
        ),
        (RunPodExecutor, "runpod:A40", GotGpu("NVIDIA A40", int(48e9)), GotGpu("NVIDIA A100", int(80e9))),
    ],
)
def test_the_built_in_executors_say_what_they_ask_for(
    executor: type, target: str, right: GotGpu, wrong: GotGpu, tmp_path: Path
) -> None:
    asked, result = gpu_asked(executor, target), JobResult()  # type: ignore[arg-type]
    assert compared(asked, executor.__name__, [right], result) is result
    assert compared(asked, executor.__name__, [wrong], result).failure is not None
