"""PyTorch's words for memory that ran out become one sentence; its errors are given, and no GPU is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.corpora.calibration import writing_process
from experiments.engines.port import Infeasible
from experiments.engines.reference.server import reply_to_failure
from experiments.engines.torch_memory import memory_told, told_of_memory
from experiments.reference_model.load import reference_model_path
from experiments.stages.pruning import scoring_process
from experiments.stages.quantize import quantizing_process

GPU_FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 512.00 "
    "MiB is free. Process 7 has 1.20 GiB memory in use. Of the allocated memory 21.00 GiB is allocated by "
    "PyTorch, and 80.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
"""As PyTorch's allocator words it; made up, for no GPU was at hand."""


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    """The processes' own functions set how many threads PyTorch takes."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


TOO_FEW = "2.00 GiB more were asked for and 0.50 are free, 1.50 GiB too few; "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GPU_FULL, f"It is full: {TOO_FEW}take less."),
        (
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            "It is full, and by how much is not told (CUDA error: out of memory); take less.",
        ),
        (
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "It is full, and by how much is not told (CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
            "`cublasCreate(handle)`); take less.",
        ),
        (
            "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)",
            "It is full: 4.00 GiB more were asked for, and the machine does not have them; take less.",
        ),
        ("mat1 and mat2 shapes cannot be multiplied", None),
    ],
)
def test_what_ran_out_is_one_sentence_with_what_was_missing(text: str, told: str | None) -> None:
    assert memory_told("It is full", text, "take less") == told


def test_an_error_of_another_kind_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes"), told_of_memory("It is full", "take less"):
        raise RuntimeError("shapes cannot be multiplied")


def test_a_machine_that_is_full_is_told_too() -> None:
    with pytest.raises(Infeasible, match="take less") as told, told_of_memory("It is full", "take less"):
        raise MemoryError
    assert told.value.kind == "out_of_memory"


def full(*_: object, **__: object) -> None:
    raise torch.OutOfMemoryError(GPU_FULL)


def refused(answer: Any, request: dict[str, Any]) -> Infeasible:
    with pytest.raises(Infeasible) as told:
        answer(request)
    assert told.value.kind == "out_of_memory"
    assert told.value.missing_bytes == 1.5 * 2**30
    assert "PYTORCH" not in told.value.cause
    assert "\n" not in told.value.cause
    return told.value


@pytest.mark.parametrize(
    ("documents", "ways"),
    [
        ([[1, 2]], ("quantization.samples", "quantization.method=rtn")),
        ([], ("free memory on cuda:0", "target")),
    ],
)
def test_quantizing_says_how_much_was_missing_and_what_to_do(
    documents: list[list[int]], ways: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantizing_process, "_quantized", full)
    cause = refused(quantizing_process.answer, {"device": "cuda:0", "documents": documents}).cause
    assert cause.startswith(f"Quantizing on cuda:0 ran out of memory: {TOO_FEW}")
    assert all(way in cause for way in ways)
    assert ("quantization.samples" in cause) == bool(documents)


def test_ranking_layers_says_how_much_was_missing_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_process, "_ranking", full)
    request = {
        "checkpoints": {"original": str(reference_model_path())},
        "device": "cpu",
        "documents": [[1, 2]],
        "threads": 1,
        "number_format": "float32",
    }
    cause = refused(scoring_process.answer, request).cause
    assert cause.startswith(f"Ranking layers on cpu ran out of memory: {TOO_FEW}free memory on cpu")


def test_writing_calibration_text_says_how_much_was_missing_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("experiments.engines.reference.checkpoint.load_model", full)
    request = {
        "checkpoint": str(reference_model_path()),
        "beginnings": [[[1]]],
        "tokens": 4,
        "ends": [],
        "vocabulary": 8,
        "temperature": 1.0,
        "seed": 0,
        "device": "cpu",
        "threads": 1,
    }
    cause = refused(writing_process.answer, request).cause
    assert cause.startswith(f"Writing calibration text on cpu ran out of memory: {TOO_FEW}take fewer")
    assert "another quantization.corpus" in cause


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (torch.OutOfMemoryError(GPU_FULL), f"The model does not fit into memory: {TOO_FEW}free some of it"),
        (MemoryError(), "The model does not fit into memory; free some of it"),
        (RuntimeError("CUDA error: out of memory"), "is not told (CUDA error: out of memory); free"),
    ],
)
def test_the_reference_engine_says_it_likewise(failure: Exception, told: str) -> None:
    reply: Any = reply_to_failure(failure)
    assert reply["infeasible"]["kind"] == "out_of_memory"
    assert told in reply["infeasible"]["cause"]


def test_the_reference_engine_leaves_other_failures_as_they_are(tmp_path: Path) -> None:
    reply: Any = reply_to_failure(ValueError(f"{tmp_path} is none"))
    assert reply["infeasible"]["kind"] == "crashed"
