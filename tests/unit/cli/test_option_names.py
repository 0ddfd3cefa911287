"""The names by which a campaign's fields are told to whoever gave them as options."""

from __future__ import annotations

from configs.campaign import CampaignSpec
from configs.option_names import OPTIONS, option_of
from tests.unit.cli.test_commands import LEAVES
from tests.unit.cli.test_documentation import options_of


def test_every_option_that_a_refusal_names_is_one_of_run_or_plan() -> None:
    assert set(OPTIONS.values()) <= options_of(LEAVES["run"]) | options_of(LEAVES["plan"])


def test_every_field_that_is_told_as_an_option_is_one_of_a_campaign() -> None:
    assert {field.partition(".")[0] for field in OPTIONS} <= set(CampaignSpec.model_fields)


def test_a_field_that_no_option_gives_keeps_its_name() -> None:
    assert (option_of("usd_per_hour"), option_of("plan.alpha")) == ("--usd-per-hour", "plan.alpha")
