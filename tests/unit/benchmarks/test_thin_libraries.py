"""Of device code that for other GPUs is found, and what this one runs is not."""

import struct
from pathlib import Path

import pytest

from tests.device.thin_libraries import BINARY, MAGIC, PTX, main, of_other_gpus

HEADER_BYTES = 64


def container(*entries: tuple[int, int, bytes]) -> bytes:
    """A container of entries: kind, compute capability, code."""
    told = b""
    for kind, sm, code in entries:
        head = struct.pack("<HHIQ", kind, 0, HEADER_BYTES, len(code)).ljust(28, b"\0") + struct.pack("<I", sm)
        told += head.ljust(HEADER_BYTES, b"\0") + code
    return struct.pack("<IHHQ", MAGIC, 1, 16, len(told)) + told


@pytest.mark.parametrize(
    ("entries", "others"),
    [
        ([(BINARY, 80, b"A" * 24), (BINARY, 90, b"H" * 32), (PTX, 120, b"B" * 16)], [b"A" * 24, b"B" * 16]),
        ([(PTX, 80, b"a" * 24), (BINARY, 90, b"H" * 32)], [b"a" * 24]),
        ([(BINARY, 80, b"A" * 24), (PTX, 80, b"a" * 8), (PTX, 100, b"b" * 8)], [b"A" * 24, b"b" * 8]),
    ],
    ids=["its own code", "portable code beside its own", "portable code alone"],
)
def test_what_this_gpu_runs_stays(entries: list[tuple[int, int, bytes]], others: list[bytes]) -> None:
    data = b"\0" * 16 + container(*entries) + b"\0" * 8 + container((BINARY, 90, b"Z" * 40))
    found = [data[start : start + size] for start, size in of_other_gpus(data, (16, len(data) - 16), 90)]
    assert found == others


def test_what_is_no_library_is_refused_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text("no library")
    for file in (page, tmp_path / "nowhere.so"):
        with pytest.raises(SystemExit):
            main(["--sm", "90", str(file)])
        assert f"{file} is no library" in capsys.readouterr().err
    assert page.read_text() == "no library"
