"""How much knowledge there is to carry: trials of who knows another's whole table and follows it.

A yardstick beside the planner, and no planner: it is told every row of the others as it is, without
noise, which nobody who measures is, and tries the target's rows from the fastest there to the slowest. Its
trials to the share of the best gain that is looked for say how alike the two orders are. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from agent.replay.table import Table
from experiments.space.configuration import Configuration
from tests.proofs.markdown import paragraph, table
from tests.proofs.transfer_tables import Pair

COLUMNS = ("what differs", "pairs", "trials", "most")

_WORDS = """How much there is to carry: who knows every row of the other table as it is, without noise and
without a trial of its own, and tries the same configurations here from the fastest there to the slowest,
finds 95 % of the best gain after so many trials. (Of several others: by the mean of the times over trial
0's; what did not run there comes last. Pairs whose other table lacks a configuration, and all of their
kind, are left out.) It is no bound: who knows physics too can do better, and the planner does where it
needs fewer. But where following the other table takes as long as knowing nothing, its order is of no use
here, however it is carried."""


def followed(sources: Sequence[Table], target: Table, share: float) -> int | None:
    """Trials until `share` of the target's best gain, from the fastest to the slowest by the sources' mean
    time over their trial 0's; None where a row of the target is not in all of them."""
    candidates = [row.configuration for row in target.rows[1:]]
    if any(each not in source.by_configuration for source in sources for each in candidates):
        return None
    order = sorted(candidates, key=lambda each: fmean(_over_trial_0(source, each) for source in sources))
    for trial, each in enumerate(order, 1):
        row = target.by_configuration[each]
        found = row.latency is not None and target.is_acceptable(row)
        if found and target.gain_of(row.latency.centre_ms) >= share:
            return trial
    return len(order) + 1


def _over_trial_0(table: Table, configuration: Configuration) -> float:
    latency = table.by_configuration[configuration].latency
    return math.inf if latency is None else latency.centre_ms / table.baseline_ms


def section(pairs: Sequence[Pair], ground: Callable[[str], Table], share: float) -> list[str]:
    """Words and a table, by what differs."""
    found: dict[str, list[int | None]] = {}
    for pair in pairs:
        trials = followed([ground(name) for name in pair.sources], ground(pair.target), share)
        found.setdefault(pair.kind, []).append(trials)
    whole = {kind: [each for each in trials if each is not None] for kind, trials in found.items()}
    rows = [
        [kind, str(len(trials)), f"{fmean(trials):.2f}", str(max(trials))]
        for kind, trials in whole.items()
        if len(trials) == len(found[kind])
    ]
    return [paragraph(" ".join(_WORDS.split())), table(COLUMNS, rows)] if rows else []
