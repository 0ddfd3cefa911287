"""vLLM's own kernels for packed weights, timed for real on a vLLM for CPUs, where one is installed.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one everything here is skipped. Times on a
CPU mean nothing here: what is tried is that vLLM's own layers are built, prepared and multiplied.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.kernel_timings import KERNEL, KernelTiming, KernelTimings
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import needed_environment
from experiments.own_processes import begun_beside, children
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue


def why_not() -> str:
    try:
        needed_environment("cpu")
    except Infeasible as reason:
        return reason.cause
    return ""


pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

PROFILE = load_model_profile("reference")
REFUSED_BITS = 8
"""What the kernels of vLLM's build for CPUs do not multiply (vLLM's `CPUWNA16LinearKernel`)."""


def packed(kernel: str, **knobs: KnobValue) -> Configuration:
    told: dict[str, KnobValue] = {
        "quantization.method": "rtn",
        "quantization.bits": 4,
        "quantization.group_size": 64,
        "quantization.symmetric": True,
        "quantization.lm_head": "high",
        "serving.dtype": "bfloat16",
        KERNEL: kernel,
    }
    return Configuration.of({**told, **{f"quantization.{name}": value for name, value in knobs.items()}})


ASKED = (
    packed("auto"),
    packed("no_such_backend"),
    packed("auto", bits=REFUSED_BITS),
    packed("auto", symmetric=False),
)


def timed(folder: Path, known: KernelTimings | None = None) -> KernelTimings:
    before = children()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # others' work shares the cores
        found = VllmEngine().time_kernels(
            ASKED, reference_model_path(), "cpu", 2, folder / "log", folder, known=known
        )
    assert not begun_beside(before), "nothing is left of what it began"
    return found


@pytest.fixture(scope="module")
def timings(tmp_path_factory: pytest.TempPathFactory) -> KernelTimings:
    return timed(tmp_path_factory.mktemp("kernels"))


def test_every_product_of_the_model_is_timed_by_vllms_own_kernel(timings: KernelTimings) -> None:
    for timing in (timings.plain, timings.packed[0], timings.packed[3]):
        assert timing.products_us is not None
        assert timing.products_us > 0
        assert {each.part for each in timing.parts} >= {"gate_up_proj", "down_proj", "qkv_proj", "out_proj"}
        assert all(len(each.samples_us) >= 3 and each.copies > 1 for each in timing.parts)
    assert timings.plain.kernel == "UnquantizedLinearMethod"
    assert "LinearKernel" in timings.packed[0].kernel
    assert sum(each.count for each in timings.plain.parts if each.part == "gate_up_proj") == PROFILE.layers


def test_packed_weights_take_fewer_bytes_as_they_lie_in_memory(timings: KernelTimings) -> None:
    def size(timing: KernelTiming) -> int:
        return sum(each.weight_bytes for each in timing.parts)

    assert size(timings.packed[0]) < 0.5 * size(timings.plain)


def test_what_vllm_refuses_is_told_in_its_words(timings: KernelTimings) -> None:
    unknown, bits = timings.packed[1:3]
    assert unknown.refused == "This vLLM knows no linear backend no_such_backend."
    assert "Unsupported quant type" in str(bits.refused) or "not support" in str(bits.refused)
    assert (unknown.products_us, bits.products_us) == (None, None)


def test_what_the_times_rest_on_is_told(timings: KernelTimings) -> None:
    assert timings.rows == 2
    assert "monotonic clock" in timings.method
    assert timings.record is not None
    assert {"device", "cache_bytes", "torch", "vllm"} <= set(timings.record)
    assert timings.cut_off is None


def test_what_was_left_is_timed_later_beside_what_was_known(timings: KernelTimings, tmp_path: Path) -> None:
    last = timings.packed[3]
    parts = (last.parts[0], *(replace(each, us=None, left=True) for each in last.parts[1:]))
    known = replace(timings, packed=(*timings.packed[:3], replace(last, parts=parts)))
    found = timed(tmp_path, known)
    assert (found.plain, found.packed[:3]) == (timings.plain, timings.packed[:3])
    assert found.packed[3].parts[0] == last.parts[0]
    assert all(each.us is not None for each in found.packed[3].parts)
    assert (found.rounds, found.is_unfinished, found.cut_off) == (2, False, None)
