"""`autoinfer run --model OWNER/NAME`: from the hub to a stored campaign, against a hub on this machine."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from experiments.drafters.packaged import packaged_drafter_path
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from tests.integration.checkpoints.hub_server import HubServer, Repository, serving
from tests.integration.cli.command import Autoinfer, Ended

COMMIT, DRAFTER_COMMIT = "c" * 40, "d" * 40
RUN = "run --no-worker --no-dashboard --budget 1s --model"


def of_the_reference() -> Repository:
    files = {path.name: path.read_bytes() for path in reference_model_path().iterdir() if path.is_file()}
    return Repository({COMMIT: files}, {"main": COMMIT})


def ran(autoinfer: Autoinfer, line: str, cache: Path, address: str, **more: str) -> Ended:
    return autoinfer.fresh(line, HF_ENDPOINT=address, HF_HUB_CACHE=str(cache), **more)


def of_the_drafter() -> Repository:
    files = {path.name: path.read_bytes() for path in packaged_drafter_path().iterdir() if path.is_file()}
    return Repository({DRAFTER_COMMIT: files}, {"main": DRAFTER_COMMIT})


@pytest.fixture
def hub() -> object:
    with serving(us__small=of_the_reference(), us__drafter=of_the_drafter()) as server:
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


@pytest.mark.parametrize(("command", "of_each"), [("run --no-worker --no-dashboard", 3), ("plan", 1)])
def test_where_the_gpu_is_not_there_a_name_that_is_none_is_told_with_it_and_before(
    autoinfer: Autoinfer, hub: HubServer, tmp_path: Path, command: str, of_each: int
) -> None:
    line, absent = f"{command} --target cuda:99 --model", "There is no cuda:99 to measure on"
    wrong = (
        ("us/none", f"The hub at {hub.address} shows no model us/none: there is none, or it is private."),
        ("WRONG-NAME", "There is no checkpoint folder WRONG-NAME."),
        ("us/small@none", "us/small has no revision 'none'."),
    )
    right = (("us/small", hub.address), ("us/none", "http://127.0.0.1:9"), ("reference", ""))
    for model, said in wrong[:of_each]:
        done = ran(autoinfer, f"{line} {model}", tmp_path / "cache", hub.address)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"autoinfer: {said} {absent}")
    for model, address in right[:of_each]:
        done = ran(autoinfer, f"{line} {model}", tmp_path / "cache", address)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"autoinfer: {absent}")
    assert not (tmp_path / "cache").exists(), "nothing was fetched"


def test_a_model_that_fits_nowhere_is_refused_before_its_weights_are_fetched(
    autoinfer: Autoinfer, hub: HubServer, tmp_path: Path
) -> None:
    done = ran(autoinfer, f"{RUN} us/small --memory 300MB", tmp_path / "cache", hub.address)
    assert done.code == 2
    assert "it needs 547 MB, and 300 MB of" in done.err
    assert "247 MB too few. No campaign was begun." in done.err
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_drafter_of_the_hub_is_fetched_and_the_campaign_goes_on_with_its_commit(
    autoinfer: Autoinfer, hub: HubServer, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    line = "run levers --no-worker --no-dashboard --budget 1s --model us/small --drafter us/drafter"
    done = ran(autoinfer, line, cache, hub.address)
    assert f"The drafter is us/drafter, commit {DRAFTER_COMMIT}." in done.out, done.err
    folder = cache / "models--us--drafter" / "snapshots" / DRAFTER_COMMIT
    assert (folder / "model.safetensors").is_file()
    with closing(sqlite3.connect(autoinfer.data_dir / "autoinfer.db")) as rows:
        (spec,) = rows.execute("SELECT spec FROM campaign").fetchone()
    assert json.loads(spec)["drafter"] == str(folder)


def test_a_drafter_that_the_hubs_cache_lacks_is_named_with_what_fetches_it(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    autoinfer("run levers --no-worker --no-dashboard --budget 1s")
    line = "enqueue Drafts --set drafting.method=dflash --set drafting.drafter=us/drafter"
    done = autoinfer.fresh(line, HF_HUB_CACHE=str(tmp_path / "cache"))
    assert done.code == 2
    assert "There is no folder us/drafter, and no model of that name in the hub's cache." in done.err
    assert "hf download us/drafter" in done.err
