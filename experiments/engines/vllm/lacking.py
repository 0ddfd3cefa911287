"""What vLLM lacked of its machine or its environment, read from the words of those who looked for it. Pure.

It compiles some kernels when they first run, so that a load, or the first request after it, ends where a
compiler, a header or a package lacks. The words are those of Triton (`runtime/build.py`,
`backends/nvidia/driver.py`), FlashInfer (`jit/cpp_ext.py`), PyTorch (`utils/cpp_extension.py`), gcc, ld and
the shell; vllm issues 2997, 27890, 43381, 47387 and 49497, flashinfer issues 2203, 3386 and 4410.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.engines.vllm.beside_torch import SOUND_AND_VIDEO, TORCHVISION
from experiments.engines.vllm.compilers import C_COMPILER, NINJA, NVCC, PYTHON_HEADERS
from experiments.torch_build import CPU_INDEX

ITS_PYTHON = "vLLM's Python"
"""Stands for the path of it where that is not known."""

_BUILD_FAILED = re.compile(r"CalledProcessError|Ninja build failed|CompilationError|InductorError")
"""Errors whose cause a compiler has printed before, or in lines of their own after them."""

_CUDA_TOOLKIT = (
    "install NVIDIA's CUDA toolkit with its headers and libraries, and name its folder by CUDA_HOME"
)

_FLASHINFERS = "FlashInfer compiles its kernels with it"

_PACKAGES = {"cutlass": "nvidia-cutlass-dsl", "flashinfer": "flashinfer-python"}
"""Packages by the modules that they bring, where another one has the module's name."""

_OF_TRITON = "no knob goes around it, for vLLM's GatedDeltaNet layers run Triton's kernels"

_PARTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"flashinfer/(?:jit/)?gdn"), "serving.gdn_prefill_backend=triton does without"),
    (
        re.compile(r"flashinfer/(?:jit/)?sampling|topk_topp_sampler"),
        "VLLM_USE_FLASHINFER_SAMPLER=0 does without",
    ),
    (
        re.compile(r"attention/backends/flashinfer|flashinfer/(?:jit/)?(?:attention|decode|prefill|cascade)"),
        "serving.kv_cache_dtype=auto does without",
    ),
    (
        re.compile(r"layers/fused_moe|flashinfer/(?:jit/)?fused_moe"),
        "another serving.moe_backend does without",
    ),
    (
        re.compile(r"kernels/linear|flashinfer/(?:jit/)?gemm"),
        "another serving.linear_backend does without",
    ),
    (re.compile(r"/gdn_linear_attn|/mamba/gdn"), "serving.gdn_prefill_backend=triton does without"),
)
"""Places in a traceback, the part of vLLM that is there, and what does without it; the first that is met."""

_FRAME = re.compile(r'File "[^"\n]*?(?:site|dist)-packages/([^"\n]+)", line \d+')


@dataclass(frozen=True)
class _Lacked:
    """Words that tell of something that lacks: its name, what needs it, how to get it; `around` says what
    does without, None where the part that needed it tells. `printed` words are a compiler's own and not an
    error's; `{0}` is what they name."""

    words: re.Pattern[str]
    name: str
    needed_for: str
    install: str
    around: str | None = None
    printed: bool = False


