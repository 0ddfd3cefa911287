"""The page of the planner's proof, in Markdown: every target with what was measured, met or missed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from agent.replay.calibration import Outcomes
from agent.replay.course import Course
from agent.replay.made_with import MadeWith
from agent.replay.replay import Replayed
from agent.replay.report import difference_columns, difference_rows, interval, rows
from agent.replay.score import BUDGETS, SHARES, Reaching, Score
from agent.replay.table import Row, Table
from tests.proofs.counting import Share, less, percent
from tests.proofs.markdown import paragraph, table
from tests.proofs.planner_calibration import EARLY, answer, predictions, reasons_of_predictions, together
from tests.proofs.planner_tables import ABOUT, CORPORA, KERNELS

OWN, WITHOUT_PHYSICS, WITHOUT_LEARNING = "ours", "ours-without-physics", "ours-without-learning"
RIVALS = ("tpe", "smac", "random")
MOST_TRIALS = 10
"""Trials in which the median seed is to have 95 % of the best gain."""

MOST_COST = 0.6
"""The largest share of the cheapest rival's cost."""

NEARLY_ALL = 0.8
"""Share of a table's configurations after which there is little left to choose."""

ALIKE_SE = 2.0
"""Standard errors of a difference within which two rows may be one."""

HEAD = ("planner", "trials to 95 %", "to 99 %", "cost to 95 %", "to 99 %", "reached", "wins")


@dataclass(frozen=True)
class Made:
    """How the page was made."""

    command: str
    seeds: int
    trials: int
    predicting_seeds: int
    processes: int
    wall_s: float
    pictures: tuple[str, ...]
    made_with: MadeWith
    not_replayed: tuple[str, ...] = ()
    """Tables of the proof that this run left out."""
    held_out: bool = False
    """Whether it is the page of the table that is held out of the others."""


@dataclass(frozen=True)
class Turned:
    """What came of our planner with the labels of a kind turned round, and whether that ever gives the best
    row another label."""

    kind: str
    touches_best: bool
    found: Replayed


@dataclass(frozen=True)
class Part:
    """One table: a name, its file, the options that choose its lines, what came of it, of our planner with
    labels turned round, and of our planner when it tries all rows."""

    name: str
    file: str
    options: str
    plain: Replayed
    turned: tuple[Turned, ...]
    predicted: Replayed

    @property
    def outcomes(self) -> tuple[Outcomes, Outcomes]:
        """Our planner's predictions beside what came: all, and those of the first trials. The table's name is
        the part's: workloads of one file differ."""
        return (
            _named(self.name, self.predicted.outcomes(OWN)),
            _named(self.name, self.predicted.outcomes(OWN, last=EARLY)),
        )


@dataclass(frozen=True)
class Answer:
    """What was measured of a target on one table, and whether it is met."""

    measured: str
    met: bool

    def __str__(self) -> str:
        return self.measured if self.met else f"{self.measured} **missed**"


ONCE = (
    "This table was held out while the planner was made, and was replayed once, when nothing was left to be "
    "changed; the other tables are on [a page of their own](planner.md). Nothing that is changed after this "
    "can be proved on it."
)
NOT_HERE = (
    "The table of Qwen3.5-4B's shape (`h200-4b.csv`) was held out: it is not among these, and was replayed "
    "once, afterwards ([what came of it](planner-held-out.md))."
)
"""What is said of the table that is held out, on its own page and on that of the others."""


