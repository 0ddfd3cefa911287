"""What is refused of a GPU before vLLM loads; the driver's answers are given, and no GPU is asked."""

from __future__ import annotations

import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.device_check import check_device
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice

MIB = 2**20


def check(
    capability: str | None = "9.0", free_bytes: int | None = 2**40, cache: int = MIB, **knobs: KnobValue
) -> None:
    gpu = DeviceIdentity("a GPU", 2**40, free_bytes, capability)
    configuration = Configuration.of({f"serving.{name}": value for name, value in knobs.items()})
    check_device(configuration, reference_model_path(), "cuda:0", cache, lambda device: gpu)


@pytest.mark.parametrize(
    ("backend", "capability"), [("auto", "8.9"), ("machete", "9.0"), ("machete", None), ("exllama", "8.9")]
)
def test_what_is_not_known_to_fail_passes(backend: str, capability: str | None) -> None:
    check(capability, linear_backend=backend)


def test_a_kernel_that_the_gpu_lacks_is_refused_before_anything_loads() -> None:
    with pytest.raises(
        Infeasible, match="machete can't serve this on a GPU: Machete is built for"
    ) as refused:
        check("8.9", linear_backend="machete")
    assert refused.value.kind == "unsupported"


def test_a_kernel_of_a_package_that_vllm_s_python_lacks_is_refused_with_how_to_get_it() -> None:
    gpu = DeviceIdentity("a GPU", 2**40, 2**40, "9.0")
    given = Configuration.of({"serving.linear_backend": "conch"})
    asked: list[str] = []

    def lacks(name: str) -> bool:
        asked.append(name)
        return False

    with pytest.raises(Infeasible, match="pip install conch-triton-kernels there") as refused:
        check_device(given, reference_model_path(), "cuda:0", MIB, lambda _: gpu, has_package=lacks)
    assert refused.value.kind == "unsupported"
    check_device(given, reference_model_path(), "cuda:0", MIB, lambda _: gpu, has_package=lambda _: True)
    assert asked == ["conch-triton-kernels"]


def test_too_little_free_memory_is_told_in_figures_and_an_unknown_amount_passes() -> None:
    with pytest.raises(
        Infeasible, match=r"need 2\.2 GB at least .* 1\.0 GB are free, 1\.2 GB too few"
    ) as refused:
        check(free_bytes=10**9, cache=1024 * MIB)
    assert refused.value.kind == "out_of_memory"
    check(free_bytes=None, cache=1024 * MIB)


def test_a_device_that_is_not_there_is_told() -> None:
    def nothing(device: str) -> DeviceIdentity:
        raise NoSuchDevice(f"There is no {device}.")

    with pytest.raises(Infeasible, match="There is no cuda:7") as refused:
        check_device(Configuration.of({}), reference_model_path(), "cuda:7", MIB, nothing)
    assert refused.value.kind == "unsupported"