_KNOWN = (
    _Lacked(
        re.compile(r"Failed to find C compiler"),
        f"a {C_COMPILER.name}",
        C_COMPILER.needed_for,
        C_COMPILER.install,
        _OF_TRITON,
    ),
    _Lacked(
        re.compile(r"libcuda\.so cannot found"),
        "libcuda.so",
        C_COMPILER.needed_for,
        "name the folder of the driver's library by TRITON_LIBCUDA_PATH, with a link libcuda.so to the "
        "libcuda.so.1 in it",
        _OF_TRITON,
    ),
    _Lacked(
        re.compile(r"cannot find -lcuda(?![\w-])"),
        "libcuda.so",
        C_COMPILER.needed_for,
        "name the folder of the driver's library by TRITON_LIBCUDA_PATH, with a link libcuda.so to the "
        "libcuda.so.1 in it",
        _OF_TRITON,
        printed=True,
    ),
    _Lacked(
        re.compile(r"fatal error: Python\.h: No such file"),
        PYTHON_HEADERS.name,
        PYTHON_HEADERS.needed_for,
        PYTHON_HEADERS.install,
        _OF_TRITON,
        printed=True,
    ),
    _Lacked(
        re.compile(
            r"Could not find nvcc|No such file or directory: '(?:\S*/)?nvcc'|"
            r"CUDA_HOME environment variable is not"
        ),
        NVCC.name,
        NVCC.needed_for,
        NVCC.install,
    ),
    _Lacked(
        re.compile(r"nvcc: (?:command )?not found|nvcc: No such file"),
        NVCC.name,
        NVCC.needed_for,
        NVCC.install,
        printed=True,
    ),
    _Lacked(
        re.compile(r"No such file or directory: '(?:\S*/)?ninja'|Ninja is required to"),
        NINJA.name,
        NINJA.needed_for,
        NINJA.install,
    ),
    _Lacked(
        re.compile(r"fatal error: ((?:cu|nv)[\w/]*\.h(?:pp)?): No such file"),
        "{0}",
        "FlashInfer compiles its kernels against it",
        _CUDA_TOOLKIT,
        printed=True,
    ),
    _Lacked(
        re.compile(r"cannot find -l(cudart|cublas|cublasLt|nvrtc)\b"),
        "lib{0}.so",
        "FlashInfer links its kernels with it",
        _CUDA_TOOLKIT,
        printed=True,
    ),
    _Lacked(
        re.compile(r"(?:[cg]\+\+|cc1plus): (?:command )?not found|Failed to preprocess host compiler"),
        "a C++ compiler",
        _FLASHINFERS,
        "install g++ (Debian, Ubuntu: apt install build-essential)",
        printed=True,
    ),
    _Lacked(
        re.compile(r"No working C\+\+ compiler found"),
        "a C++ compiler",
        "PyTorch compiles the model with it",
        "install g++ (Debian, Ubuntu: apt install build-essential)",
        "serving.graph_mode=eager does without",
    ),
    _Lacked(
        re.compile(r"UVA is not available"),
        "pinned memory",
        "its second runner needs it, and it leaves it off on Windows' Linux (WSL)",
        "set VLLM_WSL2_ENABLE_PIN_MEMORY=1",
        "VLLM_USE_V2_MODEL_RUNNER=0 does without",
    ),
)

_UNFIT = re.compile(
    rf"operator ({TORCHVISION})::\w+ does not exist|"
    rf"Could not load this library: \S*/({'|'.join((TORCHVISION, *SOUND_AND_VIDEO))})/"
)
"""PyTorch's words (`_ops.py`) for a package beside it that was built for another PyTorch."""

_MODULE = re.compile(rf"No module named '({'|'.join(_PACKAGES)})(?:\.[\w.]+)?'")

_NEWER = re.compile(r"requires? (nvidia-cutlass-dsl|flashinfer-python)\s*>=?")


def lacked(errors: Sequence[str], log: str) -> str | None:
    """What lacked, in one sentence with how to get it and what does without; None where that is not why.

    `errors` are those that the log names, in their order: the last one counts, for what was caught is none.
    """
    if not errors:
        return None
    last = errors[-1]
    module, newer = _MODULE.search(last), _NEWER.search(last)
    if module is not None or newer is not None:
        package = _PACKAGES[module[1]] if module is not None else newer[1] if newer is not None else ""
        upgrade = "--upgrade " if module is None else ""
        how = f"install it where vLLM is: {ITS_PYTHON} -m pip install {upgrade}{package}"
        needs = (
            "FlashInfer's kernels are made with it"
            if package == _PACKAGES["cutlass"]
            else "the part that was asked for runs its kernels"
        )
        what = f"the Python package {package}" + (" in a version that is new enough" if upgrade else "")
        return _sentence(what, needs, how, _around(log))
    if (unfit := _UNFIT.search(last)) is not None:
        return _unfit(unfit[1] or unfit[2])
    for each in _KNOWN:
        told = _printed(each, last, log) if each.printed else each.words.search(last)
        if told is not None:
            how = each.install.format(python=ITS_PYTHON)
            around = each.around or _around(log)
            return _sentence(each.name.format(*told.groups()), each.needed_for, how, around)
    return None


def _unfit(package: str) -> str:
    """Of a package beside PyTorch that was built for another one."""
    taken = f"{ITS_PYTHON} -m pip install --force-reinstall --no-deps --index-url {CPU_INDEX} {package}"
    way = f"take it from the index that its PyTorch is from (for CPUs: {taken})"
    if package in SOUND_AND_VIDEO:
        way = f"remove it, for no text needs it: {ITS_PYTHON} -m pip uninstall {package}"
    return (
        f"vLLM's environment has a {package} that its PyTorch can't load, and vLLM imports it: make one with "
        f"`autoinfer engines install vllm` (--cpu without a GPU), or {way}."
    )


def _printed(known: _Lacked, last: str, log: str) -> re.Match[str] | None:
    return known.words.search(log) if _BUILD_FAILED.search(last) else None


def _around(log: str) -> str:
    """What does without the part that the last traceback was in."""
    frames = _FRAME.findall(log.rpartition("Traceback (most recent call last)")[2])
    for part, does_without in _PARTS:
        if any(part.search(frame) for frame in frames):
            return does_without
    return "no knob is known to do without"


def _sentence(what: str, needed_for: str, install: str, around: str) -> str:
    return f"vLLM lacked {what} ({needed_for}): {install}; until then {around}."
