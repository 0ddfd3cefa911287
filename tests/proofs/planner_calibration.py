"""The part of the planner's page on its predictions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.replay.calibration import NOMINAL, Calibration, Outcomes, calibration
from agent.replay.report import CALIBRATION, calibration_row
from tests.proofs.counting import plain
from tests.proofs.markdown import paragraph, table

WANTED = (0.75, 0.85)
"""Between which the share inside the 80 % interval is to lie."""

MOST_OUTCOMES = 250
"""Rows of which predictions are to be had at least."""

EARLY = 10
"""Trials after which little is left that a planner does not know."""


WHOLE_TRIALS = 1000
"""Trials of the replays that try a whole table. Its rows alone are too few: a planner that measures near ties
again spends trials on them before it has tried every row. One that has stops by itself, so that any number
well above the rows tells the same."""

FURTHEST = 3
"""Tables that are named where too many or too few outcomes lie inside."""


def predictions(by_table: Mapping[str, tuple[Outcomes, Outcomes]], seeds: int, running: int) -> Iterator[str]:
    """The sections: of each table all outcomes, with those of the first `EARLY` trials, then all tables
    together. `running` are the rows of all tables that run, trials 0 apart."""
    tried = sum(len(whole) for whole, _ in by_table.values())
    rows = []
    for name, (whole, early) in by_table.items():
        rows += [_row(f"`{name}`", whole), _row(f"`{name}`, first {EARLY} trials", early)]
    if len(by_table) > 1:
        rows += [
            _row("all", _merged([whole for whole, _ in by_table.values()])),
            _row(f"all, first {EARLY} trials", _merged([early for _, early in by_table.values()])),
        ]
    yield "## Predictions"
    yield paragraph(
        f"`ours` says before each trial what it expects; here it may go on until it has tried every row of a "
        f"table, in {seeds} seeds (`autoinfer replay TABLE --planner ours --seeds {seeds} --budget "
        f"{WHOLE_TRIALS}`): {tried} of the {running} rows that run were tried. It says so before it was told "
        "anything of that row, and what it measures again is no outcome, so that there is one of each row "
        f"and seed at most. {plain(NOMINAL)} of the outcomes are to lie inside its {plain(NOMINAL)} "
        "interval. A row counts once, whatever the number of seeds; in brackets are intervals of 95 %, by a "
        "bootstrap that draws configurations with all their workloads and seeds, and for the first seed the "
        "exact binomial, which takes rows for independent. CRPS, of the log of milliseconds, is the better "
        "the less; the prior's is that of the same planner when it knows trial 0 alone."
    )
    yield table(("table", *(name.removeprefix(">") for name in CALIBRATION[1:])), filter(None, rows))


def answer(found: Calibration | None) -> tuple[str, bool]:
    """What was measured of the target, in a sentence, and whether all of it is met."""
    if found is None:
        return "nothing was predicted", False
    inside, gain = found.inside, found.difference
    met = (
        found.rows >= MOST_OUTCOMES,
        WANTED[0] <= inside.value <= WANTED[1],
        gain.high < 0,
    )
    words = (
        f"{found.outcomes:,} outcomes of {found.rows} rows ({MOST_OUTCOMES} wanted{_missed(met[0])}); "
        f"{100 * inside.value:.1f} % [{100 * inside.low:.1f}, {100 * inside.high:.1f}] inside the "
        f"{plain(NOMINAL)} interval ({plain(WANTED[0])} to {plain(WANTED[1])} wanted{_missed(met[1])}); "
        f"CRPS {found.crps:.3f}, the prior's {found.prior_crps:.3f} (less wanted{_missed(met[2])})"
    )
    return words, all(met)


def reasons_of_predictions(by_table: Mapping[str, tuple[Outcomes, Outcomes]]) -> Iterator[str]:
    """What the figures say of each part of the target that is missed: a sentence for each."""
    found = together(by_table)
    if found is None:
        yield "predictions: none was made"
        return
    if found.rows < MOST_OUTCOMES:
        yield f"predictions, outcomes: no more than {found.rows} rows were tried and ran in what was replayed"
    if not WANTED[0] <= found.inside.value <= WANTED[1]:
        wide = found.inside.value > WANTED[1]
        held = {name: calibration(whole) for name, (whole, _) in by_table.items()}
        shares = {name: each.inside.value for name, each in held.items() if each is not None}
        furthest = sorted(shares, key=lambda name: shares[name], reverse=wide)[:FURTHEST]
        named = ", ".join(f"`{name}` ({100 * shares[name]:.0f} %)" for name in furthest)
        how = "more careful than they need to be" if wide else "surer than they should be"
        yield f"predictions, share inside: {how}, most on {named}"
    if found.difference.high >= 0:
        yield "predictions, CRPS: not told apart from the prior's, or worse"


def together(by_table: Mapping[str, tuple[Outcomes, Outcomes]]) -> Calibration | None:
    """Of all tables."""
    return calibration(_merged([whole for whole, _ in by_table.values()]))


def _missed(met: bool) -> str:
    return "" if met else ", **missed**"


def _row(name: str, outcomes: Outcomes) -> tuple[str, ...] | None:
    found = calibration(outcomes)
    return None if found is None else calibration_row(name, found)


def _merged(found: Sequence[Outcomes]) -> Outcomes:
    return {row: outcomes for each in found for row, outcomes in each.items()}
