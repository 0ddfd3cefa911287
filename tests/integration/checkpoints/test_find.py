"""From what a user calls a model to its folder: a folder comes first; what is pinned stays so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from huggingface_hub import constants

from agent.ground.checkpoint import find_checkpoint
from configs.errors import UsageError
from configs.model_names import HubName
from experiments.checkpoints.hub import HubPlace
from experiments.reference_model.load import reference_model_path
from tests.integration.checkpoints.hub_server import HubServer, serving
from tests.integration.checkpoints.test_hub import FIRST, SECOND, tiny


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.chdir(tmp_path)
    with serving(us__tiny=tiny()) as server:
        here = partial(HubPlace, endpoint=server.address)
        monkeypatch.setattr("agent.ground.checkpoint.HubPlace", here)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield server


def test_an_id_is_fetched_and_pinned(hub: HubServer) -> None:
    found = find_checkpoint("us/tiny@v1.0")
    assert found.as_found() == {"repo": "us/tiny", "revision": "v1.0", "commit": FIRST}
    assert (found.folder / "model.safetensors").is_file()


def test_a_folder_of_that_name_comes_first(hub: HubServer, tmp_path: Path) -> None:
    (tmp_path / "us" / "tiny").mkdir(parents=True)
    found = find_checkpoint("us/tiny")
    assert (found.folder, found.as_found(), hub.asked) == (tmp_path / "us" / "tiny", None, [])


def test_a_snapshot_that_was_removed_is_fetched_again_by_its_commit(hub: HubServer) -> None:
    first = find_checkpoint("us/tiny@v1.0")
    shutil.rmtree(first.folder.parents[1])
    again = find_checkpoint(str(first.folder))
    assert again.folder == first.folder
    assert again.commit == FIRST != SECOND
    assert again.source == HubName("us/tiny", FIRST)


def test_a_folder_of_the_hubs_cache_tells_its_commit(hub: HubServer) -> None:
    folder = find_checkpoint("us/tiny").folder
    asked = len(hub.asked)
    assert find_checkpoint(str(folder)).commit == SECOND
    assert len(hub.asked) == asked


def test_the_packaged_model_asks_nobody(hub: HubServer) -> None:
    assert find_checkpoint("reference").folder == reference_model_path()
    assert hub.asked == []


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("qwen3.5-9b", "is the shape of a model, without weights"),
        ("nothing", "There is no checkpoint folder nothing"),
        ("./us/tiny", "There is no checkpoint folder ./us/tiny"),
        ("mine@main", "mine is a folder, which has no revision 'main'"),
        ("./mine@v1.0", r"\./mine is a folder, which has no revision 'v1.0'"),
        ("nothing@main", "There is no checkpoint folder nothing@main"),
        ("mine/config.json", "mine/config.json is a file, and a checkpoint is a folder"),
        ("https://huggingface.co/us/tiny", "is an address, not a model's id"),
    ],
)
def test_what_is_no_checkpoint_is_told(hub: HubServer, tmp_path: Path, model: str, said: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=said):
        find_checkpoint(model)
    assert hub.asked == []
