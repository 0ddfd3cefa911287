"""A drafter of the user's own: the campaign drafts with it, counts it, and refuses one that can't be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent.campaign.beginning.create import create_campaign, interrupted
from agent.campaign.beginning.survey import survey
from agent.campaign.known.reading_facts import read_facts
from agent.ground.drafter import with_whole_path
from agent.ground.legal import legal_here
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from db.session import Database
from db.states import HypothesisState
from experiments.drafters.packaged import packaged_drafter_path
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import KnobValue
from knowledge.queries.answered.answers import campaign_answers
from tests.unit.agent.test_questions import database, plain_checkpoint, posed

__all__ = ["database"]  # the fixture

LEVERS = load_campaign("levers")
BY_DFLASH = {
    q.id
    for q in LEVERS.questions
    if "dflash" in {q.control.get("drafting.method"), q.candidate.get("drafting.method")}
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The reference model as a checkpoint of the user's: nothing is packaged for it."""
    return Path(shutil.copytree(reference_model_path(), tmp_path / "model"))


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(packaged_drafter_path(), tmp_path / "drafter"))


def levers(model: Path | str, drafter: Path | str | None) -> CampaignSpec:
    given = None if drafter is None else str(drafter)
    return load_campaign("levers", {"model": str(model), "drafter": given})


def test_levers_on_another_checkpoint_with_a_drafter_can_be_asked_everything(
    database: Database, model: Path, drafter: Path
) -> None:
    rows = posed(database, levers(model, drafter))
    assert rows.keys() == {question.id for question in LEVERS.questions}
    assert {
        name: row.state_reason for name, row in rows.items() if row.state is HypothesisState.INFEASIBLE
    } == {}
    assert "mtp_over_dflash" in BY_DFLASH
    with database.read() as session:
        facts = read_facts(session, 1)
    assert facts.spec.drafter == str(drafter)


def test_without_it_the_same_checkpoint_is_not_asked_what_drafts_by_it(
    database: Database, model: Path
) -> None:
    rows = posed(database, levers(model, None))
    infeasible = {
        name: row.state_reason for name, row in rows.items() if row.state is HypothesisState.INFEASIBLE
    }
    assert infeasible.keys() == BY_DFLASH
    assert all("No drafter is packaged" in str(why) for why in infeasible.values())


def test_the_parameter_budget_counts_it(model: Path, drafter: Path) -> None:
    here = legal_here(levers(model, drafter), model, 2)
    drafted = here.space.configuration({"drafting.method": "dflash", "drafting.draft_tokens": 3})
    assert drafted["drafting.drafter"] == str(drafter)
    assert "and drafter (9" in str(here.refused(drafted))
    assert "must be pruned" in str(here.refused(drafted))


@pytest.mark.parametrize(("block", "too_many"), [(8, [8, 15]), (10, [10]), (16, [])])
def test_on_vllm_it_is_asked_for_what_its_block_fills(
    model: Path, drafter: Path, block: int, too_many: list[int]
) -> None:
    changed(drafter, block_size=block)
    given: dict[str, object] = {"model": str(model), "drafter": str(drafter), "space": "vllm"}
    here = legal_here(load_campaign("default", given), model, 2)

    def refused(tokens: int) -> str | None:
        knobs: dict[str, KnobValue] = {"drafting.method": "dflash", "drafting.draft_tokens": tokens}
        return here.refused(here.space.configuration(knobs))

    assert refused(block - 1) is None
    for tokens in too_many:
        said = f"dflash drafts at most {block - 1} tokens a step here, and {tokens} were asked for."
        assert refused(tokens) == said


def test_on_vllm_the_packaged_one_is_asked_for_no_more_than_its_block_fills() -> None:
    here = legal_here(load_campaign("default", {"space": "vllm"}), reference_model_path(), 2)
    knobs: dict[str, KnobValue] = {"drafting.method": "dflash", "drafting.draft_tokens": 8}
    asked = here.space.configuration(knobs)
    assert here.refused(asked) == "dflash drafts at most 7 tokens a step here, and 8 were asked for."
    assert here.refused(here.space.with_change(asked, {"drafting.draft_tokens": 7})) is None
    assert here.refused(here.space.with_change(asked, {"drafting.method": "ngram"})) is None
    head = here.space.with_change(asked, {"drafting.method": "mtp", "drafting.draft_tokens": 5})
    assert here.refused(head) == "mtp drafts at most 4 tokens a step here, and 5 were asked for."


