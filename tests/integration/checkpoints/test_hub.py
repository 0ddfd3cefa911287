"""A model of the hub is pinned to a commit, taken from the cache where the hub is silent, and refused in one
sentence where neither has it. The hub is a server on this machine; the library that asks is the real one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from configs.errors import AutoinferError, UsageError
from configs.model_names import HubName
from experiments.checkpoints.hub import HubPlace, fetch, missing_files, pinned_in
from tests.integration.checkpoints.hub_server import Repository, serving

FIRST, SECOND = "a" * 40, "b" * 40
WEIGHTS = b"weights of the first commit"
FILES = {
    "config.json": b'{"model_type": "qwen3_5_text"}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "README.md": b"not needed",
    "pytorch_model.bin": b"not wanted",
    "original/model.safetensors": b"a second copy",
}
NOWHERE = "http://127.0.0.1:9"
"""The port of the discard service, where nothing listens."""


def tiny(gated: bool = False) -> Repository:
    changed = {**FILES, "model.safetensors": b"weights of the second commit"}
    return Repository({FIRST: FILES, SECOND: changed}, {"main": SECOND, "v1.0": FIRST}, gated)


def cached(folder: Path, repo: str = "us/tiny", commit: str = FIRST, **files: bytes) -> Path:
    """A cache as huggingface_hub documents its layout: blobs, links to them in snapshots, refs to commits."""
    root = folder / f"models--{repo.replace('/', '--')}"
    snapshot = root / "snapshots" / commit
    for each in (snapshot, root / "blobs", root / "refs"):
        each.mkdir(parents=True, exist_ok=True)
    (root / "refs" / "main").write_text(commit)
    for name, body in (files or FILES).items():
        name = name.replace("__", ".")
        if "/" in name:
            continue
        (root / "blobs" / f"{name}-blob").write_bytes(body)
        (snapshot / name).symlink_to(os.path.relpath(root / "blobs" / f"{name}-blob", snapshot))
    return snapshot


def test_a_branch_is_pinned_to_its_commit_and_only_what_serves_is_fetched(tmp_path: Path) -> None:
    with serving(us__tiny=tiny()) as hub:
        found = fetch(HubName("us/tiny"), place=HubPlace(hub.address, tmp_path))
    assert (found.commit, found.note) == (SECOND, None)
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert (found.folder / "model.safetensors").read_bytes() == b"weights of the second commit"
    assert found.weight_bytes == len(b"weights of the second commit")
    assert pinned_in(found.folder) == HubName("us/tiny", SECOND)


@pytest.mark.parametrize("revision", ["v1.0", FIRST])
def test_a_tag_and_a_commit_are_what_they_name(revision: str, tmp_path: Path) -> None:
    with serving(us__tiny=tiny()) as hub:
        found = fetch(HubName("us/tiny", revision), place=HubPlace(hub.address, tmp_path))
    assert found.commit == FIRST
    assert (found.folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_plan_fetches_no_weights_and_knows_their_size(tmp_path: Path) -> None:
    with serving(us__tiny=tiny()) as hub:
        found = fetch(HubName("us/tiny", "v1.0"), weights=False, place=HubPlace(hub.address, tmp_path))
        assert not any("safetensors" in path for path in hub.asked)
    assert found.weight_bytes == len(WEIGHTS)
    assert missing_files(found.folder) == ["model.safetensors"]


def test_what_was_fetched_once_is_there_when_the_hub_is_silent(tmp_path: Path) -> None:
    with serving(us__tiny=tiny()) as hub:
        fetch(HubName("us/tiny"), place=HubPlace(hub.address, tmp_path))
    found = fetch(HubName("us/tiny"), place=HubPlace(NOWHERE, tmp_path))
    assert found.commit == SECOND
    assert found.note == f"The revision is the cache's, because {NOWHERE} does not answer."


def test_offline_the_cache_is_used_and_nobody_asked(tmp_path: Path) -> None:
    snapshot = cached(tmp_path)
    with serving(us__tiny=tiny()) as hub:
        found = fetch(HubName("us/tiny"), place=HubPlace(hub.address, tmp_path, offline=True))
        assert hub.asked == []
    assert (found.commit, found.folder) == (FIRST, snapshot)
    assert found.note == "The revision is the cache's, because HF_HUB_OFFLINE is set."
    assert found.weight_bytes == len(WEIGHTS)


@pytest.mark.parametrize(
    ("place", "why"),
    [({"offline": True}, "HF_HUB_OFFLINE is set"), ({"endpoint": NOWHERE}, f"{NOWHERE} does not answer")],
)
def test_what_is_neither_cached_nor_reachable_is_told_with_both_places(
    place: dict[str, object], why: str, tmp_path: Path
) -> None:
    with pytest.raises(AutoinferError) as caught:
        fetch(HubName("us/tiny"), place=HubPlace(cache_dir=tmp_path, **place))  # type: ignore[arg-type]
    assert caught.value.message == f"us/tiny@main is not in the hub's cache ({tmp_path}), and {why}."
    assert "--model DIR" in caught.value.hint
    assert caught.value.exit_code == 1


def test_a_cache_that_holds_a_part_is_not_taken_for_the_model(tmp_path: Path) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    files = {"config__json": b"{}", "model-1__safetensors": b"1"}
    cached(tmp_path, **files, model__safetensors__index__json=json.dumps(index).encode())
    with pytest.raises(AutoinferError, match=r"only a part of us/tiny@main.*model-2.safetensors is missing"):
        fetch(HubName("us/tiny"), place=HubPlace(NOWHERE, tmp_path))


def test_a_plans_cache_is_no_model_to_serve_when_the_hub_is_silent(tmp_path: Path) -> None:
    with serving(us__tiny=tiny()) as hub:
        fetch(HubName("us/tiny"), weights=False, place=HubPlace(hub.address, tmp_path))
    with pytest.raises(AutoinferError, match="holds only a part of us/tiny@main"):
        fetch(HubName("us/tiny"), place=HubPlace(NOWHERE, tmp_path))


def test_a_gated_model_says_where_to_ask_for_it(tmp_path: Path) -> None:
    with serving(us__tiny=tiny(gated=True)) as hub, pytest.raises(AutoinferError) as caught:
        fetch(HubName("us/tiny"), place=HubPlace(hub.address, tmp_path))
    assert caught.value.message.startswith("us/tiny is gated:")
    assert caught.value.hint == f"Ask for it at {hub.address}/us/tiny, then log in here: hf auth login"


@pytest.mark.parametrize("revision", ["v9", "c" * 40])
def test_a_revision_that_is_not_there_is_named(revision: str, tmp_path: Path) -> None:
    with serving(us__tiny=tiny()) as hub, pytest.raises(UsageError) as caught:
        fetch(HubName("us/tiny", revision), place=HubPlace(hub.address, tmp_path))
    assert caught.value.message == f"us/tiny has no revision {revision!r}."


def test_a_model_that_the_hub_does_not_show_may_be_private(tmp_path: Path) -> None:
    with serving() as hub, pytest.raises(UsageError, match="shows no model us/tiny: there is none, or it"):
        fetch(HubName("us/tiny"), place=HubPlace(hub.address, tmp_path))


def test_a_model_without_safetensors_is_refused(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "pytorch_model.bin": b"old"}
    said = r"can be served: it has no model\.safetensors"
    with (
        serving(us__tiny=Repository({FIRST: files}, {"main": FIRST})) as hub,
        pytest.raises(UsageError, match=said),
    ):
        fetch(HubName("us/tiny"), place=HubPlace(hub.address, tmp_path))


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with serving(us__tiny=tiny()) as hub, pytest.raises(AutoinferError, match="disk of the hub's cache"):
        fetch(HubName("us/tiny"), place=HubPlace(hub.address, tmp_path))
