"""What an artifact's key says of an external drafter: its content, for its name alone says nothing of it."""

from pathlib import Path

import pytest

from experiments.drafters.packaged import packaged_drafter_path
from experiments.job.drafter_identity import drafter_identity
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.space.configuration import Configuration


def drafting(method: str, drafter: str = "packaged") -> Configuration:
    return Configuration.of({"drafting.method": method, "drafting.drafter": drafter})


def test_an_external_drafter_is_named_by_its_content() -> None:
    wanted = {"drafter": checkpoint_fingerprint(packaged_drafter_path())}
    assert drafter_identity(drafting("dflash")) == wanted
    assert drafter_identity(drafting("dflash", str(packaged_drafter_path()))) == wanted


def test_the_home_folder_may_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my-drafter").symlink_to(packaged_drafter_path())
    assert drafter_identity(drafting("dflash", "~/my-drafter")) == drafter_identity(drafting("dflash"))


def test_what_drafts_without_weights_of_its_own_leaves_keys_as_they_are() -> None:
    assert drafter_identity(Configuration.of({})) == drafter_identity(drafting("mtp")) == {}


def test_a_drafter_that_is_not_here_is_told_as_unknown() -> None:
    assert drafter_identity(drafting("draft_model", "/nowhere/at/all")) == {"drafter": None}
