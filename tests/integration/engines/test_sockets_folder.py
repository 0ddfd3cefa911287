"""Where the sockets of an engine's processes lie: their paths have a longest length."""

import socket
import tempfile
import uuid
from pathlib import Path

import pytest

from experiments.engines.server_process import SHORT_FOLDER, SOCKETS, sockets_parent, sweep_launches
from experiments.scratch import HELD, ScratchFolder


@pytest.mark.parametrize("length", [5, 30, 39, 40, 90])
def test_a_socket_of_vllm_s_can_be_bound_there_however_long_temporary_files_are_named(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        system = Path(root, "t" * (length - len(root) - 1)) if length > len(root) else Path("/tmp")
        system.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(system))
        assert sockets_parent() == (system if length < 40 else SHORT_FOLDER)
        with ScratchFolder(SOCKETS, sockets_parent()) as folder, socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(folder / str(uuid.uuid4())))


def test_what_killed_launches_left_is_swept_in_both_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / ("t" * 60)
    system.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(system))
    left = [Path(tempfile.mkdtemp(prefix=f"{SOCKETS}-", dir=each)) for each in (system, SHORT_FOLDER)]
    for each in left:
        (each / HELD).touch()
    sweep_launches(tmp_path)
    assert not any(each.exists() for each in left)
