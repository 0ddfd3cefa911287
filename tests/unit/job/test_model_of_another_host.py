"""Where a job finds the model of a campaign that was begun on another host."""

import socket
from pathlib import Path

import pytest

from configs.errors import AutoinferError
from configs.model_names import HubName
from experiments.checkpoints.hub import HubCheckpoint
from experiments.job import assembly

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_folder_that_is_not_here_is_told_with_the_host(tmp_path: Path) -> None:
    with pytest.raises(AutoinferError, match=f"is not on this host .{socket.gethostname()}.") as told:
        assembly.checkpoint_path(str(tmp_path / "models" / "mine"))
    assert "Copy the folder to the same place here" in told.value.hint


def test_a_snapshot_of_another_host_s_hub_cache_is_taken_from_this_host_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[HubName] = []

    def fetch(name: HubName) -> HubCheckpoint:
        asked.append(name)
        return HubCheckpoint(name, COMMIT, tmp_path)

    monkeypatch.setattr(assembly, "fetch", fetch)
    there = f"/home/other/.cache/huggingface/hub/models--Owner--Name/snapshots/{COMMIT}"
    assert assembly.checkpoint_path(there) == tmp_path
    assert asked == [HubName("Owner/Name", COMMIT)]


def test_a_folder_that_is_here_is_taken_as_it_is(tmp_path: Path) -> None:
    assert assembly.checkpoint_path(str(tmp_path)) == tmp_path
