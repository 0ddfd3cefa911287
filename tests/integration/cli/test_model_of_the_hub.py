"""`autoinfer run --model OWNER/NAME`: from the hub to a stored campaign, against a hub on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from tests.integration.checkpoints.hub_server import HubServer, Repository, serving
from tests.integration.cli.command import Autoinfer, Ended

COMMIT = "c" * 40
RUN = "run --no-worker --no-dashboard --budget 1s --model"


def of_the_reference() -> Repository:
    files = {path.name: path.read_bytes() for path in reference_model_path().iterdir() if path.is_file()}
    return Repository({COMMIT: files}, {"main": COMMIT})


def ran(autoinfer: Autoinfer, line: str, cache: Path, address: str, **more: str) -> Ended:
    return autoinfer.fresh(line, HF_ENDPOINT=address, HF_HUB_CACHE=str(cache), **more)


@pytest.fixture
def hub() -> object:
    with serving(us__small=of_the_reference()) as server:
        yield server


def test_a_campaign_on_a_model_of_the_hub_keeps_the_commit_that_it_was_pinned_to(
    autoinfer: Autoinfer, hub: HubServer, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    done = ran(autoinfer, f"{RUN} us/small", cache, hub.address)
    assert "us/small (commit cccccccccccc)" in autoinfer("log").out, done.err
    shown = autoinfer("show C-1 --json").json()
    assert shown["hub"] == {"repo": "us/small", "revision": "main", "commit": COMMIT}
    assert shown["model"] == "us/small"
    assert shown["model_fingerprint"] == checkpoint_fingerprint(reference_model_path())
    assert f"commit {COMMIT} of us/small (main)" in autoinfer("show C-1").out
    before = len(hub.asked)
    again = ran(autoinfer, f"{RUN} us/small --new", cache, hub.address, HF_HUB_OFFLINE="1")
    assert "The revision is the cache's, because HF_HUB_OFFLINE is set." in again.out
    assert len(hub.asked) == before
    assert autoinfer("show C-2 --json").json()["hub"]["commit"] == COMMIT


def test_a_model_that_is_nowhere_begins_no_campaign(autoinfer: Autoinfer, tmp_path: Path) -> None:
    done = ran(autoinfer, f"{RUN} us/small", tmp_path, "http://127.0.0.1:9")
    assert done.code == 1
    assert "us/small@main is not in the hub's cache" in done.err
    assert "Traceback" not in done.err
    assert autoinfer("campaign list --json").json()["total"] == 0
