"""Whether the PyTorch of this process computes on the GPU that was asked for, and in a sentence why not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from experiments.engines.garbage import unsearched
from experiments.engines.port import NOT_INSTALLED, Infeasible
from experiments.torch_build import TorchBuild

_DRIVER_TOO_OLD = re.compile(r"driver .*too old \(found version (\d+)\)")
"""PyTorch's words for a driver that does not know its CUDA, with the newest that the driver knows."""


def check_gpu(began: str, install: str) -> None:
    """Raise `Infeasible`, kind `not_installed`, where this process has no GPU to compute on.

    `began` is what can't be then, as the sentence begins, `install` the command that installs a PyTorch for
    GPUs here.
    """
    with unsearched():
        import torch

    if torch.cuda.is_available():
        return
    build = TorchBuild(Path(sys.executable), str(torch.__version__), torch.version.cuda)
    words = ""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as reason:  # of a build for CPUs it is an AssertionError
        words = str(reason)
    raise Infeasible(NOT_INSTALLED, no_gpu_told(began, build, words, install))


def no_gpu_told(began: str, build: TorchBuild, words: str, install: str) -> str:
    """The sentence, from PyTorch's own `words` for why it can't."""
    driver = _DRIVER_TOO_OLD.search(words)
    told = build.refusal(began, None if driver is None else int(driver[1]), install)
    return told or f"{began}: there is no such GPU here."
