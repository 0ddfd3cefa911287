"""The page of the surrogate's proof, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.proofs.counting import Share
from tests.proofs.markdown import paragraph, table

FIRST = 5
"""Trials that count as the first: what is carried over and what physics says matters there."""

TABLES = 2
"""Groups that are tables; those after are parts of them."""

HEAD = (
    "surrogate",
    "outcomes",
    "inside 80 %",
    "with noise",
    "CRPS",
    f"first {FIRST}: inside",
    "CRPS",
    "mean sd",
)


@dataclass(frozen=True)
class Scored:
    """What predictions of a variant are worth.

    Of so many `outcomes` an order, the share inside the 80 % interval, the same widened by each outcome's own
    standard error (`noise_inside`), and the mean CRPS; share and CRPS of the first `FIRST` of each order; the
    mean standard deviation; the Brier score of the chance to run, with how many did not.
    """

    name: str
    outcomes: int
    inside: float
    noise_inside: float
    crps: float
    early_inside: float
    early_crps: float
    sd_log: float
    brier: float
    failed: int

    @property
    def share(self) -> Share:
        """The share inside as a count of one order's outcomes, for its binomial interval."""
        return Share(round(self.inside * self.outcomes), self.outcomes)


@dataclass(frozen=True)
class Group:
    """A table, or the workloads of one, with every variant on it; the first is the surrogate as it is, the
    last its prior alone."""

    name: str
    variants: tuple[Scored, ...]


