"""Which build of PyTorch a Python has, and why it can't compute on a GPU."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from experiments.torch_build import TorchBuild, torch_build

OF_CPUS, OF_GPUS = TorchBuild("2.13.0+cpu", None), TorchBuild("2.13.0", "13.0")


def test_this_python_tells_its_own_build_as_pytorch_itself_does() -> None:
    assert torch_build(Path(sys.executable)) == TorchBuild(version("torch"), torch.version.cuda)


def test_a_python_without_pytorch_or_that_is_none_has_no_build(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho null\n")
    bare.chmod(0o755)
    assert torch_build(bare) is None
    assert torch_build(tmp_path / "gone") is None


@pytest.mark.parametrize(
    ("build", "driver", "why"),
    [
        (OF_CPUS, 13000, "PyTorch 2.13.0+cpu is a build for CPUs"),
        (OF_CPUS, None, "PyTorch 2.13.0+cpu is a build for CPUs"),
        (
            OF_GPUS,
            12080,
            "PyTorch 2.13.0 is built for CUDA 13.0, and the driver knows CUDA up to 12.8: it is too old",
        ),
        (OF_GPUS, 13000, None),
        (OF_GPUS, 14010, None),
        (OF_GPUS, None, None),
        (TorchBuild("2.13.0+cu132", "13.2"), 13000, None),
    ],
)
def test_a_build_for_cpus_and_a_driver_of_an_older_cuda_are_told_apart(
    build: TorchBuild, driver: int | None, why: str | None
) -> None:
    """Within one major version a newer CUDA runs on an older driver."""
    assert build.why_not_on_gpu(driver) == why
