"""Where the checkpoint of a stored campaign lies on a machine that it did not begin on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.ground.shape import find_shape
from agent.ground.stored_checkpoint import CheckpointElsewhere, check_here, checkpoint_here
from db.models import Campaign
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def campaign(folder: Path | str, fingerprint: str = "f" * 64, **asked: Any) -> Campaign:
    return Campaign(model_fingerprint=fingerprint, spec={**asked, "found": {"checkpoint": str(folder)}})


def test_a_folder_that_is_here_is_taken_whatever_the_model_is_called(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert checkpoint_here(campaign(tmp_path, model="reference")) == tmp_path
    check_here(tmp_path)


def test_the_packaged_model_is_this_installation_s_where_it_is_the_same_one() -> None:
    there, ours = Path("/elsewhere/weights"), reference_model_path()
    same = campaign(there, checkpoint_fingerprint(ours), model="reference")
    assert checkpoint_here(same) == ours
    assert checkpoint_here(campaign(there, model="reference")) == there


def test_a_model_of_the_hub_is_taken_from_this_machine_s_cache_by_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    place = Path("models--Owner--Name") / "snapshots" / COMMIT
    there = Path("/home/other/hub") / place
    assert checkpoint_here(campaign(there, model="Owner/Name")) == there
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "config.json").write_text("{}")
    assert checkpoint_here(campaign(there, model="Owner/Name")) == tmp_path / place


def test_a_packaged_shape_is_made_anew_where_its_name_says_that_it_is_the_same(tmp_path: Path) -> None:
    begun = find_shape("qwen3.5-9b", tmp_path).folder
    there = Path("/elsewhere/shapes") / begun.name
    here = checkpoint_here(campaign(there, model="qwen3.5-9b", weights="dummy"))
    assert here not in (there, begun)
    assert (here / "config.json").read_bytes() == (begun / "config.json").read_bytes()
    other = there.with_name("qwen3.5-9b-000000000000")
    assert checkpoint_here(campaign(other, model="qwen3.5-9b", weights="dummy")) == other


def test_a_model_that_is_nowhere_here_is_told_in_a_sentence_with_what_to_do() -> None:
    there = Path("/srv/models/mine")
    assert checkpoint_here(campaign(there, model=str(there))) == there
    with pytest.raises(CheckpointElsewhere, match=r"not on this machine .*/srv/models/mine") as told:
        check_here(there)
    assert "on the machine where the campaign ran" in told.value.hint
