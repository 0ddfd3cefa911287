"""What vLLM's kernels are compiled with when they first run on a GPU, and where that is looked for.

Triton builds what starts its kernels in C, against the headers of the Python that it runs in
(`triton/runtime/build.py`); FlashInfer calls `ninja` by name and nvcc of the folder that `CUDA_HOME` or
`CUDA_PATH` names, of what `PATH` has, or of `/usr/local/cuda` (`flashinfer/jit/cpp_ext.py`). Imports no
torch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.other_python import NoAnswer, answer_of

DEFAULT_CUDA = Path("/usr/local/cuda")
"""Where FlashInfer looks for nvcc where nothing else is said."""

CUDA_FOLDERS = ("CUDA_HOME", "CUDA_PATH")
"""The variables that name its folder, in the order in which FlashInfer asks them."""

_INCLUDE = "import json, sysconfig; print(json.dumps(sysconfig.get_paths()['include']))"


@dataclass(frozen=True)
class Tool:
    """What is called to compile: its name in a sentence, what needs it, and how to get it, where `{python}`
    stands for vLLM's own."""

    name: str
    needed_for: str
    install: str

    def advice(self, python: str | Path) -> str:
        """How to get it, in a sentence without its end."""
        return self.install.format(python=python)


C_COMPILER = Tool(
    "C compiler",
    "Triton builds with it what starts each of its kernels",
    "install gcc (Debian, Ubuntu: apt install build-essential), or name one by the variable CC",
)

PYTHON_HEADERS = Tool(
    "Python.h",
    "Triton builds against it what starts each of its kernels",
    "install the headers of the Python that vLLM runs in (Debian, Ubuntu: apt install python3-dev, or "
    "python3.12-dev for a Python of that version), or make vLLM's environment from a Python that has them",
)

NINJA = Tool(
    "ninja",
    "FlashInfer compiles its kernels with it",
    "install it where vLLM is: {python} -m pip install ninja",
)

NVCC = Tool(
    "nvcc",
    "FlashInfer compiles its kernels with it",
    "install NVIDIA's CUDA toolkit in the version that vLLM is built for, and name its folder by CUDA_HOME "
    "where that is not /usr/local/cuda",
)


def search_path(python: Path, environment: Mapping[str, str] = os.environ) -> str:
    """`PATH` of a process of vLLM's Python: the folder that this is in, and what `environment` has."""
    return os.pathsep.join([str(python.absolute().parent), environment.get("PATH", os.defpath)])


def found_c_compiler(python: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """The C compiler that Triton takes in vLLM's Python: the one that `CC` names, gcc or clang."""
    named = environment.get("CC")
    path = search_path(python, environment)
    wanted = (named.split()[0],) if named and named.split() else ("gcc", "clang")
    return next((found for each in wanted if (found := shutil.which(each, path=path))), None)


def found_ninja(python: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """The ninja that FlashInfer takes in vLLM's Python."""
    return shutil.which("ninja", path=search_path(python, environment))


def found_nvcc(python: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """The nvcc that FlashInfer takes in vLLM's Python: a folder that is named hides others."""
    named = named_cuda(environment)
    if named is None and (found := shutil.which("nvcc", path=search_path(python, environment))) is not None:
        return found
    folder = DEFAULT_CUDA if named is None else Path(named[1])
    return shutil.which(str(folder / "bin" / "nvcc"))


def named_cuda(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """The variable that names CUDA's folder, and the folder; None where none does."""
    return next(((name, folder) for name in CUDA_FOLDERS if (folder := environment.get(name))), None)


def missing_header(python: Path) -> str | None:
    """The header that Triton builds against, where vLLM's Python does not have it; None where it does, or
    does not say where it would be."""
    try:
        folder = answer_of(python, "-c", _INCLUDE)
    except NoAnswer:
        return None
    if not isinstance(folder, str) or (header := Path(folder, "Python.h")).is_file():
        return None
    return str(header)
