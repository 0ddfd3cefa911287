"""The page of transfer is what its generator prints: only the figures are those of a run."""

import re
from pathlib import Path

from tests.proofs.transfer import TOLD
from tests.proofs.transfer_page import Ran, Runs, page

PAGE = Path(__file__).parents[3] / "docs/results/transfer.md"
COMMAND = "python -m tests.proofs.transfer --seeds 3"


def words(text: str) -> list[str]:
    """The blocks of a page without its figures, each on one line; of a table its head alone."""
    blocks = [
        "\n".join(block.splitlines()[:2]) if block.startswith("|") else " ".join(block.split())
        for block in text.strip().split("\n\n")
    ]
    return [re.sub(r"\d+(\.\d+)?", "#", block) for block in blocks]


def ran_of(*kinds: str) -> Runs:
    before, after = Ran(3, 30.0, True, 1.0, (0.8,) * 4), Ran(2, 20.0, True, 0.5, (0.8,) * 4)
    return {
        (f"{kind} {number}", told, 0): (kind, before, after)
        for kind in kinds
        for number in range(2)
        for told in TOLD
    }


def made() -> str:
    stored = re.findall(r"`([\w-]+)` \d+[,.]", PAGE.read_text(encoding="utf-8").partition("- Rows: ")[2])
    return page(ran_of("model", "rows"), COMMAND, 3, 2, 100.0, 10, 20, dict.fromkeys(stored, 1))


def test_the_page_in_the_documentation_says_what_the_generator_says() -> None:
    assert words(PAGE.read_text(encoding="utf-8")) == words(made())


def test_what_is_only_compared_with_misses_no_target() -> None:
    better, worse = Ran(2, 20.0, True, 0.5, (0.8,) * 4), Ran(9, 90.0, True, 1.0, (0.8,) * 4)
    told = {(pair, "silent", 0): ("model", better, worse) for pair in ("a", "b")}
    told |= {(pair, "true", 0): ("model", worse, better) for pair in ("a", "b")}
    assert "**0 of 1 answers" in page(told, COMMAND, 1, 1, 1.0, 10, 20, {"a": 1})
    told |= {(pair, "huge", 0): ("model", better, worse) for pair in ("a", "b")}
    assert "**1 of 2 answers" in page(told, COMMAND, 1, 1, 1.0, 10, 20, {"a": 1})