def page(parts: Sequence[Part], made: Made) -> str:
    """The page of all tables."""
    answers = {part.name: answers_of(part) for part in parts}
    outcomes = {part.name: part.outcomes for part in parts}
    words, held = answer(together(outcomes))
    running = sum(row.latency is not None for part in parts for row in part.plain.table.rows[1:])
    asked = [each for found in answers.values() for each in found.values()]
    missed = sum(not each.met for each in asked) + (not held)
    columns = [column for column in COLUMNS if any(column in found for found in answers.values())]
    reasons = [reason for part in parts for reason in reasons_of(part)]
    reasons += reasons_of_predictions(outcomes)
    sections = [
        "# What the planner is worth" + (" on the table that was held out" if made.held_out else ""),
        f"- `{made.command}`: {made.seeds} seeds, {made.trials} trials after trial 0 or all there are, "
        f"{made.processes} processes, {made.wall_s:.0f} s\n"
        f"- Made with {made.made_with.words}\n"
        "- [How tables are replayed](../replay.md), what each planner is, and how to enter another",
        paragraph(
            f"**{missed} of {len(asked) + 1} answers below miss their target.** "
            + (ONCE if made.held_out else NOT_HERE)
        ),
        *(paragraph(ABOUT[file]) for file in dict.fromkeys(part.file for part in parts)),
        "\n\n".join(f"![Regret by trials]({picture})" for picture in made.pictures),
        "## Targets",
        table(
            ("table", *columns),
            [
                (f"`{name}`", *(str(found.get(column, NOT_ASKED)) for column in columns))
                for name, found in answers.items()
            ],
        ),
        paragraph(
            f"Trials: the median seed has 95 % of the best gain in at most {MOST_TRIALS}. Cost: at most "
            f"{MOST_COST} of that of the cheapest of TPE, SMAC3 and random, in the median. Regret: the whole "
            "95 % interval of the mean difference to random lies at or below zero, in per cent of the best "
            "gain. Turned: with the labels of kernels (or of calibration corpora) turned round in every seed "
            f"the best is found within {MOST_TRIALS} trials as often; in brackets the 95 % interval of the "
            "difference in points (Newcombe's), which may not lie below zero: [what is called a "
            "miss](../replay.md#labels-turned-round). A dash: the table has too few "
            "configurations, or no two such labels."
        ),
        paragraph(f"Predictions, all tables: {words}."),
        "Why targets are missed:",
        "\n".join(f"- {reason}" for reason in reasons) or "- none is",
        "Not answered:",
        "\n".join(f"- {what}: {why}" for what, why in _open(parts, made)),
        *predictions(outcomes, made.predicting_seeds, running),
        *(section for part in parts for section in _sections(part)),
    ]
    return "\n\n".join(sections) + "\n"


TRIALS, COST, TURNED = "trials", "cost", "turned: {}"

COLUMNS = (
    TRIALS,
    COST,
    *(f"regret after {budget}" for budget in BUDGETS),
    *(TURNED.format(kind) for kind in (KERNELS, CORPORA)),
)
"""Columns of the targets."""

NOT_ASKED = "–"


def _open(parts: Sequence[Part], made: Made) -> Iterator[tuple[str, str]]:
    """Targets that the tables at hand can't answer, with the reason."""
    for kind in (KERNELS, CORPORA):
        if not any(turned.kind == kind for part in parts for turned in part.turned):
            yield (
                f"turned labels of {kind}",
                f"no table that was replayed has two {kind} whose labels may turn",
            )
    for part in parts:
        for turned in part.turned:
            if not turned.touches_best:
                yield (
                    f"`{part.name}`, turned labels of {turned.kind}",
                    "the best row has none of them, so that its figure tells only that what surrounds it may "
                    "be turned",
                )
    for rival in RIVALS:
        without = [f"`{part.name}`" for part in parts if rival not in part.plain.courses]
        if without:
            yield (
                f"cost beside {rival} of {', '.join(without)}",
                f"{rival} was not run, so that the figure is against the cheapest of the others alone",
            )
    if made.not_replayed:
        names = ", ".join(f"`{name}`" for name in made.not_replayed)
        yield names, "not replayed in this run; `make planner` replays all"


