"""How far each client's times are off and how far the two lie apart, from the runs of `client_bias.py`. Pure.

A run is what that file writes of it. What only one client has asked in is in no difference and in no table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from agent.judge.aa_statistics import Estimate
from tests.benchmarks.serving_arms import Figures
from tests.benchmarks.serving_comparison import difference, said_of

OURS, BENCH = "our client", "vllm bench serve"
ARMS = (OURS, BENCH)

KEPT_SHARE = 0.01
"""The timetable counts as kept where no more than this share of a run's tokens was late."""


@dataclass(frozen=True)
class Bias:
    """One metric at one concurrency and pace, from the rounds in which both have asked.

    `told` and `recorded` are medians over rounds, by arm; `off` says how far what each told lies from what
    the server recorded of it, `apart` how far what ours told lies from what the bench told.
    """

    concurrency: int
    step_ms: float
    metric: str
    told: Mapping[str, float]
    recorded: Mapping[str, float]
    off: Mapping[str, Estimate]
    apart: Estimate


def biases(runs: Sequence[Mapping[str, Any]]) -> list[Bias]:
    """What the rounds say by concurrency, pace and metric."""
    found = []
    for (concurrency, step_ms), rounds in _by_round(runs).items():
        for name in (field.name for field in fields(Figures)):
            told = {arm: [each[arm]["told"][name] for each in rounds] for arm in ARMS}
            recorded = {arm: [each[arm]["recorded"][name] for each in rounds] for arm in ARMS}
            found.append(
                Bias(
                    concurrency,
                    step_ms,
                    name,
                    {arm: median(each) for arm, each in told.items()},
                    {arm: median(each) for arm, each in recorded.items()},
                    {arm: difference(told[arm], recorded[arm]) for arm in ARMS},
                    difference(told[OURS], told[BENCH]),
                )
            )
    return found


def table(found: Sequence[Bias], within: float) -> str:
    """Biases as lines of Markdown."""
    heads = [f"{kind}{arm}" for arm in ARMS for kind in ("server to ", "", "off: ")]
    rows = [
        f"| at once | step, ms | metric | {' | '.join(heads)} | ours from the bench's |",
        "|---" * 10 + "|",
    ]
    for each in found:
        cells = [str(each.concurrency), f"{each.step_ms:g}", each.metric]
        for arm in ARMS:
            cells += [f"{each.recorded[arm]:.4g}", f"{each.told[arm]:.4g}", said_of(each.off[arm], within)]
        rows.append(f"| {' | '.join([*cells, said_of(each.apart, within)])} |")
    return "\n".join(rows)


def ways_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """How late the server was and how long the ways were, as lines of Markdown: medians over the rounds of
    each run's median and of its 99th percentile, and the most of all."""
    rows = [
        "| at once | step, ms | asked by | late, ms | tokens late | there, ms | back, ms |",
        "|---" * 7 + "|",
    ]
    for (concurrency, step_ms), rounds in _by_round(runs).items():
        for arm in ARMS:
            told = [each[arm]["seen"] for each in rounds]
            cells = [str(concurrency), f"{step_ms:g}", arm, _spread(told, "late")]
            cells.append(f"{100 * median(each['late_share'] for each in told):.1f} %")
            cells += [_spread(told, "there"), _spread(told, "back")]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def tables(found: Mapping[str, Any], within: float) -> str:
    """Both tables of everything that was measured, as `--json` writes it, as lines of Markdown."""
    return f"{table(biases(found['runs']), within)}\n\n{ways_table(found['runs'])}"


def line_of(run: Mapping[str, Any]) -> str:
    """A run in a line: how far what was told lies from what was recorded, and how the server kept its
    timetable."""
    told, recorded, also = run["told"], run["recorded"], run["seen"]
    kept = "kept" if also["late_share"] <= KEPT_SHARE else f"{100 * also['late_share']:.1f} % of tokens late"
    off = ", ".join(f"{name} {100 * (told[name] / recorded[name] - 1):+.2f} %" for name in told)
    at_once, step_ms = run["load"]["concurrency"], run["pace"]["step_ms"]
    asked = f"{at_once} at once, {step_ms:g} ms, round {run['round'] + 1}, {run['arm']}"
    return f"{asked}: {off}; timetable {kept}, late by {also['late']['median']:.2f} ms"


def _by_round(
    runs: Sequence[Mapping[str, Any]],
) -> dict[tuple[int, float], list[dict[str, Mapping[str, Any]]]]:
    """Runs by concurrency and step, in rounds of both arms."""
    rounds: dict[tuple[int, float], dict[int, dict[str, Mapping[str, Any]]]] = {}
    for run in runs:
        key = (run["load"]["concurrency"], run["pace"]["step_ms"])
        rounds.setdefault(key, {}).setdefault(run["round"], {})[run["arm"]] = run
    whole = {
        key: [each for each in of_key.values() if each.keys() == {*ARMS}] for key, of_key in rounds.items()
    }
    return {key: each for key, each in whole.items() if each}


def _spread(told: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [each[name] for each in told]
    middle, p99 = (median(each[which] for each in values) for which in ("median", "p99"))
    return f"{middle:.2f}, {p99:.2f}, {max(each['most'] for each in values):.1f}"
