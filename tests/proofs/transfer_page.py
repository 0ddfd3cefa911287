"""The page of transfer: docs/results/transfer.md. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agent.surrogate.averaged import BELIEVED, LEAST_BELIEVED
from tests.proofs.markdown import paragraph, point, table
from tests.proofs.transfer_real_words import on_the_real_engine

WANTED = 0.6
"""Trials with knowledge over trials without, at most."""

SILENT = "silent"
"""What is no poison, but what the poisons leave: a comparison without a target."""

DRAWS = 2000
"""Of the bootstrap."""


@dataclass(frozen=True)
class Ran:
    """A campaign: trials and seconds to the share of the best gain that is looked for, or all that it had;
    whether it got there; the share of the best gain that was missing before each of its first trials, added
    up; and the weight of what was carried before each trial."""

    trials: int
    cost_s: float
    reached: bool
    missing: float
    weights: tuple[float, ...]


Runs = Mapping[tuple[str, str, int], tuple[str, Ran, Ran]]
"""By pair, what was told and seed: the kind of the pair, without knowledge, and with it."""

Both = tuple[Ran, Ran]


def how_it_ran(command: str, seeds: int, processes: int, wall_s: float, reused: int) -> str:
    """The command and what it took, for the head of a page; where files lie is nobody else's concern."""
    plain = re.sub(r" --(runs|output)[ =]\S+", "", command)
    return (
        f"`{plain}`: {seeds} seeds, {processes} processes, {wall_s:.0f} s, with {reused} runs that were kept "
        "of calls that were cut off"
    )


def page(
    ran: Runs,
    how: str,
    first: int,
    trials: int,
    sizes: Mapping[str, int],
    yardsticks: Sequence[Sequence[str]] = ((), ()),
    held_out: Runs | None = None,
) -> str:
    """The page, with its verdicts; those of `held_out` in a section of their own, where there are any.
    `yardsticks` are paragraphs for either section, beside its true knowledge."""
    told = list(dict.fromkeys(key[1] for key in ran))
    rows, poisoned = rows_of(ran)
    missed, answers = missed_of(rows, poisoned)
    neither = len({(pair, seed) for (pair, _, seed), (_, one, other) in ran.items() if _neither(one, other)})
    whole = [(without, with_) for (_, each, _), (_, without, with_) in ran.items() if each == told[0]]
    counts: dict[str, int | str] = {
        "missed": missed,
        "answers": answers,
        "first": first,
        "trials": trials,
        "neither": neither,
        "runs": len({(key[0], key[2]) for key in ran}),
        "counted": f"{ratio_of_trials(whole):.2f}",
        "believed": f"{100 * BELIEVED:g} %",
        "least": f"{100 * LEAST_BELIEVED:g} %",
    }
    apart: list[str] = []
    if held_out:
        rows_apart, poisoned_apart = rows_of(held_out)
        missed_apart, answers_apart = missed_of(rows_apart, poisoned_apart)
        apart = [
            "## The table that was held out",
            prose(_APART, {"missed": missed_apart, "answers": answers_apart}),
            table(TRUE_COLUMNS, rows_apart),
            *yardsticks[1],
            table(POISONED_COLUMNS, poisoned_apart),
        ]
    parts = [
        "# What a campaign gains from another's findings",
        f"- {how}\n"
        "- [How outcomes are carried over](../ranking.md#what-other-campaigns-measured), "
        "[how tables are replayed](../replay.md)",
        prose(_HELD_OUT, counts),
        prose(_HOW, counts),
        prose(_CHOSEN, counts),
        "\n".join(
            [
                *(point(" ".join(each.split())) for each in _ABOUT),
                "- Rows: " + ", ".join(f"`{name}` {count}" for name, count in sizes.items()) + ".",
            ]
        ),
        "## True knowledge",
        f"Wanted: at most {WANTED} of the trials without, by the point estimate.",
        table(TRUE_COLUMNS, rows),
        *yardsticks[0],
        "## Poisoned knowledge",
        prose(POISONS, counts),
        table(POISONED_COLUMNS, poisoned),
        prose(_READ, counts),
        prose(_DISCOUNT, counts),
        *apart,
        *on_the_real_engine(),
        "## Pair by pair",
        "Mean trials to 95 % of the best gain.",
        table(("pair", "without", *told), pair_rows({**ran, **(held_out or {})}, told)),
    ]
    return "\n\n".join(parts) + "\n"


