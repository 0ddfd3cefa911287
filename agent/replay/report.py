"""What came of a replay, as JSON and as rows of a table. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from agent.replay.calibration import Calibration, calibration
from agent.replay.made_with import MadeWith
from agent.replay.replay import Replayed
from agent.replay.score import Difference, Reaching, Score

MISSING = "–"


def document(replayed: Replayed, made: MadeWith) -> dict[str, Any]:
    """All of it as JSON: the table, what it was made with, the measures of each planner, and the course of
    every seed."""
    table, asked = replayed.table, replayed.asked
    return {
        "table": table.name,
        "metric": table.metric,
        "configurations": len(table.rows),
        "ran": sum(row.latency is not None for row in table.rows),
        "baseline_ms": table.baseline_ms,
        "best_ms": table.best_ms,
        "best": dict(table.best.configuration),
        "left_out": list(table.left_out),
        "seeds": asked.seeds,
        "budget": asked.budget.words,
        "permuted": list(asked.permute),
        "not_run": dict(replayed.missing),
        "made_with": asdict(made),
        "items": [_score(score, replayed) for score in replayed.scores],
    }


def _score(score: Score, replayed: Replayed) -> dict[str, Any]:
    held = calibration(replayed.outcomes(score.planner))
    return {
        "planner": score.planner,
        "reaching": [
            {
                "share": each.share,
                "reached": each.reached,
                "seeds": each.seeds,
                "median_trials": finite(each.trials),
                "median_cost_s": finite(each.cost_s),
            }
            for each in score.reaching
        ],
        "wins": score.wins,
        "mean_regret": list(score.regret),
        "regret_less_than_random": [
            {"trials": each.budget, "mean": each.mean, "low": each.low, "high": each.high}
            for each in score.differences
        ],
        "calibration": None if held is None else asdict(held),
        "courses": [
            {
                "seed": course.seed,
                "gain": [step.gain for step in course.steps],
                "cost_s": [step.cost_s for step in course.steps],
                "measured": [step.measured for step in course.steps],
                "predicted": [
                    None if step.outcome is None else asdict(step.outcome) for step in course.steps
                ],
            }
            for course in replayed.courses[score.planner]
        ],
    }


def finite(value: float) -> float | None:
    """The value, None in place of infinity."""
    return value if math.isfinite(value) else None


COLUMNS = ("planner", ">trials to 95 %", ">to 99 %", ">cost to 95 %", ">to 99 %", ">reached", ">wins")
"""Columns of `rows`; a leading `>` stands for alignment to the right."""


def rows(scores: Sequence[Score], missing: Iterable[str] = ()) -> list[tuple[str, ...]]:
    """For each planner the medians of trials and of cost to 95 and 99 % of the best gain, in how many seeds
    it was at 95 %, and its wins; those that are `missing` follow, as not run."""
    found: list[tuple[str, ...]] = []
    for score in scores:
        near, nearer = score.reaching
        found.append(
            (
                score.planner,
                _trials(near),
                _trials(nearer),
                _cost(near),
                _cost(nearer),
                f"{near.reached}/{near.seeds}",
                f"{score.wins}",
            )
        )
    found += [(name, "not run", *[MISSING] * (len(COLUMNS) - 2)) for name in missing]
    return found


def difference_columns(scores: Sequence[Score]) -> tuple[str, ...]:
    """Columns of `difference_rows`."""
    return ("planner", *(f"after {each.budget}" for each in _budgets(scores)))


def difference_rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """For each planner but random its mean regret less random's with the interval, in per cent of the best
    gain, by budget."""
    return [
        (score.planner, *(interval(each) for each in score.differences))
        for score in scores
        if score.differences
    ]


SHOWN_AFTER = (1, 2, 3, 5, 10, 20, 50, 100)
"""Trials after which the regret is told in a table; all of the curve is in the document and the picture."""


def regret_columns(scores: Sequence[Score]) -> tuple[str, ...]:
    """Columns of `regret_rows`."""
    return ("planner", *(f">after {trial}" for trial in _shown_after(scores)))


def regret_rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """For each planner its mean regret, in per cent of the best gain, after some of the trials."""
    shown = _shown_after(scores)
    return [(each.planner, *(f"{100 * each.regret[trial]:.1f}" for trial in shown)) for each in scores]


def _shown_after(scores: Sequence[Score]) -> list[int]:
    trials = max(len(score.regret) for score in scores) - 1
    return sorted({*(trial for trial in SHOWN_AFTER if trial < trials), trials})


CALIBRATION = (
    "planner",
    ">outcomes",
    ">rows",
    "inside the 80 % interval",
    "first seed",
    "CRPS less the prior's",
)
"""Columns of `calibration_row`."""


def calibration_row(name: str, found: Calibration) -> tuple[str, ...]:
    """How well a planner's predictions held: what was counted, the share inside the interval with the
    bootstrap's interval, that of the first seed with the exact one, and the gain in CRPS."""
    inside, gain = found.inside, found.difference
    first = found.first_inside / found.first if found.first else 0.0
    return (
        name,
        f"{found.outcomes:,}",
        f"{found.rows}",
        f"{100 * inside.value:.0f} % [{100 * inside.low:.0f}, {100 * inside.high:.0f}]",
        f"{100 * first:.0f} % [{100 * found.first_low:.0f}, {100 * found.first_high:.0f}]",
        f"{found.crps:.3f} − {found.prior_crps:.3f} = {_minus(gain.value)} "
        f"[{_minus(gain.low)}, {_minus(gain.high)}]",
    )


def _minus(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def interval(found: Difference) -> str:
    """`−12.0 [−20.1, −3.2]`, in per cent of the best gain."""
    mean, low, high = (_signed(100 * value) for value in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def _budgets(scores: Sequence[Score]) -> Sequence[Difference]:
    return next((score.differences for score in scores if score.differences), ())


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def _trials(found: Reaching) -> str:
    return f"{found.trials:g}" if math.isfinite(found.trials) else MISSING


def _cost(found: Reaching) -> str:
    return f"{found.cost_s:,.0f} s" if math.isfinite(found.cost_s) else MISSING
