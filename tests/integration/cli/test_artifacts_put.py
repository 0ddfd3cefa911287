"""`autoinfer artifacts put`: a checkpoint for machines that see no folder of this one."""

from pathlib import Path

import pytest

from experiments.artifacts.originals import fetch_original
from experiments.artifacts.shared import SharedArtifacts
from tests.integration.cli.command import Autoinfer


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt", "notes.md"):
        (folder / name).write_text(name)
    return folder


def test_it_is_sent_once_and_fetched_whole(autoinfer: Autoinfer, checkpoint: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "shared")
    first = autoinfer(f"artifacts put {checkpoint} --json", AUTOINFER_ARTIFACTS=store)
    again = autoinfer(f"artifacts put {checkpoint}", AUTOINFER_ARTIFACTS=store)
    assert (first.code, first.json()["sent"]) == (0, True)
    assert "was in" in again.out
    files = fetch_original(SharedArtifacts(store), first.json()["fingerprint"], tmp_path / "there")
    assert files is not None
    assert {path.name for path in files.iterdir()} == {"config.json", "model.safetensors", "vocab.txt"}


def test_without_a_store_or_a_checkpoint_a_sentence_says_what_to_do(
    autoinfer: Autoinfer, checkpoint: Path, tmp_path: Path
) -> None:
    nowhere = autoinfer(f"artifacts put {checkpoint}")
    assert nowhere.code == 2
    assert "AUTOINFER_ARTIFACTS=s3://bucket/prefix" in nowhere.err
    none = autoinfer(f"artifacts put {tmp_path / 'none'}", AUTOINFER_ARTIFACTS=str(tmp_path / "shared"))
    assert none.code == 1
    assert "is no checkpoint" in none.err
