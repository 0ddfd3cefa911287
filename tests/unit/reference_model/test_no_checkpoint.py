"""A folder that is no checkpoint is told with where one may be, or what it has in place of one."""

from pathlib import Path

import pytest

from experiments.reference_model.load import CheckpointMissing, fingerprinted_files


def refused(folder: Path) -> str:
    with pytest.raises(CheckpointMissing) as told:
        fingerprinted_files(folder)
    return str(told.value.hint)


def with_files(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_a_folder_of_the_hubs_cache_is_told_with_the_checkpoint_in_it(tmp_path: Path) -> None:
    inner = with_files(tmp_path / "models--a--b" / "snapshots" / "c0", "config.json", "model.safetensors")
    with_files(tmp_path / "models--a--b" / "refs", "main")
    assert (
        refused(tmp_path / "models--a--b")
        == f"Give the folder that holds config.json and *.safetensors: {inner} does."
    )


def test_with_several_checkpoints_in_it_none_is_picked(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with_files(tmp_path / name, "config.json", "model.safetensors")
    told = refused(tmp_path)
    assert told == f"Give the folder that holds config.json and *.safetensors, such as {tmp_path / 'a'}."


def test_weights_of_another_kind_are_told_with_what_is_read(tmp_path: Path) -> None:
    pickled = with_files(tmp_path / "pickled", "config.json", "pytorch_model-00001-of-00002.bin")
    assert refused(pickled) == (
        "Its weights are pickled (pytorch_model-00001-of-00002.bin), and safetensors alone are read: load it "
        "with transformers and save it anew with save_pretrained."
    )
    packed = with_files(tmp_path / "packed", "model-Q4_K_M.gguf")
    assert refused(packed) == (
        "It holds a GGUF file (model-Q4_K_M.gguf), and safetensors alone are read: take the model that it "
        "was made from."
    )


def test_a_folder_with_nothing_of_it_is_told_what_to_give(tmp_path: Path) -> None:
    whole = "Give the folder that holds config.json and *.safetensors."
    assert refused(with_files(tmp_path / "empty")) == whole
    assert refused(with_files(tmp_path / "no_weights", "config.json")) == whole
    assert refused(tmp_path / "gone") == whole
