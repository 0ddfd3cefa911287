"""The page of transfer is what its generator prints: only the figures are those of a run."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.proofs import transfer_known
from tests.proofs.transfer import REACHED, TOLD, ground
from tests.proofs.transfer_followed import section
from tests.proofs.transfer_page import Ran, Runs, how_it_ran, page
from tests.proofs.transfer_tables import HELD_OUT, WORKLOADS, between, pairs

PAGE = Path(__file__).parents[3] / "docs/results/transfer.md"
HOW = how_it_ran("python -m tests.proofs.transfer --held-out --seeds 3", 3, 2, 100.0, 0)

GROUPS = (pairs(), between(HELD_OUT))
YARDSTICKS = [section(each, ground, REACHED) for each in GROUPS]


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


def ran_between(workloads: Mapping[str, tuple[int, int]]) -> Runs:
    before, after = Ran(3, 30.0, True, 1.0, (0.8,) * 4), Ran(2, 20.0, True, 0.5, (0.8,) * 4)
    return {(each.name, told, 0): (each.kind, before, after) for each in between(workloads) for told in TOLD}


def made() -> str:
    stored = re.findall(r"`([\w-]+)` \d+[,.]", PAGE.read_text(encoding="utf-8").partition("- Rows: ")[2])
    sizes = dict.fromkeys(stored, 1)
    known = transfer_known.section(ran_between(WORKLOADS), WORKLOADS)
    yardsticks = [[*YARDSTICKS[0], *known], YARDSTICKS[1]]
    return page(ran_of("model", "rows"), HOW, 10, 20, sizes, yardsticks, ran_of("concurrency"))


def test_the_page_in_the_documentation_says_what_the_generator_says() -> None:
    assert words(PAGE.read_text(encoding="utf-8")) == words(made())


def test_the_yardsticks_of_the_page_are_those_of_the_tables() -> None:
    """The held-out table is read for this alone: nothing is planned on it."""
    stored = PAGE.read_text(encoding="utf-8")
    for words_, figures in YARDSTICKS:
        assert words_ in stored
        assert figures in stored


def test_the_head_of_the_page_names_no_folder() -> None:
    command = "python -m tests.proofs.transfer --runs /somewhere/runs --seeds 3 --output=/else/page.md"
    assert how_it_ran(command, 3, 2, 61.2, 7).startswith(
        "`python -m tests.proofs.transfer --seeds 3`: 3 seeds, 2 processes, 61 s, with 7 runs"
    )


def test_what_was_held_out_stands_apart_and_in_no_count_of_the_rest() -> None:
    without, with_ = (
        page(ran_of("model"), HOW, 10, 20, {"a": 1}, held_out=apart) for apart in ({}, ran_of("rows"))
    )
    count = "answers below miss their target"
    assert with_.partition(count)[0] == without.partition(count)[0]
    assert [("| rows |" in each, "held out\n" in each) for each in (without, with_)] == [
        (False, False),
        (True, True),
    ]


def test_what_is_only_compared_with_misses_no_target() -> None:
    better, worse = Ran(2, 20.0, True, 0.5, (0.8,) * 4), Ran(9, 90.0, True, 1.0, (0.8,) * 4)
    told = {(pair, "silent", 0): ("model", better, worse) for pair in ("a", "b")}
    told |= {(pair, "true", 0): ("model", worse, better) for pair in ("a", "b")}
    assert "**0 of 1 answers" in page(told, HOW, 10, 20, {"a": 1})
    told |= {(pair, "huge", 0): ("model", better, worse) for pair in ("a", "b")}
    assert "**1 of 2 answers" in page(told, HOW, 10, 20, {"a": 1})
