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


FOR_GPUS = f"torch=={TORCH_VERSION},!={TORCH_VERSION}+cpu"
"""What pip is asked for where a build for CPUs must not come, whatever indexes it has: of two builds of a
version it takes the one with an ending such as `+cpu`."""

OTHER_INDEX = "naming its index by PIP_EXTRA_INDEX_URL (pytorch.org/get-started lists them)"
"""How a build for another CUDA than the package index's is installed."""


@dataclass(frozen=True)
class TorchBuild:
    """A PyTorch: the Python that has it, its version, and the version of CUDA that it was built for, None of
    a build for CPUs."""

    python: Path
    version: str
    cuda: str | None

    def why_not_on_gpu(self, cuda_driver: int | None) -> str | None:
        """Why it can't compute on an NVIDIA GPU, as a clause; None where nothing is against it.

        `cuda_driver` is the newest CUDA that the driver knows, as the driver tells it (12080 for 12.8), None
        where that is not known. A newer CUDA of the same major version runs on it (NVIDIA's documentation,
        *CUDA compatibility*, minor version compatibility).
        """
        named = f"PyTorch {self.version} at {self.python}"
        if self.cuda is None:
            return f"{named} is a build for CPUs"
        if cuda_driver is None or int(self.cuda.partition(".")[0]) <= cuda_driver // 1000:
            return None
        known = f"{cuda_driver // 1000}.{cuda_driver % 1000 // 10}"
        return (
            f"{named} is built for CUDA {self.cuda}, and the driver, which knows CUDA up to {known}, is too "
            "old for it"
        )

    def way_out(self, install: str) -> str:
        """What to do about why it can't, as a clause; `install` is the command that installs a build."""
        if self.cuda is None:
            return f"install one for GPUs: {install}"
        return f"update NVIDIA's driver, or install a build for an older CUDA, {OTHER_INDEX}: {install}"

    def refusal(self, began: str, cuda_driver: int | None, install: str) -> str | None:
        """The sentence that says so, `began` with what can't be; None where nothing is against it."""
        why = self.why_not_on_gpu(cuda_driver)
        return None if why is None else f"{began}: {why}; {self.way_out(install)}."


@lru_cache
def torch_build(python: Path) -> TorchBuild | None:
    """The PyTorch of a Python; None where it has none, or does not answer."""
    try:
        told = answer_of(python, "-c", _ASK_BUILD)
    except NoAnswer:
        return None
    return None if told is None else TorchBuild(python, told["version"], told["cuda"])


def install_into(python: Path) -> str:
    """The command that installs a build for GPUs into a Python."""
    return f"{python} -m pip install '{FOR_GPUS}'"
