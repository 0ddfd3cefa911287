"""The pages of answers in docs/results are what the packaged campaigns ask of the packaged model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from configs.campaign import load_campaign
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path

RESULTS = Path(__file__).parents[3] / "docs" / "results"
CAMPAIGNS = pytest.mark.parametrize("campaign", ["levers", "controls"])


def page_of(campaign: str) -> str:
    return (RESULTS / f"{campaign}.md").read_text(encoding="utf-8")


def again(campaign: str) -> str:
    return (
        f"make it anew: `autoinfer run {campaign}`, then `autoinfer answers --out docs/results/{campaign}.md`"
    )


@CAMPAIGNS
def test_the_page_answers_the_questions_of_the_packaged_campaign_in_their_words(campaign: str) -> None:
    asked = {question.id: question.claim for question in load_campaign(campaign).questions}
    told = dict(re.findall(r"^### `(\w+)`: (.+)$", page_of(campaign), re.MULTILINE))
    assert told == asked, again(campaign)


@CAMPAIGNS
def test_the_page_leaves_no_contrast_open(campaign: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", page_of(campaign), re.MULTILINE)
    assert rows
    assert [name for name, row in rows if "| open |" in row] == [], again(campaign)


@CAMPAIGNS
def test_the_page_was_measured_on_the_packaged_model(campaign: str) -> None:
    told = re.search(r"with the fingerprint `(\w+)`", page_of(campaign))
    assert told is not None
    assert checkpoint_fingerprint(reference_model_path()) == told[1], again(campaign)
