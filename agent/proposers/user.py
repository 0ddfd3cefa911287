"""The user's own hypothesis, as `autoinfer enqueue` writes it down. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.proposers.draft import refuted_if
from agent.proposers.port import Draft
from agent.surrogate.levers import joined
from configs.authors import COLLEAGUE, author_words
from configs.errors import UsageError
from configs.quantities import HIGHER_IS_BETTER, parse_effect, parse_percent
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.space import Space, split_assignment

PROPOSER = "user"
"""The name under which a user's hypothesis is stored."""

SPREAD_SHARE = 0.5
"""Standard deviation of an expected effect that came without a spread, as a share of it."""

LEAST_SPREAD_LOG = 0.01
"""A user's expectation is not taken as closer than this."""


def was_asked_for(proposer: str) -> bool:
    """Whether the user or a coding agent put a hypothesis into the queue, where it stays until it is tested
    or withdrawn; with a prediction of its own, which its verdict is held against."""
    return proposer == PROPOSER or proposer.startswith(COLLEAGUE)


@dataclass(frozen=True)
class Enqueued:
    """What was written: the claim, `KNOB=VALUE` assignments, and options as text; None where not given.

    `proposer` is who wrote it: the user, or a coding agent by its name.
    """

    claim: str
    assignments: Sequence[str]
    expect: str | None = None
    min_effect: str | None = None
    why: str | None = None
    pin: bool = False
    proposer: str = PROPOSER


def user_draft(
    asked: Enqueued,
    space: Space,
    control: Configuration,
    *,
    metric: str,
    min_effect: float,
    predict: Callable[[Configuration, Configuration], Prediction],
) -> Draft:
    """The draft of what the user asked for, against `control` (the incumbent).

    `metric` is the campaign's (`tpot_ms`), `min_effect` its default, `predict` the surrogate, which predicts
    where the user expects nothing. Raises `UsageError` for an empty claim, no assignment, anything that the
    space refuses, a change that changes nothing, an effect on another metric than the campaign's, and one
    that is smaller than the least effect worth having, because it would refute itself.
    """
    least, expected = check_words(asked, metric, min_effect)
    text = " ".join(asked.claim.split())
    candidate = space.with_change(control, space.parse_assignments(asked.assignments))
    if candidate == control:
        raise UsageError(
            f"The hypothesis changes nothing: the incumbent has {', '.join(asked.assignments)} already.",
            "Set a knob to another value.",
        )
    prediction = predict(control, candidate) if expected is None else expected
    return Draft(
        claim=text if text[-1] in ".!?" else f"{text}.",
        control=control,
        candidate=candidate,
        lever=joined(space.levers_between(control, candidate)),
        prediction=prediction,
        min_effect=least,
        refuted_if=refuted_if(least),
        rationale=asked.why or f"{_who(asked.proposer)} asked for it and gave no reason.",
        proposer=asked.proposer,
        pinned=asked.pin,
    )


def _who(proposer: str) -> str:
    found = "the user" if proposer == PROPOSER else author_words(proposer)
    return f"{found[:1].upper()}{found[1:]}"


def check_words_are_read(asked: Enqueued) -> None:
    """Raise `UsageError` for what says nothing that could be refused: an empty claim, no assignment or one
    without its `=`, an effect that is none."""
    if not asked.claim.strip():
        raise UsageError("The claim is empty.", 'Write what you expect, such as "Two threads are enough."')
    if not asked.assignments:
        raise UsageError("The hypothesis changes no knob.", "Give at least one --set KNOB=VALUE.")
    for each in asked.assignments:
        split_assignment(each)
    if asked.min_effect is not None:
        parse_percent(asked.min_effect)
    if asked.expect is not None:
        parse_effect(asked.expect)


def check_words(asked: Enqueued, metric: str, min_effect: float) -> tuple[float, Prediction | None]:
    """The least effect worth having and the expected effect (None for none) of what the user wrote.

    Needs no control. Raises `UsageError` as `check_words_are_read`, for an effect on another metric than
    `metric`, and for one that is smaller than the least effect worth having, which is `min_effect` if not
    given.
    """
    check_words_are_read(asked)
    least = min_effect if asked.min_effect is None else _least(asked.min_effect)
    return least, None if asked.expect is None else _expected(asked.expect, metric, least)


def _least(text: str) -> float:
    value = parse_percent(text)
    if not 0 < value < 1:
        raise UsageError(
            f"The least effect {text!r} is not between 0 and 100 %.", "Write a percentage such as 3%."
        )
    return value


def _expected(text: str, metric: str, least: float) -> Prediction:
    effect = parse_effect(text)
    if effect.metric != metric:
        short = metric.removesuffix("_ms")
        raise UsageError(
            f"{text!r} is about {effect.metric}, but this campaign is judged on {metric}.",
            f"Write the effect on it, such as {short}=-10%.",
        )
    # the judge's effect is negative where it is faster, whatever the metric
    sign = -1.0 if metric in HIGHER_IS_BETTER.values() else 1.0
    mean = sign * effect.log_ratio
    if mean > math.log1p(-least):
        raise UsageError(
            f"{text!r} is less than the least effect worth having, {100 * least:g} %: it refutes itself.",
            "Expect more, or lower it with --min-effect.",
        )
    spread = effect.log_ratio_sd
    wide = abs(mean) * SPREAD_SHARE if spread is None else spread
    return Prediction(log_ratio_mean=mean, log_ratio_sd=max(LEAST_SPREAD_LOG, wide))