def answers_of(part: Part) -> dict[str, Answer]:
    """What was measured of each target on one table, by column."""
    scores = {score.planner: score for score in part.plain.scores}
    own = scores[OWN]
    near, cheapest = own.reaching[0], _cheapest(scores)
    found = {TRIALS: Answer(_number(near.trials), near.trials <= MOST_TRIALS)}
    rival = scores[cheapest].reaching[0]
    absent = "".join(f", {name} not run" for name in RIVALS if name not in scores)
    if math.isfinite(rival.cost_s):
        ratio = near.cost_s / rival.cost_s
        words = f"{ratio:.2f} of {cheapest}" if math.isfinite(ratio) else f"{cheapest} alone got there"
        found[COST] = Answer(words + absent, ratio <= MOST_COST)
    else:
        found[COST] = Answer(f"no rival got there{absent}", math.isfinite(near.cost_s))
    for each in own.differences:
        found[f"regret after {each.budget}"] = Answer(interval(each), each.high <= 0)
    before = _found(part.plain)
    for turned in part.turned:
        after = _found(turned.found)
        low, high = less(after, before)
        found[TURNED.format(turned.kind)] = Answer(
            f"{after.count} of {after.of}, unturned {before.count}{_margin(before)} "
            f"[{_points(low)}, {_points(high)}]",
            high >= 0,
        )
    return found


def most_missed(unturned: Share) -> int | None:
    """The largest count, of as many seeds, that is called a miss beside this one; None where none is low
    enough. It is known before the labels are turned."""
    counts = range(unturned.count, -1, -1)
    return next((k for k in counts if less(Share(k, unturned.of), unturned)[1] < 0), None)


def _margin(unturned: Share) -> str:
    most = most_missed(unturned)
    return "" if most is None else f", a miss up to {most}"


def _cheapest(scores: Mapping[str, Score]) -> str:
    """The rival with the least cost to 95 % of the best gain."""
    return min((name for name in RIVALS if name in scores), key=lambda name: scores[name].reaching[0].cost_s)


def reasons_of(part: Part) -> Iterator[str]:
    """What the figures say of each target that a table misses: at least a sentence for each."""
    found, answers = part.plain, answers_of(part)
    scores = {score.planner: score for score in found.scores}
    own = scores[OWN]
    near, cheapest = own.reaching[0], _cheapest(scores)
    rival = scores[cheapest].reaching[0]
    others = len(found.table.rows) - 1
    if not all(answer.met for answer in answers.values()):
        yield f"`{part.name}`, whatever is missed: {_told_apart(found.table)}"
    if not answers[TRIALS].met:
        yield f"`{part.name}`, trials: {_not_found(found)}"
    if not answers[COST].met and not math.isfinite(rival.cost_s):
        yield f"`{part.name}`, cost: nobody has 95 % in half of the seeds; there is nothing to compare"
    if not answers[COST].met and math.isfinite(rival.cost_s):
        trial_s = fmean(row.run_s for row in found.table.rows[1:])
        allowed_s = MOST_COST * rival.cost_s
        yield (
            f"`{part.name}`, cost: {_cost(near)}, {cheapest} "
            f"{rival.cost_s:.0f} s in {rival.trials:g}. A trial takes {trial_s:.0f} s in the mean besides "
            f"builds, so that {allowed_s / trial_s:.1f} trials without any would meet it; {_good_rows(found)}"
        )
    for k, each in enumerate(own.differences):
        what = f"`{part.name}`, regret after {each.budget}"
        if each.low <= 0 < each.high and each.budget >= NEARLY_ALL * others:
            yield (
                f"{what} of {others} trials: all have seen nearly all; what is left is which of the "
                "near-equal the noise makes the judged best"
            )
        elif each.low <= 0 < each.high:
            yield f"{what}: not told apart from random. {_ablations(scores, k)}"
        elif each.low > 0:
            yield f"{what}: worse than random. {_ablations(scores, k)}"
    for turned in part.turned:
        what = TURNED.format(turned.kind)
        if not answers[what].met:
            yield f"`{part.name}`, {what}: fewer than chance explains, so that something in it knows a label"


def _not_found(found: Replayed) -> str:
    """Of the seeds that have no 95 % in time, how many never tried a row that has, and how many took another
    for the best."""
    good = {row.configuration.digest for row in _good(found.table)}
    late = [course for course in found.courses[OWN] if not _in_time(course)]
    tried = sum(any(step.measured in good for step in course.steps[: MOST_TRIALS + 1]) for course in late)
    return (
        f"{len(late)} of {len(found.courses[OWN])} seeds don't have 95 % after {MOST_TRIALS}. In {tried} of "
        f"them a row that has was tried, and another one taken for the best by the samples that were drawn; "
        f"in {len(late) - tried} none was tried of {len(good)}"
    )


