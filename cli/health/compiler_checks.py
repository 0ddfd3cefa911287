"""What `autoinfer doctor` tells of the compilers that vLLM's kernels are built with. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cli.health.check_result import Check, Verdict
from cli.health.gpu_checks import installed_vllm, visible_gpus
from experiments.telemetry.identity import DeviceIdentity, identify

if TYPE_CHECKING:
    from configs.settings import Settings
    from experiments.engines.vllm.compilers import Tool

WITHOUT_FLASHINFER = "or go on without what FlashInfer compiles, such as some 8-bit KV caches"
"""What else may be done where a compiler of FlashInfer's lacks."""


def check_vllm_compilers(
    settings: Settings, identified: Callable[[str], DeviceIdentity] = identify
) -> list[Check]:
    """Look for what vLLM's kernels are compiled with when they first run, a line each; none where there is
    no GPU, or no vLLM that serves one."""
    from experiments.engines.port import Infeasible
    from experiments.engines.vllm.compilers import NINJA, NVCC, found_ninja, found_nvcc, named_cuda

    if not visible_gpus(identified)[0]:
        return []
    try:
        vllm = installed_vllm(settings)
    except Infeasible:
        return []  # told by the check of vLLM
    if vllm is None or vllm.for_cpu:
        return []
    python, cuda = vllm.python, named_cuda()
    named = "" if cuda is None else f" ({cuda[0]} names {cuda[1]})"
    return [
        _c_compiler(python),
        _tool(NINJA, found_ninja(python), python),
        _tool(NVCC, found_nvcc(python), python, named),
    ]


def _c_compiler(python: Path) -> Check:
    from experiments.engines.vllm.compilers import (
        C_COMPILER,
        PYTHON_HEADERS,
        found_c_compiler,
        missing_header,
    )

    name, found = _row(C_COMPILER), found_c_compiler(python)
    if found is None:
        named = os.environ.get("CC")
        where = f" (CC names {named})" if named else ""
        lacks = f"no {C_COMPILER.name}{where}: {C_COMPILER.needed_for}"
        return Check(name, Verdict.WARN, lacks, _sentence(C_COMPILER.advice(python)))
    if (header := missing_header(python)) is not None:
        lacks = f"{found}, and there is no {header}: {PYTHON_HEADERS.needed_for}"
        return Check(name, Verdict.WARN, lacks, _sentence(PYTHON_HEADERS.advice(python)))
    return Check(name, Verdict.OK, found)


def _tool(tool: Tool, found: str | None, python: Path, named: str = "") -> Check:
    if found is not None:
        return Check(_row(tool), Verdict.OK, found)
    lacks = f"no {tool.name}{named}: {tool.needed_for}"
    return Check(_row(tool), Verdict.WARN, lacks, _sentence(f"{tool.advice(python)}; {WITHOUT_FLASHINFER}"))


def _row(tool: Tool) -> str:
    return f"vllm: {tool.name}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
