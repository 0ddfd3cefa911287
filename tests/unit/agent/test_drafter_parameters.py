"""What an external drafter counts in a parameter budget is what the engine would load for it."""

from __future__ import annotations

from agent.ground.legal import drafter_parameters
from configs.models import load_model_profile
from experiments.drafters.packaged import packaged_drafter_path
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration

PROFILE = load_model_profile("reference")


def drafting(method: str, drafter: str = "packaged") -> Configuration:
    return Configuration.of({"drafting.method": method, "drafting.drafter": drafter})


def test_packaged_is_the_reference_model_for_a_draft_model_and_its_drafter_for_dflash() -> None:
    of_model = drafter_parameters(drafting("draft_model"))
    assert of_model == {("draft_model", "packaged"): PROFILE.text_parameters}, "without its MTP head"
    of_block = drafter_parameters(drafting("dflash"))
    assert 0 < of_block[("dflash", "packaged")] < PROFILE.text_parameters


def test_a_drafter_named_by_its_folder_counts_the_same() -> None:
    for method, folder in (("draft_model", reference_model_path()), ("dflash", packaged_drafter_path())):
        [named] = drafter_parameters(drafting(method, str(folder))).values()
        assert [named] == list(drafter_parameters(drafting(method)).values())


def test_what_drafts_without_weights_of_its_own_or_is_not_there_counts_nothing() -> None:
    assert drafter_parameters(drafting("mtp")) == {}
    assert drafter_parameters(Configuration.of({})) == {}
    assert drafter_parameters(drafting("dflash", "/nowhere")) == {}