def _told_apart(table: Table) -> str:
    """How many rows the table's own samples can't tell from its best one."""
    best = table.best.latency
    others = [row.latency for row in table.rows[1:] if row is not table.best and table.is_acceptable(row)]
    alike = sum(
        each is not None
        and best is not None
        and each.centre_ms - best.centre_ms < ALIKE_SE * math.hypot(each.error_ms, best.error_ms)
        for each in others
    )
    return (
        f"by {ALIKE_SE:g} standard errors of its noise the best row is not told from {alike} of "
        f"{len(others)} others that keep the quality"
    )


def _good_rows(found: Replayed) -> str:
    """How few rows are good enough, and what the cheapest of them takes by itself."""
    there = {build.name for build in found.table.rows[0].builds}
    costs = sorted(row.cost_s(there) for row in _good(found.table))
    if len(costs) == 1:
        return f"one row has 95 %, and takes {costs[0]:.0f} s by itself"
    return f"{len(costs)} rows have 95 %, which take {costs[0]:.0f} to {costs[-1]:.0f} s by themselves"


def _good(table: Table) -> list[Row]:
    """The rows that have 95 % of the best gain and keep the quality."""
    return [
        row
        for row in table.rows
        if row.latency is not None
        and table.is_acceptable(row)
        and table.gain_of(row.latency.centre_ms) >= SHARES[0]
    ]


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
        words += " So there learning misleads"
    return words


def _found(replayed: Replayed) -> Share:
    """In how many seeds our planner had 95 % of the best gain in time."""
    courses = replayed.courses[OWN]
    return Share(sum(map(_in_time, courses)), len(courses))


def _in_time(course: Course) -> bool:
    """Whether it had 95 % of the best gain within `MOST_TRIALS`."""
    step = course.reached(SHARES[0])
    return step is not None and step.trial <= MOST_TRIALS


def _sections(part: Part) -> Iterator[str]:
    found = part.plain
    best = found.table.rows[0].configuration.changes_to(found.table.best.configuration)
    changed = ", ".join(f"`{change.knob}={change.after}`" for change in best if change.before != change.after
                        and change.after is not None)  # fmt: skip
    yield f"## {part.name}"
    options = " ".join(filter(None, (part.options, f"--seeds {found.asked.seeds}")))
    yield f"`autoinfer replay docs/results/tables/{part.file} {options}`"
    yield paragraph(
        f"{len(found.table.rows)} configurations; trial 0 takes {found.table.baseline_ms:.2f} ms "
        f"({found.table.metric}), the best {found.table.best_ms:.2f} ms, with {changed}. "
        + " ".join((*found.table.left_out, _noise(found.table)))
    )
    if found.missing:
        yield "\n".join(f"- Not run: {name}. {why}" for name, why in found.missing.items())
    yield table(HEAD, rows(found.scores, found.missing))
    yield "Mean regret less random's, % of the best gain, with its 95 % interval; below 0 is better:"
    yield table(difference_columns(found.scores), difference_rows(found.scores))


def _noise(table: Table) -> str:
    """How far samples of a row differ, and how far beside what requests differ by in all rows alike."""
    ran = [row.latency for row in table.rows if row.latency is not None]
    spread = median(each.sd_ms / each.centre_ms for each in ran)
    words = f"Samples of a row differ by {percent(spread)} (standard deviation)"
    if any(each.requests is None for each in ran):
        return f"{words}."
    noise = median(each.error_ms / each.centre_ms * math.sqrt(each.count) for each in ran)
    return f"{words}, and by {percent(noise)} beside what requests differ by in all rows alike."


def _number(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "not by half the seeds"


def _cost(near: Reaching) -> str:
    return f"{near.cost_s:.0f} s in {near.trials:g} trials" if math.isfinite(near.cost_s) else "not reached"


def _points(share: float) -> str:
    return f"{100 * share:+.0f}".replace("-", "−")


def _named(name: str, found: Outcomes) -> Outcomes:
    return {(name, digest): outcomes for (_, digest), outcomes in found.items()}
