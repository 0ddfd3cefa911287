"""Artifacts that hosts share, in a folder and in a bucket behind a real S3 protocol."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UsageError
from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.shared import SharedArtifacts, SharedUnreachable
from experiments.artifacts.store import ArtifactStore
from tests import s3
from tests.integration.artifacts.building import CONTENT, KEY, write

Host = Callable[[str], ArtifactStore]


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    with s3.serving() as variables:
        yield variables


@pytest.fixture(params=["folder", "bucket"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return str(tmp_path / "shared")
    for name, value in request.getfixturevalue("bucket").items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3.BUCKET}/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def host(tmp_path: Path, url: str) -> Iterator[Host]:
    """A host's own store over the shared one, by the host's name."""
    opened: list[ArtifactStore] = []

    def host(name: str) -> ArtifactStore:
        opened.append(ArtifactStore(tmp_path / name, SharedArtifacts(url)))
        return opened[-1]

    yield host
    for store in opened:
        store.close()


def never(folder: Path) -> None:
    pytest.fail("it was built again")


def contents(store: ArtifactStore, key: ArtifactKey = KEY) -> dict[str, bytes]:
    files = store.root / key.digest / "files"
    return {str(each.relative_to(files)): each.read_bytes() for each in files.rglob("*") if each.is_file()}


def files_of(url: str) -> tuple[Any, str]:
    shared = SharedArtifacts(url)
    return shared._fs, shared._root


def test_what_one_host_built_another_one_fetches(host: Host) -> None:
    built = host("first").build(KEY, write)
    second = host("second")
    fetched = second.build(KEY, never)
    assert (built.built, fetched.built) == (True, False)
    assert (fetched.digest, fetched.bytes, fetched.build_s) == (built.digest, built.bytes, built.build_s)
    assert contents(second) == {"model.safetensors": CONTENT, "deep/config.json": b"{}"}
    assert second.get(KEY) is not None


def test_nothing_is_fetched_twice(host: Host, url: str, tmp_path: Path) -> None:
    host("first").build(KEY, write)
    host("second").build(KEY, never)
    files, root = files_of(url)
    files.rm(f"{root}/files", recursive=True)
    assert host("second").get(KEY) is not None


def test_of_two_hosts_that_build_at_once_the_first_wins_and_both_use_its_bytes(host: Host) -> None:
    first, second = host("first"), host("second")

    def late(folder: Path) -> None:
        first.build(KEY, write)
        (folder / "model.safetensors").write_bytes(b"other bytes")

    assert second.build(KEY, late).bytes == len(CONTENT) + 2
    assert contents(second) == contents(first)


def test_a_put_that_broke_off_is_not_seen(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> bool:
        raise SharedUnreachable("The network is gone.")

    with monkeypatch.context() as patched:
        patched.setattr(SharedArtifacts, "_put_manifest", broken)
        assert host("first").build(KEY, write).built  # what was built is not lost
    second = host("second")
    assert second.get(KEY) is None
    assert host("first").build(KEY, never).built is False  # and puts it there now
    assert second.get(KEY) is not None


@pytest.mark.parametrize("damage", [b"x" * len(CONTENT), b"short", None])
def test_what_is_damaged_in_the_shared_store_is_built_again_and_put_in_its_place(
    host: Host, url: str, damage: bytes | None
) -> None:
    host("first").build(KEY, write)
    files, root = files_of(url)
    (model,) = [each for each in files.find(f"{root}/files") if files.size(each) == len(CONTENT)]
    if damage is None:
        files.rm_file(model)
    else:
        files.pipe_file(model, damage)
    second = host("second")
    assert second.get(KEY) is None
    assert second.build(KEY, write).built
    assert contents(host("third")) == {}
    third = host("third")
    third.build(KEY, never)
    assert contents(third)["model.safetensors"] == CONTENT


def test_a_manifest_that_names_a_file_elsewhere_is_no_manifest(host: Host, url: str, tmp_path: Path) -> None:
    host("first").build(KEY, write)
    files, root = files_of(url)
    (path,) = files.find(f"{root}/artifacts")
    files.pipe_file(path, files.cat_file(path).replace(b"deep/config.json", b"../../../evil.json"))
    assert host("second").get(KEY) is None
    assert not list(tmp_path.rglob("evil.json"))


def test_a_store_that_does_not_answer_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "not-to-be-shown",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with ArtifactStore(tmp_path, SharedArtifacts("s3://nowhere/x")) as store:
        with pytest.raises(SharedUnreachable, match="s3://nowhere/x can't be used") as told:
            store.get(KEY)
        assert "not-to-be-shown" not in str(told.value)


@pytest.mark.parametrize("address", ["ftp://host/x", "s3://", "s3://key:secret@bucket/x", "memory://x"])
def test_an_address_that_is_none_is_refused_without_showing_what_is_secret(address: str) -> None:
    with pytest.raises(UsageError) as told:
        SharedArtifacts(address)
    assert "secret@" not in str(told.value)
