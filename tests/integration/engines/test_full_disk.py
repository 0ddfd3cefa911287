"""An engine's process that fails because a disk is full: the machine's fault, and no configuration's."""

import os
import sys
from pathlib import Path

import pytest

from configs.errors import DiskFull
from experiments.engines.port import Infeasible
from experiments.engines.server_process import ServerProcess

REFUSES = 'print(\'{"infeasible": {"kind": "crashed", "cause": "RuntimeError: See root cause above."}}\')'
DIES = "sys.exit(1)"


def asked(tmp_path: Path, says: str, ends: str) -> None:
    """Ask a process that logs `says`, and then `ends`."""
    code = (
        f"import sys; sys.stdin.readline(); print({says!r}, 'more of it', sep='\\n', file=sys.stderr); {ends}"
    )
    process = ServerProcess(
        "vLLM", [sys.executable, "-c", code], lambda _: os.environ, tmp_path / "log", tmp_path
    )
    try:
        process.ask({}, 60, "load")
    finally:
        process.close()


@pytest.mark.parametrize("ends", [REFUSES, DIES], ids=["refuses", "dies"])
@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            "OSError: [Errno 28] No space left on device: '/cache/triton/x'",
            "no space is left on the disk: '/cache/triton/x'",
        ),
        (
            "cpp_prefix.h:1490:2: fatal error: cannot write PCH file",
            "cpp_prefix.h:1490:2: fatal error: cannot write PCH file",
        ),
        ("OSError: [Errno 122] Disk quota exceeded", "your quota of the disk is used up"),
    ],
)
def test_a_process_that_a_full_disk_ends_is_told_as_such_and_with_what_to_do(
    tmp_path: Path, says: str, words: str, ends: str
) -> None:
    with pytest.raises(DiskFull) as told:
        asked(tmp_path, says, ends)
    assert told.value.message == f"vLLM failed because a disk is full: {words}."
    assert "autoinfer artifacts prune" in told.value.hint


BUILDS_NOT = 'print(\'{{"infeasible": {{"kind": "build_failed", "cause": "torch could not compile: {}"}}}}\')'


def test_a_compiler_that_finds_no_room_is_no_fault_of_what_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words may be in the answer alone; where it has none, the disk of its temporary files tells."""
    full = "OSError: [Errno 28] No space left on device"
    with pytest.raises(DiskFull, match="torch could not compile: no space is left"):
        asked(tmp_path, "", BUILDS_NOT.format(full))
    with pytest.raises(Infeasible, match="C\\+\\+ compile error"):
        asked(tmp_path, "", BUILDS_NOT.format("C++ compile error"))
    monkeypatch.setattr("experiments.disk._free_bytes", lambda folder: 2**30 if folder == tmp_path else 0)
    with pytest.raises(DiskFull, match=f"a disk is full: {tmp_path}/."):
        asked(tmp_path, "", BUILDS_NOT.format("C++ compile error"))


@pytest.mark.parametrize("ends", [REFUSES, DIES], ids=["refuses", "dies"])
def test_what_fails_otherwise_is_the_configurations(tmp_path: Path, ends: str) -> None:
    with pytest.raises(Infeasible) as told:
        asked(tmp_path, "RuntimeError: no kernel", ends)
    assert told.value.kind == "crashed"


def test_a_disk_without_room_for_the_words_is_full_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.disk.FULL_BELOW_BYTES", 2**70)
    with pytest.raises(DiskFull, match=str(tmp_path)):
        asked(tmp_path, "", DIES)
