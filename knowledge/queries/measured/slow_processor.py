"""Whether requests with slow tokens had slow first tokens too, so that the processor is what both waited for.

Most of the time to a lone prompt's first token no kernel may run: the processor launches them one by one. A
decode step is one graph, which waits for the processor only where that takes longer than the step's kernels.
One that others share is slow at one time and fast at another. So where the first token is mostly the
processor's, and tokens are slow in the requests whose first one was, they wait for it as well, and a faster
kernel is not felt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import correlation

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Launch, Measurement
from db.states import Arm
from experiments.measurement.evidence import Metric
from knowledge.queries.measured.spread import spread
from knowledge.queries.measured.step_profile import StepProfileView

LEAST_REQUESTS = 20
"""Of fewer nothing is told."""

LEAST_CORRELATION = 0.4
"""What the lower end of the 95 % interval must reach, of as many requests as if each were for itself."""

LEAST_SPREAD = 0.1
"""Slow and fast tokens, the middle 80 %, lie at least this share of the median apart."""

LEAST_WAITING = 0.5
"""The share of the first token in which no kernel runs, at least: less does not tell of the processor."""

Z = 1.96


def first_and_later(
    session: Session, experiment_id: int, arm: Arm, stage: str | None = None
) -> tuple[tuple[float, float], ...]:
    """TTFT and TPOT of each request that the launches of an arm served (of a stage, where one is named), both
    in milliseconds."""
    query = (
        select(Measurement.launch_id, Measurement.item, Measurement.metric, Measurement.value)
        .join(Launch, Launch.id == Measurement.launch_id)
        .where(
            Launch.experiment_id == experiment_id,
            Launch.arm == arm,
            Measurement.metric.in_((Metric.TTFT_MS.value, Metric.TPOT_MS.value)),
        )
        .order_by(Measurement.id)
    )
    if stage is not None:
        query = query.where(Launch.stage == stage)
    requests: dict[tuple[int, str], dict[str, float]] = {}
    for launch_id, item, metric, value in session.execute(query):
        requests.setdefault((launch_id, item), {})[metric] = value
    return tuple(
        (each[Metric.TTFT_MS.value], each[Metric.TPOT_MS.value])
        for each in requests.values()
        if len(each) == 2
    )


def slow_processor(requests: Sequence[tuple[float, float]], prompt: StepProfileView | None) -> str | None:
    """That tokens waited for the processor, in a sentence; None where these requests, by their TTFT and TPOT,
    and the profile of a lone prompt don't say so. Pure."""
    if len(requests) < LEAST_REQUESTS or not waits_for_it(prompt):
        return None
    firsts, laters = ([each[place] for each in requests] for place in (0, 1))
    tokens = spread(Metric.TPOT_MS.value, "ms", laters)
    if tokens.high - tokens.low < LEAST_SPREAD * tokens.median:
        return None
    found = correlation(_ranks(firsts), _ranks(laters))
    error = math.sqrt((1 + found**2 / 2) / (len(requests) - 3))
    if math.atanh(min(found, 1 - 1e-9)) - Z * error < math.atanh(LEAST_CORRELATION):
        return None
    return (
        f"Of {len(requests)} requests those with a late first token had slow tokens too (rank correlation "
        f"{found:.2f}; middle 80 % {tokens.low:.2f} to {tokens.high:.2f} ms a token): both wait for the "
        "processor, so a faster one, or one that nothing else uses, would be felt."
    )


def waits_for_it(prompt: StepProfileView | None) -> bool:
    """Whether a lone prompt waits for the processor most of the time, by its profile."""
    return prompt is not None and prompt.outside_ms >= LEAST_WAITING * prompt.step_ms > 0


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value among all, from the smallest on; of equal ones the mean of their places."""
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    last = {value: place for place, value in enumerate(ordered)}
    return [(first[value] + last[value]) / 2 for value in values]
