"""A checkpoint that changed after the campaign began is noticed, without reading all of it for each job."""

import os
from pathlib import Path

import pytest

from configs.errors import AutoinferError
from experiments.job.sameness import FOLDER, check_sameness, kept_fingerprint
from experiments.reference_model.load import checkpoint_fingerprint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_the_same_files_pass_and_are_read_once(checkpoint: Path, tmp_path: Path) -> None:
    wanted = checkpoint_fingerprint(checkpoint)
    check_sameness(checkpoint, wanted, tmp_path / "cache")
    [kept] = (tmp_path / "cache" / FOLDER).iterdir()
    kept.write_text("from the cache")
    assert kept_fingerprint(checkpoint, tmp_path / "cache") == "from the cache"


@pytest.mark.parametrize("content", [b"WEIGHTS", b"more weights"])
def test_changed_weights_are_refused(checkpoint: Path, tmp_path: Path, content: bytes) -> None:
    wanted = checkpoint_fingerprint(checkpoint)
    check_sameness(checkpoint, wanted, tmp_path / "cache")
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(content)
    os.utime(weights, ns=(0, 1))  # another time for sure, however coarse the clock of the disk
    with pytest.raises(AutoinferError, match="is not the one that the campaign began with") as caught:
        check_sameness(checkpoint, wanted, tmp_path / "cache")
    assert "run --new" in caught.value.hint
    assert kept_fingerprint(checkpoint, tmp_path / "cache") != wanted
