"""The page of the planner's proof, in Markdown: every target with what was measured, met or missed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agent.replay.replay import Replayed
from agent.replay.report import difference_columns, difference_rows, interval, rows
from agent.replay.score import SHARES, Score
from tests.proofs.counting import Share
from tests.proofs.markdown import paragraph, table

OWN, WITHOUT_PHYSICS, WITHOUT_LEARNING = "ours", "ours-without-physics", "ours-without-learning"
RIVALS = ("tpe", "smac", "random")
MOST_TRIALS = 10
"""Trials in which the median seed is to have 95 % of the best gain."""

MOST_COST = 0.6
"""The largest share of the cheapest rival's cost."""

HEAD = ("planner", "trials to 95 %", "to 99 %", "cost to 95 %", "to 99 %", "reached", "wins")


@dataclass(frozen=True)
class Made:
    """How the page was made."""

    command: str
    seeds: int
    trials: int
    processes: int
    wall_s: float
    picture: str
    not_replayed: tuple[str, ...] = ()
    """Tables of the proof that this run left out."""


@dataclass(frozen=True)
class Part:
    """One table: a name, its file, the options that choose its lines, what came of it, and of our planner
    with labels turned round."""

    name: str
    file: str
    options: str
    plain: Replayed
    turned: Replayed | None


@dataclass(frozen=True)
class Answer:
    """What was measured of a target on one table, and whether it is met."""

    measured: str
    met: bool

    def __str__(self) -> str:
        return self.measured if self.met else f"{self.measured} **missed**"


def page(parts: Sequence[Part], made: Made) -> str:
    """The page of all tables."""
    answers = {part.name: tuple(answers_of(part)) for part in parts}
    asked = [answer for found in answers.values() for answer in found]
    sections = [
        "# What the planner is worth",
        f"- `{made.command}`: {made.seeds} seeds, {made.trials} trials after trial 0 or all there are, "
        f"{made.processes} processes, {made.wall_s:.0f} s beside other work\n"
        "- [How tables are replayed](../replay.md), what each planner is, and how to enter another",
        paragraph(
            f"**{sum(not answer.met for answer in asked)} of {len(asked)} answers below miss their target.** "
            "The only frozen table that may be looked at is small: Qwen3.5-9B's shape on an H200, each "
            "workload a table of its own with eleven configurations to be tried. Whoever tries them in any "
            "order has the best within eleven trials, so only the first few can tell planners apart; and its "
            "rows were chosen one by one, most of them several good changes at once, which favours whoever "
            "tries what differs most. Grids that cross all levers are not measured yet. The table of "
            "Qwen3.5-4B's shape (`h200-4b.csv`) is held out and was not replayed."
        ),
        paragraph(
            "Samples are requests within one launch, so the spread between launches, which is larger, is not "
            "in them. The weights are made up: quality never decides, and configurations that draft have no "
            "time a token and are left out. Physics is fed the profile of trial 0 at one request and 512 "
            "tokens, whatever the workload."
        ),
        f"![Regret by trials]({made.picture})",
        "## Targets",
        table(
            ("table", *COLUMNS),
            [(f"`{name}`", *map(str, found)) for name, found in answers.items()],
        ),
        paragraph(
            f"Trials: the median seed has 95 % of the best gain in at most {MOST_TRIALS}. Cost: at most "
            f"{MOST_COST} of that of the cheapest of TPE, SMAC3 and random, in the median. Regret: the whole "
            "95 % interval of the mean difference to random lies at or below zero, in per cent of the best "
            "gain. Permuted: with the labels of kernels turned round in every seed the best is found within "
            f"{MOST_TRIALS} trials in as many seeds."
        ),
        "Why targets are missed:",
        "\n".join(f"- {reason}" for part in parts for reason in reasons_of(part)) or "- none is",
        "Not answered:",
        "\n".join(f"- {what}: {why}" for what, why in (*OPEN_TARGETS, *_left_out(made))),
        *(section for part in parts for section in _sections(part)),
    ]
    return "\n\n".join(sections) + "\n"


COLUMNS = ("trials", "cost", "regret after 3", "after 5", "after 10", "permuted")
"""Columns of the targets, in the order of `answers_of`."""

OPEN_TARGETS = (
    (
        "at least 250 out-of-sample outcomes, 75–85 % of them inside the 80 % interval, CRPS better than the "
        "prior's",
        "all eight workloads have 88 outcomes together",
    ),
    ("regret after 20 trials", "no table has more than eleven configurations to try"),
    ("permuted labels of corpora", "no table has two corpora"),
    ("the held-out table", "kept for the end, and to be used once"),
)
"""Targets that the tables at hand can't answer, with the reason."""


