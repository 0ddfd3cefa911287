"""How well the best of a workload is known, and what transfer gains where it is and where it is not.

Two launches of one configuration differ (`agent.tables.aa`), by how much is a question of the workload. Where
they lie further apart than the best rows do, which of them is the fastest is chance in part, and so is
when it is found. Pure but for the table whose rows were launched twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import fmean

from agent.tables.aa import launch_noise, repeated_by_workload
from agent.tables.journal import read_journal
from tests.proofs.markdown import paragraph, table
from tests.proofs.transfer_page import Runs
from tests.proofs.transfer_tables import LAUNCHED_TWICE_FILE, TABLES

APART = 0.05
"""The most by which two launches may differ, as the median pair of a workload does, for its best to count as
known: the share of the best gain that may be missing."""

COLUMNS = ("what differs", "two launches of the target", "pairs", "trials without", "with", "ratio")

_WORDS = """How well a workload's best is known: on [a later table](h200-9b-launches.md) of the same shape,
card and version each row was launched twice. Where the median pair of launches lies more than 5 % apart,
which row is the fastest is chance in part. Parted by that, true knowledge is worth this. The two tables do
not agree: on [the older one](transfer.md) it is worth more where launches keep within 5 %, on [the
later](transfer-launches.md) less. So noise is not what decides. (That it is parted was decided with the first
figures of both in sight.)"""


@cache
def launches_apart() -> Mapping[tuple[int, int], float]:
    """By requests at once and tokens of a prompt: by what share of its time the slower of two launches of the
    same takes longer, of the median pair. The two of each were on two GPUs of one host."""
    found = {}
    lines = read_journal(TABLES / f"{LAUNCHED_TWICE_FILE}.jsonl")
    for key, loads in repeated_by_workload(lines, together=False).items():
        at_once, tokens = key.split("/")[0].removeprefix("c").split()
        found[int(at_once), int(tokens)] = launch_noise(loads).median_share
    return found


def section(ran: Runs, workloads: Mapping[str, tuple[int, int]]) -> list[str]:
    """Words and a table, of the pairs whose target is one of these."""
    parted: dict[tuple[str, bool], dict[str, list[tuple[int, int]]]] = {}
    for (pair, told, _), (kind, without, with_) in ran.items():
        target = pair.rpartition(" → ")[2]
        if told == "true" and target in workloads:
            known = launches_apart()[workloads[target]] <= APART
            trials = parted.setdefault((kind, known), {}).setdefault(pair, [])
            trials.append((without.trials, with_.trials))
    rows = []
    for (kind, known), pairs in sorted(parted.items(), key=lambda each: (each[0][0], not each[0][1])):
        before = fmean(fmean(without for without, _ in each) for each in pairs.values())
        after = fmean(fmean(with_ for _, with_ in each) for each in pairs.values())
        which = f"within {APART:.0%}" if known else "further apart"
        rows.append([kind, which, str(len(pairs)), f"{before:.2f}", f"{after:.2f}", f"{after / before:.2f}"])
    return [paragraph(" ".join(_WORDS.split())), table(COLUMNS, rows)] if rows else []