def rows_of(ran: Runs) -> tuple[list[list[str]], list[list[str]]]:
    """The rows of true and of poisoned knowledge, by kind and of all together."""
    kinds = list(dict.fromkeys(kind for kind, _, _ in ran.values()))
    groups = [(kind, (kind,)) for kind in kinds] + ([("all", tuple(kinds))] if len(kinds) > 1 else [])
    rows, poisoned = [], []
    for name, members in groups:
        for each in dict.fromkeys(key[1] for key in ran):
            found = by_pair(ran, members, each)
            if each == "true":
                rows.append(_true_row(name, found))
            else:
                poisoned.append(_poisoned_row(name, each, found, wanted=each != SILENT))
    return rows, poisoned


def missed_of(rows: Sequence[Sequence[str]], poisoned: Sequence[Sequence[str]]) -> tuple[int, int]:
    """How many answers miss their target, and how many there are."""
    missed = sum("**missed**" in cell for row in (*rows, *poisoned) for cell in row)
    return missed, len(rows) + sum(row[1] != SILENT for row in poisoned)


def prose(text: str, counts: Mapping[str, object]) -> str:
    """A paragraph with these figures in their places."""
    return paragraph(" ".join(text.format(**counts).split()))


_HELD_OUT = """**{missed} of {answers} answers below miss their target.** The table of Qwen3.5-4B's shape
(`h200-4b.csv`) was held out and is not among these; `--held-out` measures on it too."""

_APART = """From one workload of the H200's table of Qwen3.5-4B's shape to another, as above of
Qwen3.5-9B's. **{missed} of {answers} answers miss their target.** Nothing was chosen by these figures: they
were looked at on 26 November 2026, after the last choice that bears on them, and again on the 27th, when
acceptance of drafts had got its rule, of which nothing is told here. An earlier form, in which the factor
of physics' spreads was learnt without a bound, had been measured here before, with two seeds: huge claims
of all other workloads cost +0.31 trials, which led to the bound, so that `huge` is no test of it here.
Before claims were held against those the wrong way round, `turned` came out at +0.35, +0.85 and +1.10
trials (ten seeds: concurrency, prompt length, all other workloads; +0.60 in all). Turned claims are still
believed where they come from 64 requests at once: what was measured there fits physics as well turned as it
stands. True knowledge saves less here than of the other shape: there are 8 rows to a workload, and where
few are served at once weights of 4 bits are best, which at 64, and at 16 with long prompts, are not among
the best three."""

_HOW = """A first campaign is {first} trials of the planner `ours` on one ground; a second one is the
same planner on another, with at most {trials} trials, that begins with the first one's outcomes and,
as one change, with what that found best ([as a campaign
does](../proposers.md#what-another-campaign-found-best)).
Looked for is 95 % of the best gain; who does not get there counts with all trials that there are and
one more. Of runs in which neither gets there ({neither} of {runs}, by any of what was told) nothing is
counted. Intervals of 95 % are of a bootstrap over pairs, each with all its seeds;
pairs share tables, so they are narrower than they should be."""

_CHOSEN = """**Not a test on tables that nobody had seen.** The weight at which what is carried begins
({believed}, `BELIEVED`) and the least of it ({least}, `LEAST_BELIEVED`; 2 % at first), both in
`agent/surrogate/averaged.py`, were chosen on these same tables. That claims may be the wrong way round, and
that physics' spreads may be off by a factor of two, was decided after earlier runs had been seen, in which
turned effects of another model were found out too late (+0.60 trials) and true knowledge of other rows was
believed by half. So `turned` is no poison that nobody thought of; `shuffled` was added with that decision.
That spreads may be too wide as well as too narrow was decided with the weights before trial 1 of two seeds
in sight: too narrow alone, and shuffled claims of another concurrency would begin at 33 % in place of 13 %.
That nothing is counted of runs in which neither gets there was decided after a first run had been seen;
with them the ratio of trials of all pairs would be {counted}. Until 27 November 2026 all poisons told the
truth of what was accepted of drafts, and so did `silent`: of another model that alone cost +0.10 trials,
which stood here as the cost of knowing what runs. With false acceptance, turned and huge claims of another
model came out at +0.10 and +0.07 (ten seeds, neither interval with zero); then it was decided that who is
hardly believed in times begins as little believed in acceptance. Only the reference engine's grounds draft
(**model** and **rows**)."""

