"""Two pages of answers to the same questions beside each other, such as of one file on two engines.

    python -m tests.device.answers_beside docs/results/levers.md docs/results/h200-levers-answers.md \\
        --later docs/results/h200-levers-answers-later.md \\
        --names "reference engine, CPU" "vLLM, H200" --out docs/results/levers-on-both.md

All are pages that `autoinfer answers` wrote; their tables are read, and told in their own words. What the
second did not settle is taken from the later page, where that did, and marked.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

DECIDED = ("supported", "refuted")
"""Verdicts that say something of the claim."""

OTHER_SIZE = "same verdict, other size"
"""Of two that agree in their verdict while no effect lies in both intervals."""

_INTERVAL = re.compile(r"\[([+−]?[\d.,]+), ([+−]?[\d.,]+)\]")


@dataclass(frozen=True)
class Row:
    """A contrast as a page has it: its metric, its claim (empty where only a draw differs), its verdict (such
    has none), and what was measured."""

    metric: str
    claim: str
    verdict: str
    effect: str
    experiment: str


def rows_of(page: str) -> dict[str, Row]:
    """The rows of all tables of contrasts on a page, by their name."""
    found: dict[str, Row] = {}
    names: list[str] = []
    for line in page.splitlines():
        cells = [each.strip() for each in line.strip().strip("|").split("|")]
        if line.startswith("| contrast |"):
            names = cells
        elif not line.startswith("|"):
            names = []
        elif names and line.startswith("| `"):
            row = dict(zip(names, cells, strict=True))
            found[row["contrast"].strip("`")] = Row(
                row["metric"], row.get("claim", ""), row.get("verdict", ""), row["effect"], row["experiment"]
            )
    return found


def with_later(earlier: Mapping[str, Row], later: Mapping[str, Row]) -> dict[str, Row]:
    """The rows of a page, and in place of what it did not settle those that a later one did, marked so."""
    return {
        name: replace(later[name], experiment=f"{later[name].experiment}, later")
        if row.verdict not in DECIDED and name in later and later[name].verdict in DECIDED
        else row
        for name, row in earlier.items()
    }


def interval_of(effect: str) -> tuple[float, float] | None:
    """The interval that an effect is told with, as it is rounded there; None where none is."""
    told = _INTERVAL.search(effect)
    if told is None:
        return None
    low, high = (float(each.replace("−", "-").replace(",", "")) for each in told.groups())
    return low, high


def disjoint(first: Row, second: Row) -> bool:
    """Whether both effects have an interval and these share no value."""
    one, other = interval_of(first.effect), interval_of(second.effect)
    return one is not None and other is not None and (one[1] < other[0] or other[1] < one[0])


def standing(first: Row, second: Row) -> str:
    """What the two verdicts say of each other, and the intervals of two that agree."""
    verdicts = (first.verdict, second.verdict)
    settled = [each in DECIDED for each in verdicts]
    if not first.claim:
        return "a draw, no claim"
    if all(settled):
        if first.verdict != second.verdict:
            return "**contradicted**"
        return OTHER_SIZE if disjoint(first, second) else "the same"
    return "settled on one alone" if any(settled) else "settled on neither"


def table(first: Mapping[str, Row], second: Mapping[str, Row], names: Sequence[str]) -> list[str]:
    """A line for each contrast that both pages have, in the order of the first."""
    lines = [f"| contrast | metric | claim | {names[0]} | {names[1]} | beside each other |", "|---" * 6 + "|"]
    lines += [
        f"| `{name}` | {row.metric} | {row.claim or '—'} | {_told(row)} | {_told(second[name])} "
        f"| {standing(row, second[name])} |"
        for name, row in first.items()
        if name in second
    ]
    return lines


def _told(row: Row) -> str:
    verdict = f"{row.verdict}: " if row.verdict else ""
    measured = f"{row.effect} ({row.experiment})" if row.effect != "—" else ""
    return f"{verdict}{measured}".removesuffix(": ") or "not tested"


def page(first: Path, second: Path, names: Sequence[str], later: Path | None = None) -> str:
    """The whole page, from those that are beside it."""
    one, other = rows_of(first.read_text()), rows_of(second.read_text())
    pages, command = f"[{first.name}]({first.name}) and [{second.name}]({second.name})", ""
    if later is not None:
        other = with_later(other, rows_of(later.read_text()))
        pages += f", and what that did not settle from [{later.name}]({later.name})"
        command = f" --later docs/results/{later.name}"
    both = [name for name in one if name in other]
    counts: dict[str, int] = {}
    for name in both:
        told = standing(one[name], other[name]).strip("*")
        counts[told] = counts.get(told, 0) + 1
    summed = ", ".join(
        f"{number} {told}" for told, number in sorted(counts.items(), key=lambda each: -each[1])
    )
    return "\n".join(
        [
            f"# The same questions: {names[0]}, and {names[1]}",
            "",
            f"From {pages}, by `python -m tests.device.answers_beside docs/results/{first.name} "
            f"docs/results/{second.name}{command}`. "
            "All were asked by one file, on checkpoints that each made itself. Brackets are 95 % intervals; "
            f"*{OTHER_SIZE}* is where the two verdicts agree and the intervals share no value.",
            "",
            f"Of {len(both)} contrasts: {summed}.",
            "",
            *table(one, other, names),
            "",
        ]
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--later", type=Path, help="answers to the same questions as the second's, later")
    parser.add_argument("--names", nargs=2, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.write_text(page(asked.first, asked.second, asked.names, asked.later))


if __name__ == "__main__":
    main()
