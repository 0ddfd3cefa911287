"""Which build of PyTorch a Python has, and why it can't compute on a GPU."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from experiments.engines.port import Infeasible
from experiments.engines.torch_gpu import check_gpu, no_gpu_told
from experiments.torch_build import TorchBuild, torch_build

PYTHON = Path("/env/bin/python")
OF_CPUS, OF_GPUS = TorchBuild(PYTHON, "2.13.0+cpu", None), TorchBuild(PYTHON, "2.13.0", "13.0")


def test_this_python_tells_its_own_build_as_pytorch_itself_does() -> None:
    here = Path(sys.executable)
    assert torch_build(here) == TorchBuild(here, version("torch"), torch.version.cuda)


def test_a_python_without_pytorch_or_that_is_none_has_no_build(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho null\n")
    bare.chmod(0o755)
    assert torch_build(bare) is None
    assert torch_build(tmp_path / "gone") is None


@pytest.mark.parametrize(
    ("build", "driver", "why"),
    [
        (OF_CPUS, 13000, "PyTorch 2.13.0+cpu at /env/bin/python is a build for CPUs"),
        (OF_CPUS, None, "PyTorch 2.13.0+cpu at /env/bin/python is a build for CPUs"),
        (
            OF_GPUS,
            12080,
            "PyTorch 2.13.0 at /env/bin/python is built for CUDA 13.0, and the driver, which knows CUDA up "
            "to 12.8, is too old for it",
        ),
        (OF_GPUS, 13000, None),
        (OF_GPUS, 14010, None),
        (OF_GPUS, None, None),
        (TorchBuild(PYTHON, "2.13.0+cu132", "13.2"), 13000, None),
    ],
)
def test_a_build_for_cpus_and_a_driver_of_an_older_cuda_are_told_apart(
    build: TorchBuild, driver: int | None, why: str | None
) -> None:
    """Within one major version a newer CUDA runs on an older driver."""
    assert build.why_not_on_gpu(driver) == why


OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 12080). Please update your GPU driver by …"
)


@pytest.mark.parametrize(
    ("build", "words", "told"),
    [
        (
            OF_CPUS,
            "Torch not compiled with CUDA enabled",
            "Ranking can't be: PyTorch 2.13.0+cpu at /env/bin/python is a build for CPUs; install one for "
            "GPUs: install it.",
        ),
        (
            OF_GPUS,
            OLD_DRIVER,
            "Ranking can't be: PyTorch 2.13.0 at /env/bin/python is built for CUDA 13.0, and the driver, "
            "which knows CUDA up to 12.8, is too old for it; update NVIDIA's driver, or install a build for "
            "an older CUDA, naming its index by PIP_EXTRA_INDEX_URL (pytorch.org/get-started lists "
            "them): install it.",
        ),
        (OF_GPUS, "No CUDA GPUs are available", "Ranking can't be: there is no such GPU here."),
        (OF_GPUS, "", "Ranking can't be: there is no such GPU here."),
    ],
)
def test_pytorch_s_own_words_become_one_sentence_with_what_to_do(
    build: TorchBuild, words: str, told: str
) -> None:
    assert no_gpu_told("Ranking can't be", build, words, "install it") == told


@pytest.mark.skipif(torch.version.cuda is not None, reason="the PyTorch of this Python is a build for GPUs")
def test_a_process_with_a_build_for_cpus_says_so() -> None:
    with pytest.raises(
        Infeasible, match=rf"^Ranking can't be: PyTorch .* at {sys.executable} is a build"
    ) as told:
        check_gpu("Ranking can't be", "install it")
    assert told.value.kind == "not_installed"