_ABOUT = (
    """**concurrency**, **prompt length**: the H200's table of Qwen3.5-9B's shape, from one workload to
    another; **all other workloads**: from the seven others at once. The same launches served all
    workloads, so this says what another workload is worth, and nothing of another day or device.""",
    """**model**: the reference engine's packaged model and variants of it with one and two layers pruned,
    each as a model of its own that nobody prunes; **rows**: each half of the table's rows after the other
    half, so that no configuration is the same.""",
    """What is carried to [another card](transfer-hardware.md) has a page of its own, and so has
    [a later table](transfer-launches.md) of this shape, in which each row was launched twice.""",
)

POISONS = """**turned**: every effect, and every loss of quality, has the other sign, and of first draft
tokens as many are told to be accepted as were not; **huge**: of every effect is claimed that it is ten times
as fast or as slow, drawn for each configuration, pair and seed, and that all drafts, or none, are accepted;
**shuffled**: effects, losses of quality and acceptance that were measured there, each told of another
configuration. Verdicts go with what is claimed, and so does what is told as best. Profiles of steps, which
would give the lie away, are left out. What ran, what did not and what it cost stay true in all three;
**silent** is that and no more, no poison but what the poisons are compared with, without a target. Wanted:
not worse than without, that is, no interval of the difference in trials lies wholly above zero. Missing gain:
the share of the best gain that is still missing, added up over ten trials; below 0 is better than without."""

_READ = """An interval that holds zero shows no harm and excludes none. `silent` is no poison and moves the
order all the same: who knows that all of it ran expects what changes several settings at once to run, tries
it sooner, and finds it among the best of these tables. `huge` comes out as `silent` does: claims so far
from what physics allows are weighed and not predicted from. Turned claims lie within what physics allows,
each by itself; all together the wrong way round explains them better, so that most are not predicted from
either. Where what was measured fits physics as well turned as it stands (from `9b-c64-p3840`), only
outcomes here find them out, and so it is with shuffled claims that agree with physics by chance. Before
claims were held against those the wrong way round, with spreads as they are stated, `turned` came out at
+0.38 trials in all and at +0.60 of another model, and true knowledge of other rows at a ratio of 0.77 (ten
seeds). At many long prompts (`9b-c16-p3840`, `9b-c64-p3840`) what is best turns over, and true knowledge of
other workloads misleads there at first. Since 25 November 2026 what requests have in common is no noise of
a trial ([what is drawn](../replay.md#what-is-drawn)): without knowledge the best is found in fewer trials
than on earlier pages, which leaves knowledge less to save."""

_DISCOUNT = """How much is discounted for another workload is not what misleads there. With a share
(`DIFFERENT_SHARE`) of 0.25, 0.5, 1 and 4 (which leaves hardly anything of a claim) **concurrency** came out
at 0.71, 0.71, 0.73 and 0.79 (one seed; at 0.5 three), and at 0.25 and 1 the three pairs that mislead most
at 0.5 still do; with no such discount on the parts of the profiled step, which physics takes to be the same
at any workload, at 0.71 (three); all of it before the last change of what is believed at first, which left
these pairs as they were. What is bound by arithmetic is a part of the step of its own there
already. Two pairs of 24 make up what is missing: `fp8` is far better at `9b-c16-p3840` than at both its
neighbours, and at `9b-c64-p512` three changes were expected to do the same but for 2 %, of which the one
that was best elsewhere is slower than trial 0. The discount was left as it was."""

TRUE_COLUMNS = (
    "what differs",
    "pairs",
    "trials without",
    "with",
    "ratio",
    "seconds without",
    "with",
    "ratio",
    "got there without",
    "with",
    "weight before trial 1",
    "before trial 4",
)

POISONED_COLUMNS = (
    "what differs",
    "poison",
    "trials without",
    "with",
    "difference",
    "seconds: ratio",
    "missing gain: difference",
    "weight before trial 1",
    "before trial 4",
)


def _neither(without: Ran, with_: Ran) -> bool:
    return not without.reached and not with_.reached


