"""A page of transfer beside the main one: other pairs of grounds, with the same campaigns and questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proofs import transfer_known
from tests.proofs.markdown import table
from tests.proofs.transfer import FIRST, REACHED, TOLD, TRIALS, ground, run, sizes_of
from tests.proofs.transfer_asked import Asked
from tests.proofs.transfer_followed import section
from tests.proofs.transfer_page import (
    POISONED_COLUMNS,
    POISONS,
    TRUE_COLUMNS,
    Runs,
    missed_of,
    pair_rows,
    prose,
    rows_of,
)
from tests.proofs.transfer_runs import KeptRuns
from tests.proofs.transfer_tables import LAUNCHED_TWICE, Pair

DOCS = Path(__file__).parents[2] / "docs" / "results"


@dataclass(frozen=True)
class Aside:
    """Such a page: the proof's module, the page's heading and its file's stem; what was found, how, and what
    of the grounds, in words with places for `missed`, `answers`, `first`, `trials`, and the rows of the
    first pair's grounds, `here` and `there`; which pairs; what else it tells of them."""

    module: str
    title: str
    stem: str
    found: str
    how: str
    rows: str
    pairs: Callable[[], Sequence[Pair]]
    beside: Callable[[], Sequence[str]] = tuple

    @property
    def path(self) -> Path:
        """Where the page lies."""
        return DOCS / f"{self.stem}.md"


def main_of(aside: Aside, description: str | None, arguments: Sequence[str] | None = None) -> int:
    """Run all its pairs and write the page; the exit code is 0 whatever was found."""
    command = Asked(aside.module, description, aside.path)
    asked = command.read(arguments)
    chosen = aside.pairs()
    kept = KeptRuns(asked.runs)
    ran = run(chosen, asked.seeds, asked.processes, kept)
    how = command.how(kept.reused)
    asked.output.write_text(page(aside, ran, how, sizes_of(chosen)), encoding="utf-8")
    print(asked.output)
    return 0


def page(aside: Aside, ran: Runs, how: str, sizes: Mapping[str, int]) -> str:
    """The page, with its verdicts; `sizes` are the rows of each ground."""
    rows, poisoned = rows_of(ran)
    missed, answers = missed_of(rows, poisoned)
    first = aside.pairs()[0]
    counts: dict[str, object] = {
        "missed": missed,
        "answers": answers,
        "first": FIRST,
        "trials": TRIALS,
        "here": sizes[first.sources[0]],
        "there": sizes[first.target],
    }
    told = list(TOLD)
    parts = [
        f"# {aside.title}",
        f"- {how}\n- [What else is carried over, and how it is measured](transfer.md)",
        prose(aside.found, counts),
        prose(aside.how, counts),
        prose(aside.rows, counts),
        *aside.beside(),
        "## True knowledge",
        "Wanted: at most 0.6 of the trials without, by the point estimate.",
        table(TRUE_COLUMNS, rows),
        *section(aside.pairs(), ground, REACHED),
        *transfer_known.section(ran, LAUNCHED_TWICE),
        "## Poisoned knowledge",
        prose(POISONS, counts),
        table(POISONED_COLUMNS, poisoned),
        "## Pair by pair",
        "Mean trials to 95 % of the best gain.",
        table(("pair", "without", *told), pair_rows(ran, told)),
    ]
    return "\n\n".join(parts) + "\n"
