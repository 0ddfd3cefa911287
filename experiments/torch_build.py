"""Which build of PyTorch a Python has, read from PyTorch's own file about it; nothing imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from experiments.other_python import NoAnswer, answer_of

TORCH_VERSION = "2.13.0"
"""The PyTorch that this is written for, as the extra `reference` pins it."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of builds for CPUs: on Linux those of the package index bring gigabytes of CUDA."""

_ASK_BUILD = """
import importlib.util, json, pathlib, runpy
spec = importlib.util.find_spec("torch")
file = pathlib.Path(spec.origin).with_name("version.py") if spec is not None and spec.origin else None
told = None if file is None else runpy.run_path(str(file))
print(json.dumps(told and {"version": str(told["__version__"]), "cuda": told.get("cuda")}))
"""


@dataclass(frozen=True)
class TorchBuild:
    """A PyTorch: its version, and the version of CUDA that it was built for, None of a build for CPUs."""

    version: str
    cuda: str | None

    def why_not_on_gpu(self, cuda_driver: int | None) -> str | None:
        """Why it can't compute on an NVIDIA GPU, as a clause; None where nothing is against it.

        `cuda_driver` is the newest CUDA that the driver knows, as the driver tells it (12080 for 12.8), None
        where that is not known. A newer CUDA of the same major version runs on it (NVIDIA's documentation,
        *CUDA compatibility*, minor version compatibility).
        """
        if self.cuda is None:
            return f"PyTorch {self.version} is a build for CPUs"
        if cuda_driver is None or int(self.cuda.partition(".")[0]) <= cuda_driver // 1000:
            return None
        known = f"{cuda_driver // 1000}.{cuda_driver % 1000 // 10}"
        return (
            f"PyTorch {self.version} is built for CUDA {self.cuda}, and the driver knows CUDA up to {known}: "
            "it is too old"
        )


@lru_cache
def torch_build(python: Path) -> TorchBuild | None:
    """The PyTorch of a Python; None where it has none, or does not answer."""
    try:
        told = answer_of(python, "-c", _ASK_BUILD)
    except NoAnswer:
        return None
    return None if told is None else TorchBuild(told["version"], told["cuda"])