def by_pair(ran: Runs, kinds: Sequence[str], told: str) -> list[list[Both]]:
    """The runs of these kinds by pair."""
    found: dict[str, list[Both]] = {}
    for (pair, what, _), (kind, without, with_) in ran.items():
        if kind in kinds and what == told and not _neither(without, with_):
            found.setdefault(pair, []).append((without, with_))
    return list(found.values())


def interval(
    pairs: Sequence[Sequence[Both]], figure: Callable[[Sequence[Both]], float]
) -> tuple[float, float]:
    """The 95 % interval of a figure of all runs, by a bootstrap over pairs."""
    drawn = random.Random(0)
    found = sorted(
        figure([both for each in drawn.choices(pairs, k=len(pairs)) for both in each]) for _ in range(DRAWS)
    )
    return found[int(0.025 * DRAWS)], found[int(0.975 * DRAWS) - 1]


def ratio_of_trials(runs: Sequence[Both]) -> float:
    """Trials with knowledge over trials without, of all runs together."""
    return sum(with_.trials for _, with_ in runs) / sum(without.trials for without, _ in runs)


def ratio_of_seconds(runs: Sequence[Both]) -> float:
    """The same of seconds."""
    return sum(with_.cost_s for _, with_ in runs) / sum(without.cost_s for without, _ in runs)


def more_trials(runs: Sequence[Both]) -> float:
    """Mean trials with knowledge less those without."""
    return fmean(with_.trials - without.trials for without, with_ in runs)


def more_missing(runs: Sequence[Both]) -> float:
    """Mean missing gain with knowledge less that without."""
    return fmean(with_.missing - without.missing for without, with_ in runs)


def _true_row(kind: str, pairs: Sequence[Sequence[Both]]) -> list[str]:
    runs = [both for each in pairs for both in each]
    ratio = ratio_of_trials(runs)
    return [
        kind,
        str(len(pairs)),
        f"{fmean(each.trials for each, _ in runs):.2f}",
        f"{fmean(each.trials for _, each in runs):.2f}",
        _with(pairs, ratio_of_trials) + ("" if ratio <= WANTED else " **missed**"),
        f"{fmean(each.cost_s for each, _ in runs):.0f}",
        f"{fmean(each.cost_s for _, each in runs):.0f}",
        _with(pairs, ratio_of_seconds),
        f"{sum(each.reached for each, _ in runs)}/{len(runs)}",
        f"{sum(each.reached for _, each in runs)}/{len(runs)}",
        *_weights(runs),
    ]


def _poisoned_row(kind: str, poison: str, pairs: Sequence[Sequence[Both]], *, wanted: bool) -> list[str]:
    runs = [both for each in pairs for both in each]
    low, _ = interval(pairs, more_trials)
    return [
        kind,
        poison,
        f"{fmean(each.trials for each, _ in runs):.2f}",
        f"{fmean(each.trials for _, each in runs):.2f}",
        _with(pairs, more_trials, signed=True) + (" **missed**" if wanted and low > 0 else ""),
        _with(pairs, ratio_of_seconds),
        _with(pairs, more_missing, signed=True),
        *_weights(runs),
    ]


def _with(
    pairs: Sequence[Sequence[Both]], figure: Callable[[Sequence[Both]], float], *, signed: bool = False
) -> str:
    low, high = interval(pairs, figure)
    sign = "+" if signed else ""
    value = figure([both for each in pairs for both in each])
    return f"{value:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]".replace("-", "−")


def _weights(runs: Sequence[Both]) -> list[str]:
    found = []
    for place in (0, 3):
        there = [each.weights[place] for _, each in runs if len(each.weights) > place]
        found.append(f"{100 * fmean(there):.0f} %" if there else "–")
    return found


def pair_rows(ran: Runs, told: Sequence[str]) -> list[list[str]]:
    """Each pair with its mean trials without knowledge and with each of what was told."""
    rows = []
    for pair in dict.fromkeys(key[0] for key in ran):
        seeds = [key[2] for key in ran if key[:2] == (pair, told[0])]
        without = fmean(ran[pair, told[0], seed][1].trials for seed in seeds)
        with_ = [fmean(ran[pair, each, seed][2].trials for seed in seeds) for each in told]
        rows.append([pair, *(f"{each:.1f}" for each in (without, *with_))])
    return rows
