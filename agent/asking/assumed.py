"""A verdict that was not given, as users write it: `supported`, `supported:-12%`, `refuted`, `infeasible`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.campaign.known.facts import Facts, Queued
from configs.errors import UsageError
from configs.quantities import parse_percent
from configs.questions import is_latency
from db.labels import Noun, format_label
from experiments.measurement.judging import Outcome
from knowledge.figures import metric_word, signed

ASSUMED = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INFEASIBLE)
"""The outcomes that are worth assuming: the others teach little or nothing."""


@dataclass(frozen=True)
class Assumed:
    """An outcome, and the change of the metric that it comes with: −0.12 is 12 % less; None for the one that
    is believed."""

    outcome: Outcome
    change: float | None = None

    @property
    def effect_log(self) -> float | None:
        """The natural log of candidate over control."""
        return None if self.change is None else math.log1p(self.change)

    @property
    def words(self) -> str:
        """As a clause about a hypothesis."""
        match self.outcome:
            case Outcome.SUPPORTED if self.change is not None:
                return f"is supported with {signed(100 * self.change)} %"
            case Outcome.SUPPORTED:
                return "is supported, as predicted"
            case Outcome.REFUTED:
                return "is refuted, so that it changes nothing"
        return "does not run"


EACH = tuple(Assumed(outcome) for outcome in ASSUMED)
"""Every outcome that is worth assuming, with what is believed."""


def parse_assumed(text: str) -> Assumed:
    """The verdict that `OUTCOME` or `supported:-12%` names; raises `UsageError` for what is none."""
    word, colon, size = text.strip().partition(":")
    outcome = next((each for each in ASSUMED if each.value == word.strip().lower()), None)
    if outcome is None:
        known = ", ".join(each.value for each in ASSUMED)
        why = "teaches next to nothing" if word in {each.value for each in Outcome} else "is no outcome"
        raise UsageError(f"{word[:40]!r} {why}.", f"Assume one of: {known}.")
    if not colon:
        return Assumed(outcome)
    if outcome is not Outcome.SUPPORTED:
        raise UsageError(
            f"Only a supported verdict comes with an effect, not one that is {outcome.value}.",
            f"Write {outcome.value}, or supported:-12%.",
        )
    change = parse_percent(size)
    if not -1 < change < 0:
        raise UsageError(
            f"A supported change lowers its metric by less than 100 %, and {size.strip()} does not.",
            f"Write such as supported:-{min(abs(change) * 100 or 12, 99):g}%.",
        )
    return Assumed(outcome, change)


def check_assumed(facts: Facts, hypothesis: Queued, assumed: Assumed) -> None:
    """Raise `UsageError` for an effect that this hypothesis can't be supported with."""
    if assumed.change is None:
        return
    label = format_label(Noun.HYPOTHESIS, hypothesis.id)
    if not is_latency(hypothesis.metric) or hypothesis.metric != facts.objective:
        raise UsageError(
            f"{label} is about {metric_word(hypothesis.metric)}: how large that is changes no other's place.",
            f"Leave the figure out: --what-if {label}=supported",
        )
    if -assumed.change < hypothesis.min_effect:
        raise UsageError(
            f"{signed(100 * assumed.change)} % is less than the {100 * hypothesis.min_effect:g} % that "
            f"{label} must save to be supported.",
            f"Assume more, or that it is refuted: --what-if {label}=refuted",
        )
