"""What it is worth to have measured the very same before: a bound beside the proof of transfer.

python -m tests.proofs.transfer_again [--seeds N] [--processes N] [--runs FILE] [--output FILE]

Writes docs/results/transfer-again.md. Knowledge of another workload can hardly be worth more than knowledge
of this one. Of the table whose rows were launched twice, one launch of each row is the first campaign's
ground and the other the second's: model, card, versions, day and workload are the same, and only noise
differs. Equal seeds give equal figures, whatever the number of processes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import fmean

from tests.proofs.markdown import table
from tests.proofs.transfer import FIRST, REACHED, TRIALS, ground, run
from tests.proofs.transfer_aside import DOCS
from tests.proofs.transfer_asked import Asked
from tests.proofs.transfer_followed import followed
from tests.proofs.transfer_known import launches_apart
from tests.proofs.transfer_page import WANTED, Runs, by_pair, interval, prose, ratio_of_trials
from tests.proofs.transfer_runs import KeptRuns
from tests.proofs.transfer_tables import LAUNCHED_ALONE, Pair, launched_again

MODULE = "tests.proofs.transfer_again"

OUTPUT = DOCS / "transfer-again.md"

COLUMNS = ("ground", "median pair of launches apart", "without", "with", "whole table followed")

_HOW = """A first campaign is {first} trials of the planner `ours` on one launch of each row; a second one
is the same planner on the other launch of each row, with at most {trials} trials, that begins with the first
one's outcomes, which count as of the same model, hardware and workload. Beside it, who knows every row of the
other launch as it is, and tries the same from the fastest to the slowest. Trials are counted until 95 % of
the best gain is found."""

_FOUND = """**Of the trials without knowledge, {ratio:.2f} [{low:.2f}, {high:.2f}] are needed after a first
campaign on the very same ground, and {whole:.2f} by who follows its whole table.** The target for what is
carried from another workload is {wanted}. What is carried from elsewhere can't be expected to be worth more
than this. So where [other workloads of this table](transfer-launches.md) miss the target, the first reason is
how well the best of a ground is known at all. It is no strict bound: here each ground is one launch of each
row, there the mean of two."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all pairs and write the page; the exit code is 0 whatever was found."""
    command = Asked(MODULE, __doc__, OUTPUT)
    asked = command.read(arguments)
    kept = KeptRuns(asked.runs)
    ran = run(launched_again(), asked.seeds, asked.processes, kept, ("true",))
    asked.output.write_text(page(ran, command.how(kept.reused)), encoding="utf-8")
    print(asked.output)
    return 0


def page(ran: Runs, how: str) -> str:
    """The page, from the runs that were told the truth."""
    pairs = launched_again()
    whole = {pair.name: _whole(pair) for pair in pairs}
    every = by_pair(ran, ("launched again",), "true")
    low, high = interval(every, ratio_of_trials)
    both = [each for pair in every for each in pair]
    without = fmean(one.trials for one, _ in both)
    with_ = fmean(other.trials for _, other in both)
    followed_ = fmean(whole.values())
    counts = {
        "first": FIRST,
        "trials": TRIALS,
        "wanted": WANTED,
        "ratio": with_ / without,
        "low": low,
        "high": high,
        "whole": followed_ / without,
    }
    rows = [_row(pair, ran, whole) for pair in pairs]
    rows.append(["all", "", f"{without:.2f}", f"{with_:.2f}", f"{followed_:.2f}"])
    parts = [
        "# What the very same ground, measured before, is worth",
        f"- {how}\n- [What is carried from another workload of this table](transfer-launches.md)",
        prose(_FOUND, counts),
        prose(_HOW, counts),
        table(COLUMNS, rows),
    ]
    return "\n\n".join(parts) + "\n"


def _whole(pair: Pair) -> int:
    trials = followed([ground(name) for name in pair.sources], ground(pair.target), REACHED)
    assert trials is not None, "both launches have the same rows"
    return trials


def _row(pair: Pair, ran: Runs, whole: Mapping[str, int]) -> list[str]:
    runs = [(without, with_) for (name, _, _), (_, without, with_) in ran.items() if name == pair.name]
    return [
        f"`{pair.target}`",
        f"{launches_apart()[LAUNCHED_ALONE[pair.target]]:.1%}",
        f"{fmean(without.trials for without, _ in runs):.1f}",
        f"{fmean(with_.trials for _, with_ in runs):.1f}",
        str(whole[pair.name]),
    ]


if __name__ == "__main__":
    sys.exit(main())
