"""docs/results/levers.md is what the packaged campaign asks of the packaged model; nothing is left open."""

from __future__ import annotations

import re
from pathlib import Path

from configs.campaign import load_campaign
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path

PAGE = Path(__file__).parents[3] / "docs" / "results" / "levers.md"
AGAIN = "make it anew: `autoinfer run levers`, then `autoinfer answers --out docs/results/levers.md`"


def test_the_page_answers_the_questions_of_the_packaged_campaign_in_their_words() -> None:
    asked = {question.id: question.claim for question in load_campaign("levers").questions}
    told = dict(re.findall(r"^### `(\w+)`: (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert told == asked, AGAIN


def test_the_page_leaves_no_contrast_open() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows
    assert [name for name, row in rows if "| open |" in row] == [], AGAIN


def test_the_page_was_measured_on_the_packaged_model() -> None:
    told = re.search(r"with the fingerprint `(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert told is not None
    assert checkpoint_fingerprint(reference_model_path()) == told[1], AGAIN
