"""docs/results/drafting.md tells of every way to draft that is checked, and of no divergence."""

from __future__ import annotations

import re
from pathlib import Path

from tests.benchmarks.losslessness import METHODS
from tests.benchmarks.losslessness_page import TEXT_COLUMNS

PAGE = Path(__file__).parents[3] / "docs" / "results" / "drafting.md"


def test_the_page_tells_of_every_method_that_it_is_lossless() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Losslessness")[2].partition("##")[0]
    rows = [
        [cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (.+) \|$", text, re.MULTILINE)
    ]
    told = {row[0]: row[TEXT_COLUMNS.index("divergences")] for row in rows[2:]}
    assert told == {each.name: "0" for each in METHODS}, (
        "make it anew: python -m pytest tests/benchmarks/test_losslessness.py -s -m bench_only "
        "--drafting-page docs/results/drafting.md"
    )
