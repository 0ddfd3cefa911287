"""The pages of every lever once have the table of what was answered."""

import json
from pathlib import Path

import pytest

from tests.device.levers_once import page

RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.mark.parametrize("name", ["h100-levers-once", "h200-levers-once", "h200-levers-once-vllm-0.33"])
def test_the_page_has_the_table_of_what_was_answered(name: str) -> None:
    kept = (RESULTS / "tables" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert page([json.loads(line) for line in kept]).strip() in (RESULTS / f"{name}.md").read_text(
        encoding="utf-8"
    )
