import pytest

from configs.errors import UsageError
from configs.hardware import load_hardware_profile
from experiments.executors.modal.executor import ModalExecutor
from experiments.executors.modal.gpus import INEXACT, TYPES, gpu_of_target, other_than_asked

REAL = {
    "T4": ("Tesla T4", 15.8),
    "L4": ("NVIDIA L4", 24.2),
    "A10": ("NVIDIA A10G", 24.1),
    "L40S": ("NVIDIA L40S", 48.3),
    "A100-40GB": ("NVIDIA A100-SXM4-40GB", 42.4),
    "A100-80GB": ("NVIDIA A100-SXM4-80GB", 85.9),
    "H100!": ("NVIDIA H100 80GB HBM3", 85.5),
    "H200": ("NVIDIA H200", 150.8),
    "B200": ("NVIDIA B200", 192.0),
}
"""What drivers call these, and their memory in GB."""


def test_every_type_has_an_example() -> None:
    assert set(REAL) == set(TYPES)


@pytest.mark.parametrize("asked", TYPES)
@pytest.mark.parametrize("given", REAL)
def test_a_gpu_is_the_type_asked_for_and_no_other(asked: str, given: str) -> None:
    name, memory_gb = REAL[given]
    other = other_than_asked(asked, name, int(memory_gb * 1e9))
    assert (other is None) == (asked == given)
    if other is not None:
        assert other.startswith(f"Modal gave {name} with {memory_gb:.0f} GB where {asked} was asked for")


@pytest.mark.parametrize("name", TYPES)
def test_a_target_names_a_type_in_any_case(name: str) -> None:
    assert gpu_of_target(f"modal:{name.lower()}") == name


@pytest.mark.parametrize("name", TYPES)
def test_a_campaign_can_be_planned_for_each_type(name: str) -> None:
    """Its packaged profile has the memory that is asked for."""
    hardware = ModalExecutor.machine(f"modal:{name}").hardware
    assert hardware is not None
    asked, memory_gb = TYPES[name], load_hardware_profile(hardware).memory_bytes / 1e9
    assert asked.least_gb <= memory_gb <= asked.most_gb
    (driver_s,) = load_hardware_profile(hardware).device_names
    assert other_than_asked(name, driver_s, int(memory_gb * 1e9)) is None


def test_a_target_may_have_no_gpu() -> None:
    assert gpu_of_target("modal:cpu") is None


@pytest.mark.parametrize("name", INEXACT)
def test_a_type_that_modal_answers_with_several_is_refused_with_an_exact_one(name: str) -> None:
    with pytest.raises(UsageError, match="more than one type of GPU"):
        gpu_of_target(f"modal:{name}")
    exact = INEXACT[name].split(" or ")
    assert all(each in TYPES for each in exact)


def test_an_unknown_type_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match=r"no GPU type 'H900'.*Known are: T4, L4"):
        gpu_of_target("modal:H900")
