"""Packages of vLLM's environment that its PyTorch can't load, read from their own files; nothing is imported.

On Linux the package index has torchvision, torchaudio and torchcodec as builds for CUDA, linked to libraries
of PyTorch's that a build of it for CPUs lacks. vLLM and transformers import them wherever they are there,
whatever is served, and fail with them. The version that pip knows does not tell the build; `version.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from experiments.other_python import NoAnswer, answer_of
from experiments.torch_build import CPU_INDEX

TORCHVISION = "torchvision"

SOUND_AND_VIDEO = ("torchaudio", "torchcodec")
"""Packages that vLLM's build for CPUs asks for and nothing that serves text needs."""

TEXT_ONLY = "autoinfer_text_only_torchvision"
"""The module that `autoinfer engines install vllm --cpu` makes of `text_only_torchvision.py`: its Python
imports it when it starts, and torchvision can then be imported beside any PyTorch."""

_CUDA = "+cu"
"""What the version of a build for CUDA has behind its numbers, as in `0.28.0+cu130`."""

_ASK_VERSIONS = """
import json, pathlib, re, sys
from importlib.machinery import PathFinder
def version(name):
    spec = PathFinder.find_spec(name)
    if spec is None or not spec.origin:
        return None
    file = pathlib.Path(spec.origin).with_name("version.py")
    text = file.read_text() if file.is_file() else ""
    told = re.search(r"^__version__ *= *['\\"](.+?)['\\"]", text, re.M)
    return told and told[1]
text_only, *names = sys.argv[1:]
print(json.dumps({name: version(name) for name in names} | {text_only: str(text_only in sys.modules)}))
"""


def not_loaded_by(versions: Mapping[str, str | None]) -> Mapping[str, str]:
    """Of these versions, by package and each with its build, those of packages that the `torch` among them
    can't load: builds for CUDA beside one for CPUs. Empty where PyTorch's build is not told."""
    torch = versions.get("torch")
    if torch is None or not torch.endswith("+cpu"):
        return {}
    beside = ((name, versions.get(name)) for name in (TORCHVISION, *SOUND_AND_VIDEO))
    return {name: version for name, version in beside if version is not None and _CUDA in version}


@lru_cache
def why_not_imported(python: Path) -> str | None:
    """Why vLLM can't be imported by a Python that has it, for what lies beside its PyTorch, and what to do,
    as a clause; None where nothing is seen against it."""
    try:
        told = answer_of(python, "-c", _ASK_VERSIONS, TEXT_ONLY, "torch", TORCHVISION, *SOUND_AND_VIDEO)
    except NoAnswer:
        return None
    unfit = dict(not_loaded_by(told))
    if told.get(TEXT_ONLY) == str(True):
        unfit.pop(TORCHVISION, None)
    if not unfit:
        return None
    named = ", ".join(f"{name} {version}" for name, version in unfit.items())
    return (
        f"its PyTorch {told['torch']} is a build for CPUs and can't load {named} beside it, which vLLM "
        f"imports; {_way_out(python, unfit)}"
    )


def _way_out(python: Path, unfit: Mapping[str, str]) -> str:
    """What to do about these packages, by their versions, beside a PyTorch for CPUs; a clause."""
    ways, removed = [], " ".join(name for name in SOUND_AND_VIDEO if name in unfit)
    if TORCHVISION in unfit:
        pinned = f"{TORCHVISION}=={unfit[TORCHVISION].partition('+')[0]}"
        ways.append(f"`{python} -m pip install --force-reinstall --no-deps --index-url {CPU_INDEX} {pinned}`")
    if removed:
        ways.append(f"`{python} -m pip uninstall {removed}`")
    return f"make an environment with `autoinfer engines install vllm --cpu`, or run {' and '.join(ways)}"
