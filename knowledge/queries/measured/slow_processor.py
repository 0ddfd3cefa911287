"""Whether requests with slow tokens had slow first tokens too, as where both wait for the processor.

Most of the time to a lone prompt's first token no kernel may run: the processor launches them one by one. A
decode step is one graph, which waits for the processor only where that takes longer than the step's kernels.
So where the first token is mostly the processor's, and tokens are slower than their kernels in the requests
whose first one was late, it is probably the processor that is slow at one time and fast at another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Launch, Measurement
from db.states import Arm
from experiments.measurement.evidence import Metric, Stage
from knowledge.queries.measured.spread import spread
from knowledge.queries.measured.step_profile import StepProfileView

Request = tuple[float, float]
"""The time to a request's first token and that of each later one, in milliseconds."""

LEAST_REQUESTS = 20
"""Of fewer nothing is told."""

LEAST_CORRELATION = 0.4
"""What the lower end of the 95 % interval of the correlation must reach."""

LEAST_SPREAD = 0.1
"""Slow and fast tokens, the middle 80 %, lie at least this share of the median apart, and the slow ones as
much above the step's kernels."""

LEAST_WAITING = 0.5
"""The share of the first token in which no kernel runs, at least: less does not tell of the processor."""

Z = 1.96
MOST_CORRELATION = 1 - 1e-9


def requests_by_launch(
    session: Session, experiment_id: int, arm: Arm, stage: str | None = None
) -> tuple[tuple[Request, ...], ...]:
    """The requests of the campaign's own workload that each launch of an arm served (of a stage, where one is
    named)."""
    query = (
        select(Measurement.launch_id, Measurement.item, Measurement.metric, Measurement.value)
        .join(Launch, Launch.id == Measurement.launch_id)
        .where(
            Launch.experiment_id == experiment_id,
            Launch.arm == arm,
            Launch.stage != Stage.FURTHER.value,
            Measurement.metric.in_((Metric.TTFT_MS.value, Metric.TPOT_MS.value)),
            Measurement.value > 0,
        )
        .order_by(Measurement.id)
    )
    if stage is not None:
        query = query.where(Launch.stage == stage)
    launches: dict[int, dict[str, dict[str, float]]] = {}
    for launch_id, item, metric, value in session.execute(query):
        launches.setdefault(launch_id, {}).setdefault(item, {})[metric] = value
    return tuple(_both(requests) for requests in launches.values())


def slow_processor(
    launches: Sequence[Sequence[Request]], step: StepProfileView, prompt: StepProfileView | None
) -> str | None:
    """That tokens probably waited for the processor, in a sentence; None where these requests, by launch, and
    the profiles of the step and of a lone prompt don't say so. Pure."""
    requests = [*chain.from_iterable(launches)]
    if len(requests) < LEAST_REQUESTS or not waits_for_it(prompt):
        return None
    tokens = spread(Metric.TPOT_MS.value, "ms", [token_ms for _, token_ms in requests])
    kernels_ms = step.step_ms - step.outside_kernels_ms
    if min(tokens.high - tokens.low, tokens.high - kernels_ms) < LEAST_SPREAD * tokens.median:
        return None
    found, free = correlation_within(launches)
    if free < 1 or math.atanh(found) - Z * math.sqrt((1 + found**2 / 2) / free) < math.atanh(
        LEAST_CORRELATION
    ):
        return None
    return (
        f"Of {len(requests)} requests those with a late first token had slow tokens too (rank correlation "
        f"{found:.2f} within launches; middle 80 % {tokens.low:.2f} to {tokens.high:.2f} ms a token). The "
        "first token waits for the processor most of the time, so it is probably the processor that was slow "
        "at one time and fast at another."
    )


def correlation_within(launches: Sequence[Sequence[Request]]) -> tuple[float, int]:
    """The rank correlation of the first token's time and the later ones' within launches, all together, and
    how many requests are free to say so; 0 where one of both is everywhere the same. What launches differ by
    counts for nothing."""
    shared = first_square = later_square = 0.0
    for requests in launches:
        firsts, laters = (_ranks([each[place] for each in requests]) for place in (0, 1))
        shared += math.fsum(first * later for first, later in zip(firsts, laters, strict=True))
        first_square += math.fsum(rank**2 for rank in firsts)
        later_square += math.fsum(rank**2 for rank in laters)
    free = sum(len(requests) - 1 for requests in launches) - 2
    if not first_square or not later_square:
        return 0.0, free
    found = shared / math.sqrt(first_square * later_square)
    return max(-MOST_CORRELATION, min(found, MOST_CORRELATION)), free


def waits_for_it(prompt: StepProfileView | None) -> bool:
    """Whether a lone prompt waits for the processor most of the time, by its profile."""
    return prompt is not None and prompt.outside_kernels_ms >= LEAST_WAITING * prompt.step_ms > 0


def _both(requests: Mapping[str, Mapping[str, float]]) -> tuple[Request, ...]:
    return tuple(
        (each[Metric.TTFT_MS.value], each[Metric.TPOT_MS.value])
        for each in requests.values()
        if len(each) == 2
    )


def _ranks(values: Sequence[float]) -> list[float]:
    """How far the place of each value, from the smallest on, lies from the middle one; of equal ones the mean
    of their places."""
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    last = {value: place for place, value in enumerate(ordered)}
    return [(first[value] + last[value] - len(ordered) + 1) / 2 for value in values]