def page(groups: Sequence[Group], carried: Sequence[Scored], command: str, orders: int, wall_s: float) -> str:
    """The page."""
    whole = [group.variants[0] for group in groups[:TABLES]]
    outcomes = sum(each.outcomes for each in whole)
    together = Share(round(sum(each.inside * each.outcomes for each in whole)), outcomes)
    noisy = Share(round(sum(each.noise_inside * each.outcomes for each in whole)), outcomes)
    sections = [
        "# What the surrogate's predictions are worth",
        f"- `{command}`: {orders} orders, {wall_s:.0f} s\n"
        "- [How the queue is ordered](../ranking.md) says what is believed, and why",
        paragraph(
            f"**Of {outcomes} outcomes {_bounded(together)} lie inside the 80 % interval that was said "
            f"before, by the exact binomial; {_bounded(noisy)} where the error is in it with which each was "
            "measured.** Wanted are 75 to 85 % of at least 250. Every configuration of "
            "a table is tried once, in orders drawn at random, against the best before it; a prediction "
            "knows the trials before it and none after, and its interval is the one that a user is shown, "
            "without the noise of what is measured; under `with noise` it is widened by the standard error "
            "of each outcome, within its launches. Figures are means over all orders. Of the reference "
            "engine times are those over the control that was measured beside, as a campaign judges them: "
            "its machine was not equally fast in all sessions. The binomial takes"
            " the outcomes of one order for independent, which those of one configuration under several "
            "workloads are not: the interval is too narrow. The planner's own page scores the same in the "
            "order in which it tries them ([planner](planner.md))."
        ),
        paragraph(
            "How it was chosen: parts of a step, one unknown for each thing that acts on one, and a scale "
            "that is learnt were reasoned out, by somebody who had seen the times and profiles of the H200 "
            "table, on which learning had been found to mislead: for that table these are no predictions of "
            "somebody who knew nothing. Predictions were then looked at on half of the reference table's "
            "rows (even digests), where it was seen that the costs of a drafter's tokens, its acceptance and"
            " a pass's growth are unknowns of their own, and that `DRAFTING_SD_LOG` was too small. On the "
            "kernels of the recorded H200 profile (`tests/unit/agent/test_permuted_kernels.py`) it was seen "
            "that text of calibration moves no kernel. `TOGETHER_SHARE` and `SCALE_COUNT` were stated and "
            "kept: below is what others would have given. All that was with 90 of the reference table's "
            "rows; when all 167 were measured, the same half of them was looked at again, which told that "
            "the machine was slower in the later batches and that some outcomes are themselves known to 10 % "
            "alone. Times over the control, and the column with noise, came of that. An unknown for each "
            "pair of settings beside that for the pair of levers was left out for time, not for these "
            "figures."
        ),
        paragraph(
            "Three things were looked at with both tables whole. *What launches differ by* "
            "(`LAUNCHES_SD_LOG`): of a ratio open by 0.02 (none), 0.04, 0.06 and 0.1 in all, 0.04 has the "
            "best likelihood of the reference table and of the H200 at short prompts, and at prompts of "
            "3,840 tokens one within 0.001 of the best; it is in the "
            "interval, not in the gain that the ranking reckons with. *The chance to run*: one setting in "
            "fifty fails, by the failures of both tables; before, one in five to twenty was said, with a "
            "Brier score of 0.091 and 0.033 on the two. Whoever measured a table left out what they knew "
            "would fail, so the tables flatter it. *Kernels beside the step*: more open for each kernel "
            "(0.45 in place of 0.3) and less for packing (0.15) had a better CRPS at long and at short "
            "prompts alike (0.071 in place of 0.073, and 0.0529 of 0.0531) and a slightly worse "
            "likelihood, and was not taken. The table of Qwen3.5-4B's shape was neither read nor "
            "replayed."
        ),
        paragraph(
            "On 25 November 2026, with both tables seen: products of 8-bit weights were open by 0.5 on the "
            "log scale and are by 0.3, as one kernel is beside another; replays had shown that this width "
            "alone put them before kernels of which more was expected. Less for packing beside the step "
            "(0.15) was tried once more, in replays; it gained nothing and was not taken. And since that day "
            "what requests have in common is no noise of a trial ([what is "
            "drawn](../replay.md#what-is-drawn)), so that outcomes are known better than on earlier pages."
        ),
        paragraph(
            "On 30 November 2026, after a campaign on a Mixture of Experts: the rest of a step is open "
            "too, and sums of parts are linear where profiles told these to be "
            "([by part](../ranking.md#by-part-of-the-step)). How much is open of it was stated with the "
            "profiles of the H200 and H100 tables seen, those of Qwen3.5-4B's shape too, before any table "
            "was replayed, and kept. Over all 104 outcomes of the H200 table below the CRPS was 0.0494 "
            "before and is 0.0500, since intervals are wider; of the table of one H100 (56 outcomes, all "
            "workloads) it was 0.0635 and is 0.0622, and of the H200's over HTTP (303, three orders) 0.173 "
            "and 0.171."
        ),
        paragraph(
            "That neighbouring values of an ordered knob resemble each other, adjacent ones with a "
            "correlation of 0.7 (`ADJACENT`), was stated before any table was replayed with it. No other "
            "correlation was looked at than that and none, which is what was before and is below."
        ),
    ]
    for group in groups:
        first = group.variants[0]
        last = group.variants[-1]
        sections += [
            f"## {group.name}",
            table(HEAD, [_row(each) for each in group.variants]),
            paragraph(
                f"Inside: {first.share}. CRPS, of the log of the ratio, is "
                f"{100 * first.crps / last.crps:.0f} % of the prior's alone. The chance to run has a Brier "
                f"score of {first.brier:.3f}, the prior's {last.brier:.3f}; {first.failed} of "
                f"{first.outcomes + first.failed} did not run."
            ),
        ]
    sections += [
        "## Carried over",
        paragraph(
            "The seven other workloads of the H200 table, with the outcomes of its first one carried over as "
            "those of another campaign on the same hardware, engine and model, under another workload. They "
            "are not other campaigns: the same launches served all workloads, so this says what another "
            "workload is worth, and nothing of another day."
        ),
        table(HEAD, [_row(each) for each in carried]),
    ]
    return "\n\n".join(sections) + "\n"


def _bounded(share: Share) -> str:
    low, high = share.bounds()
    return f"{100 * share.value:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


def _row(each: Scored) -> tuple[str, ...]:
    return (
        each.name,
        str(each.outcomes),
        f"{100 * each.inside:.0f} %",
        f"{100 * each.noise_inside:.0f} %",
        f"{each.crps:.3f}",
        f"{100 * each.early_inside:.0f} %",
        f"{each.early_crps:.3f}",
        f"{each.sd_log:.3f}",
    )