def test_a_smaller_checkpoint_is_a_draft_model(tmp_path: Path) -> None:
    model, small = (plain_checkpoint(tmp_path / name) for name in ("model", "small"))
    here = legal_here(levers(model, small), Path(model), 2)
    survey(levers(model, small))
    assert here.space.configuration({"drafting.method": "draft_model"})["drafting.drafter"] == small
    assert here.why_not({"drafting.method": "draft_model"}) is None
    assert here.why_not({"drafting.method": "dflash"}) == (
        "No drafter is packaged for this model; it can be had with drafting.drafter=PATH."
    )


def test_for_the_reference_model_it_takes_the_packaged_ones_place(drafter: Path) -> None:
    here = legal_here(levers("reference", drafter), reference_model_path(), 2)
    assert here.space.configuration({"drafting.method": "dflash"})["drafting.drafter"] == str(drafter)
    packaged = here.space.configuration({"drafting.method": "dflash", "drafting.drafter": "packaged"})
    assert "must be pruned" in str(here.refused(packaged)), "legal when it is named"


def test_it_is_kept_as_the_absolute_folder_and_found_again_from_another(
    database: Database, drafter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    typed = levers("reference", "drafter")
    with database.write() as session:
        campaign_id = create_campaign(session, typed, survey(typed))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = levers("reference", "../drafter")
    with database.write() as session:
        assert read_facts(session, campaign_id).spec.drafter == str(drafter)
        assert interrupted(session, again, survey(again)) == campaign_id
        without = levers("reference", None)
        assert interrupted(session, without, survey(without)) is None
        assert "--drafter DIR" in campaign_answers(session, campaign_id).given


def changed(drafter: Path, **fields: object) -> None:
    config = json.loads((drafter / "config.json").read_text())
    (drafter / "config.json").write_text(json.dumps({**config, **fields}))


def refused(spec: CampaignSpec) -> str:
    with pytest.raises(UsageError) as caught:
        survey(spec)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value.message


def test_what_is_no_drafter_for_the_model_is_refused_before_the_campaign(
    drafter: Path, tmp_path: Path
) -> None:
    spec = levers("reference", drafter)
    assert "There is no drafter at" in refused(levers("reference", tmp_path / "nowhere"))
    assert "has no config.json" in refused(levers("reference", tmp_path))
    changed(drafter, vocab_size=4097)
    assert refused(spec) == (
        f"The drafter at {drafter} has a vocabulary of 4097 tokens and its target one of 4096; "
        "a drafter must share the target's vocabulary."
    )
    changed(drafter, vocab_size=4096, block_size="eight")
    assert "block_size is 'eight', no whole number" in refused(spec)
    changed(drafter, block_size=8)
    (drafter / "model.safetensors").unlink()
    assert "has no *.safetensors that can be read" in refused(spec)
    changed(drafter, architectures=["EagleModel"])
    assert f"The folder {drafter} holds no drafter" in refused(spec)


def test_a_draft_model_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    small = plain_checkpoint(tmp_path / "small")
    assert "The draft model at" in refused(levers("reference", small))


def test_a_space_without_drafters_has_no_use_for_one(drafter: Path) -> None:
    assert "has no knob drafting.drafter" in refused(load_campaign("default", {"drafter": str(drafter)}))


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ("drafting.drafter=./mine", "drafting.drafter={here}/mine"),
        (" drafting.drafter = mine", "drafting.drafter={here}/mine"),
        ("drafting.drafter=/a/b", "drafting.drafter=/a/b"),
        ("drafting.drafter=packaged", "drafting.drafter=packaged"),
        ("drafting.drafter=", "drafting.drafter="),
        ("serving.threads=2", "serving.threads=2"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_drafter_is_found_by_whoever_tests_it(
    asked: str, becomes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_whole_path(asked) == becomes.format(here=tmp_path)