def _left_out(made: Made) -> list[tuple[str, str]]:
    names = ", ".join(f"`{name}`" for name in made.not_replayed)
    return [(names, "not replayed in this run; `make planner` replays all")] if names else []


def answers_of(part: Part) -> Iterator[Answer]:
    """What was measured of each target on one table, in the order of `COLUMNS`."""
    scores = {score.planner: score for score in part.plain.scores}
    own = scores[OWN]
    near = own.reaching[0]
    yield Answer(_number(near.trials), near.trials <= MOST_TRIALS)
    costs = {name: scores[name].reaching[0].cost_s for name in RIVALS if name in scores}
    cheapest = min(costs, key=lambda name: costs[name])
    if math.isfinite(costs[cheapest]):
        ratio = near.cost_s / costs[cheapest]
        yield Answer(f"{ratio:.2f} of {cheapest}", ratio <= MOST_COST)
    else:
        yield Answer("no rival got there", math.isfinite(near.cost_s))
    for each in own.differences:
        yield Answer(interval(each), each.high <= 0)
    if part.turned is not None:
        before, after = _found(part.plain), _found(part.turned)
        yield Answer(f"{after.count} of {after.of}, unpermuted {before.count}", after.count >= before.count)


def reasons_of(part: Part) -> Iterator[str]:
    """What the figures say of each target that a table misses."""
    found = part.plain
    scores = {score.planner: score for score in found.scores}
    own, answers = scores[OWN], list(answers_of(part))
    near = own.reaching[0]
    costs = {name: scores[name].reaching[0] for name in RIVALS if name in scores}
    cheapest = min(costs, key=lambda name: costs[name].cost_s)
    if not answers[1].met:
        trial_s = fmean(row.run_s for row in found.table.rows[1:])
        allowed_s = MOST_COST * costs[cheapest].cost_s
        yield (
            f"`{part.name}`, cost: {near.cost_s:.0f} s in {near.trials:g} trials, {cheapest} "
            f"{costs[cheapest].cost_s:.0f} s in {costs[cheapest].trials:g}. A trial takes {trial_s:.0f} s in "
            f"the mean, so that {allowed_s / trial_s:.1f} trials would meet it"
        )
    for k, each in enumerate(own.differences):
        if each.low <= 0 < each.high:
            yield (
                f"`{part.name}`, regret after {each.budget} of {len(found.table.rows) - 1} trials: all have "
                "seen nearly all; what is left is which of the near-equal the noise makes the judged best"
            )
        elif each.low > 0:
            yield f"`{part.name}`, regret after {each.budget}: worse than random. {_ablations(scores, k)}"


def _ablations(scores: Mapping[str, Score], k: int) -> str:
    """What becomes of a regret without physics, and without learning."""
    told = [
        f"{name.replace('ours-', '').replace('-', ' ')} {interval(scores[name].differences[k])}"
        for name in (WITHOUT_PHYSICS, WITHOUT_LEARNING)
        if name in scores
    ]
    words = f"The same planner {' and '.join(told)}."
    unlearnt = scores.get(WITHOUT_LEARNING)
    if unlearnt is not None and unlearnt.differences[k].high < scores[OWN].differences[k].low:
        words += (
            " So learning misleads: what it tries first is slow there by its kernel, and what it learns of "
            "that speaks against the other knobs of the trial, which the best has too"
        )
    return words


def _found(replayed: Replayed) -> Share:
    """In how many seeds our planner had 95 % of the best gain in time."""
    steps = [course.reached(SHARES[0]) for course in replayed.courses[OWN]]
    return Share(sum(step is not None and step.trial <= MOST_TRIALS for step in steps), len(steps))


def _sections(part: Part) -> Iterator[str]:
    found = part.plain
    best = found.table.rows[0].configuration.changes_to(found.table.best.configuration)
    changed = ", ".join(f"`{change.knob}={change.after}`" for change in best if change.before != change.after
                        and change.after is not None)  # fmt: skip
    yield f"## {part.name}"
    yield f"`autoinfer replay docs/results/tables/{part.file} {part.options} --seeds {found.asked.seeds}`"
    yield paragraph(
        f"{len(found.table.rows)} configurations; trial 0 takes {found.table.baseline_ms:.2f} ms "
        f"({found.table.metric}), the best {found.table.best_ms:.2f} ms, with {changed}. "
        + " ".join(found.table.left_out)
    )
    if found.missing:
        yield "\n".join(f"- Not run: {name}. {why}" for name, why in found.missing.items())
    yield table(HEAD, rows(found.scores))
    yield "Mean regret less random's, % of the best gain, with its 95 % interval; below 0 is better:"
    yield table(difference_columns(found.scores), difference_rows(found.scores))


def _number(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "not by half the seeds"
