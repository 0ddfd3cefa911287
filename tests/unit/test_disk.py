"""A full disk is told as one whoever meets it: the system, a library, a memory map, a file of records."""

import errno
import os
from collections import namedtuple
from pathlib import Path

import pytest
import torch

from configs.errors import DiskFull, PermissionRefused
from configs.room import no_room
from experiments.disk import check_disk_held, disk_in_words, take_room, told_in_words
from experiments.engines.reference.references import ReferenceWriter
from experiments.job.records import Records

Disk = namedtuple("Disk", "f_blocks f_bfree f_bavail f_frsize f_files f_favail")

FULL = OSError(errno.ENOSPC, "No space left on device")


def of(monkeypatch: pytest.MonkeyPatch, **told: int) -> None:
    disk = Disk(
        **{"f_blocks": 5000, "f_bfree": 0, "f_bavail": 0, "f_frsize": 1000, "f_files": 0, "f_favail": 0}
        | told
    )
    monkeypatch.setattr(os, "statvfs", lambda _: disk)


def test_it_is_told_how_much_is_free_or_what_else_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of(monkeypatch)
    assert no_room(tmp_path / "not" / "there") == "0 MB of the 5 MB of its disk are free"
    of(monkeypatch, f_bavail=4000_000, f_files=1024, f_favail=3)
    assert no_room(tmp_path) == "3 of the 1,024 inodes of its disk are free, of which each file takes one"
    assert no_room(tmp_path, errno.EDQUOT) == "your quota there is used up"


class SafetensorError(Exception):
    """As the library's own, which is no `OSError`."""


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_told_whoever_meets_it(tmp_path: Path, error: Exception) -> None:
    with (
        pytest.raises(DiskFull, match="No space is left for artifacts in"),
        disk_in_words(tmp_path, "artifacts"),
    ):
        raise error


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("OSError: [Errno 28] No space left on device: '/a/b'", "no space is left on the disk: '/a/b'"),
        (str(OSError(errno.EDQUOT, "Disk quota exceeded")), "your quota of the disk is used up"),
        (
            "SafetensorError: Error while serializing: I/O error: No space left on device (os error 28)",
            "SafetensorError: Error while serializing: no space is left on the disk",
        ),
        ("OSError: no kernel", "OSError: no kernel"),
    ],
)
def test_the_systems_words_and_numbers_of_a_full_disk_are_told_in_words(said: str, told: str) -> None:
    assert told_in_words(said) == told


def test_what_is_no_full_disk_goes_on_as_it_is(tmp_path: Path) -> None:
    for error, told in (
        (SafetensorError("Header too large"), SafetensorError),
        (OSError(errno.EROFS, "Read-only file system"), PermissionRefused),
        (OSError(errno.EIO, "Input/output error"), OSError),
        (DiskFull("Another disk is full.", ""), DiskFull),
    ):
        with pytest.raises(told) as raised, disk_in_words(tmp_path, "artifacts"):
            raise error
        assert told is PermissionRefused or raised.value is error


def test_a_process_that_found_no_inode_failed_for_want_of_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_disk_held("vLLM", "exit code 1", tmp_path)
    of(monkeypatch, f_bavail=4000_000, f_files=1024)
    with pytest.raises(DiskFull, match=r"a disk is full: .*0 of the 1,024 inodes"):
        check_disk_held("vLLM", "exit code 1", tmp_path)


def test_what_a_memory_map_will_write_is_refused_beforehand_and_with_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written to a disk without room, a map ends its process by SIGBUS."""

    def refuse(*_: object) -> None:
        raise FULL

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    with pytest.raises(
        OSError, match="No space left on device: the token distributions of the reference take 8 MB, and"
    ):
        ReferenceWriter(tmp_path / "reference", 4096, {"a": 1000})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="takes no room beforehand here")
def test_the_room_of_a_reference_is_taken_before_it_is_written(tmp_path: Path) -> None:
    with ReferenceWriter(tmp_path / "reference", 4096, {"a": 1000}) as writer:
        (array,) = tmp_path.glob(".reference.*/log_probs.npy")
        assert array.stat().st_blocks * 512 >= array.stat().st_size > 8_000_000
        writer.write("a", 0, torch.zeros(1000, 4096))
    take_room(tmp_path / "reference" / "log_probs.npy", 0, "nothing")


class Nearly:
    """A file on a disk that takes so many bytes more: a part of a line without an error, then none."""

    def __init__(self, path: Path, room: int) -> None:
        self._file, self.room = path.open("ab", buffering=0), room

    def write(self, data: memoryview) -> int:
        if not self.room:
            raise FULL
        taken = self._file.write(data[: self.room])
        self.room -= taken
        return taken

    def truncate(self, size: int) -> int:
        return self._file.truncate(size)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


def test_a_line_that_does_not_fit_leaves_no_part_of_itself_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with Records(path) as records:
        records.started(1)
        before = path.read_bytes()
        nearly = Nearly(path, 40)
        records._file.close()
        records._file = nearly  # type: ignore[assignment]
        with pytest.raises(OSError, match="No space left"):
            records.failure("crashed", "a cause of more than forty characters, all in all")
        assert path.read_bytes() == before
        nearly.room = 10_000
        records.end(1.0)
    assert len(path.read_text().splitlines()) == 2
    assert records.fold.ended
