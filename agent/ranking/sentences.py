"""Why a hypothesis stands where it stands, in a sentence that a person understands. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agent.ranking.sharing import Shared
from agent.ranking.values import DISPUTE_EVERY, Beside, Candidate, Directive, Used
from configs.quantities import format_duration, format_usd
from db.labels import Noun, format_label
from db.states import DirectiveKind
from knowledge.acts.allowances import Allowance
from knowledge.figures import metric_word

Z_80 = 1.2816
"""Half width of the 80 % interval of a normal, in standard deviations: what a range in brackets shows."""

LEAST_GAIN = 1e-4
"""Gains below, as shares of the metric, are next to nothing and not told apart."""

LEAST_CHANCE = 0.01
"""Chances below are not told apart."""

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)


def ordinal(place: int) -> str:
    """A place in words up to tenth, then 11th, 12th …"""
    if place <= len(ORDINALS):
        return ORDINALS[place - 1]
    suffix = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{suffix}"


def place_reason(
    place: int,
    candidate: Candidate,
    saved: tuple[int, int, int],
    steered: str,
    pin: tuple[int, Directive | None] | None,
    ban: Directive | None,
    hand: Directive | None = None,
) -> str:
    """Such as: third: could save 8 % [2, 14], quality held with P 0.60, runs with P 0.95, 70 s.

    `steered` is what cites the directives that multiply its score.
    """
    start = "paused" if ban is not None else ordinal(place)
    asked = "asked by the campaign; " if candidate.asked else ""
    if candidate.separates is not None:
        asked = f"{_stands(candidate)}; "
    if candidate.takes_apart:
        findings = " and ".join(candidate.takes_apart)
        asked = f"takes the dispute of {findings} apart, one test in {DISPUTE_EVERY}; "
    if candidate.settles is not None:
        own = candidate.settles == format_label(Noun.HYPOTHESIS, candidate.hypothesis_id)
        night = "the question of the night"
        asked = f"{night}; " if own else f"settles {candidate.settles}, {night}, and {asked}"
    words = f"{start}: {asked}{_belief(candidate, saved)}"
    if ban is not None:
        also = ", although it is pinned" if pin is not None else ""
        words += f"; the lever {ban.lever} is banned {ban.cited()}{also}"
    elif pin is not None:
        words += f"; pinned {pin[1].cited()}" if pin[1] is not None else "; pinned when it was enqueued"
    if hand is not None:
        words += f"; moved here {hand.cited()}"
    return words + steered


def steered_reason(cited: Sequence[Directive], factor: float) -> str:
    """The part of a reason that cites what multiplies a score; empty where nothing does."""
    if not cited:
        return ""
    given = ", ".join(f"{_VERBS[each.kind]} {each.lever} {each.cited()}" for each in cited)
    return f"; its score is multiplied by {factor:g}: {given}"


def question_reason(question: Directive) -> str:
    """The end of a reason, of what settles the question of the night."""
    return f"; put before all else {question.cited()}"


def allotment_reason(
    cap: Directive | None, early: Directive | None, reserve: Directive | None, used: Used
) -> str:
    """The end of a reason, of what a cap holds back or lets come only after others, or a minimum share
    brings forward; `used` is what they count from."""
    words = ""
    if cap is not None:
        words += f"; held back by the cap of {_allowed(cap)} on {cap.lever} {cap.cited()}{_so_far(cap, used)}"
    elif early is not None:
        words += f"; others come first by the cap of {_allowed(early)} on {early.lever} {early.cited()}"
        words += _so_far(early, used)
    if reserve is not None:
        words += f"; stands here for the {_allowed(reserve)} that are kept for {reserve.lever} "
        words += f"{reserve.cited()}{_so_far(reserve, used)}"
    return words


def _allowed(directive: Directive) -> str:
    return Allowance(directive.tests, directive.time_s, directive.share).words


def _so_far(directive: Directive, used: Used) -> str:
    lever = directive.lever or ""
    if directive.time_s is not None:
        return f", {format_duration(used.seconds_of.get(lever, 0.0))} of which are used"
    return f", with {used.of_lever.get(lever, 0)} of {used.tests} tests so far"


def beside_reason(beside: Beside) -> str:
    """The end of a reason, of what is counted on top of a test under way."""
    saves = -100 * math.expm1(beside.expected_log)
    return f"; counted on top of {beside.hypothesis}, under test on the same lever, for {saves:.0f} %"


def sharing_reason(shared: Shared) -> str:
    """The end of a reason, of what builds what others use too."""
    if round(shared.spared_s) < 1:
        return ""
    others = "another" if shared.others == 1 else f"{shared.others} others"
    built, own = format_duration(round(shared.builds_s)), format_duration(round(shared.own_s))
    return f"; {built} of it build what {others} in the queue can use too, and count as {own}"


def price_reason(usd: float, gain: float) -> str:
    """The end of a reason on a target that costs dollars: the expected price, and what each per cent of the
    expected gain, a share, costs by it."""
    words = f"; expected to cost {format_usd(usd)}"
    return (
        words
        if gain < LEAST_GAIN
        else f"{words}, {format_usd(usd / (100 * gain))} a per cent of expected gain"
    )


def approval_reason(cost_s: float, approve_above_s: float, approval: Directive | None, covered: bool) -> str:
    """The end of a reason, of what costs more than the user lets the campaign spend unasked."""
    if approval is None:
        return f"; waits for approval, which is asked for above {format_duration(approve_above_s)}"
    if covered:
        return f"; approved {approval.cited()}"
    return (
        f"; waits for approval again: approved up to {format_duration(approval.up_to_s)} {approval.cited()}, "
        f"and expected to take {format_duration(round(cost_s))} by now"
    )


_VERBS = {DirectiveKind.FOCUS: "focus on", DirectiveKind.BOOST: "boost of"}


def saved_hundredths(mean: Array, sd: Array, is_share: Flags) -> list[tuple[int, int, int]]:
    """For each belief what it could save, in whole percent, or gain, in whole points, where it is of a share:
    its median, and the ends of the 80 % interval."""
    found = [
        np.rint(-100 * np.where(is_share, belief, np.expm1(belief))).astype(np.int64).tolist()
        for belief in (mean + side * sd for side in (0, Z_80, -Z_80))
    ]
    return list(zip(*found, strict=True))


def _stands(candidate: Candidate) -> str:
    """What a follow-up of a confounded test is there for, or what stands in for one that would be."""
    stands = None if candidate.stands_for is None else format_label(Noun.HYPOTHESIS, candidate.stands_for)
    if candidate.untested is not None:
        return f"makes the claim of {stands} anew, by what {candidate.separates} told"
    instead = "" if stands is None else f", in the place of {stands}"
    return f"separates the causes of {candidate.separates}{instead}"


def _points(count: int) -> str:
    return f"{count} point" if count == 1 else f"{count} points"


def _belief(candidate: Candidate, saved: tuple[int, int, int]) -> str:
    median, worst, best = saved
    if candidate.metric is not None and candidate.metric.is_share:
        word = metric_word(candidate.metric.value)
        numbers = (
            f"could gain {_points(median)} [{worst}, {best}] of {word}"
            if median >= 0
            else f"probably loses {_points(-median)} [{-best}, {-worst}] of {word}"
        )
    else:
        of = "" if candidate.metric is None else f" of {metric_word(candidate.metric.value)}"
        numbers = (
            f"could save {median} % [{worst}, {best}]{of}"
            if median >= 0
            else f"probably costs {-median} % [{-best}, {-worst}]{of}"
        )
    if worst < 0 or best < 0:  # only then can there be a minus to write as one
        numbers = numbers.replace("-", "−")
    quality = f", quality held with P {_chance(candidate.p_quality)}" if candidate.judges_quality else ""
    takes = format_duration(round(candidate.cost_s))
    return f"{numbers}{quality}, runs with P {_chance(candidate.p_feasible)}, {takes}"


def _chance(value: float) -> str:
    return "< 0.01" if value < LEAST_CHANCE else f"{value:.2f}"
