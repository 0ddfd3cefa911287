"""Whether a stored verdict is still the one that the stored samples give.

A judge is a pure function of the plan and the evidence, so it can be asked again. What it says then is held
against the verdict's numbers; its sentence is not compared, for words may change without a new version.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from sqlalchemy.orm import Session

from configs.errors import AutoinferError
from db.models import Experiment, Verdict
from experiments.job.named import load_judge
from experiments.measurement.judging import JudgeVerdict
from experiments.recording import load_evidence, load_test_spec

ALIKE = "the stored samples give the same verdict"
"""Said where the judge comes to the same numbers again."""

ANOTHER = "the stored samples give another verdict"
"""Said before what differs, where it does not."""

RELATIVE_TOLERANCE = 1e-6
"""By which a number may differ: another version of a numerical library rounds otherwise."""

ABSOLUTE_TOLERANCE = 1e-9
"""The same near zero."""


def by_another_version(verdict: Verdict) -> bool:
    """Whether another version of the judge that gave a verdict is installed; not so of one that no judge
    gave, or whose judge is not here."""
    name = verdict.judge.get("name")
    try:
        return isinstance(name, str) and verdict.judge.get("version") != load_judge(name).version
    except AutoinferError:
        return False


def judged_again(session: Session, experiment: Experiment, verdict: Verdict) -> str | None:
    """What the judge says of the stored samples now, beside the stored verdict, as a clause.

    A judge of another version than the sealed one is no check of the verdict, and is told as such. None where
    no judge gave it, as for an experiment that broke.
    """
    try:
        spec = load_test_spec(session, experiment.id)
        if verdict.judge.get("name") != spec.judge:
            return None
        judge = load_judge(spec.judge)
        now = judge.verdict(*load_evidence(session, experiment.id))
    except AutoinferError as error:
        return f"not possible: {error.message.rstrip('.')}"
    except ValueError as error:
        return f"not possible: a stored sample can't be read ({error})"
    found = [
        f"{name} is {_shown(stored)}, and comes to {_shown(again)}"
        for name, stored, again in _differing(verdict, now)
    ]
    said = f"{ANOTHER}: {'; '.join(found)}" if found else ALIKE
    if verdict.judge.get("version") == judge.version:
        return said
    return (
        f"it is of {spec.judge} {verdict.judge.get('version')}, and version {judge.version} is installed; "
        f"by that, {said}"
    )


def _differing(stored: Verdict, now: JudgeVerdict) -> Iterator[tuple[str, object, object]]:
    """The numbers in which the two differ, by name: the stored one, and what the samples give."""
    if stored.outcome.value != now.outcome.value:
        yield "its outcome", stored.outcome.value, now.outcome.value
    for name in ("effect_log", "interval_low_log", "interval_high_log", "launches", "samples"):
        one, other = getattr(stored, name), getattr(now, name)
        if not _alike(one, other):
            yield f"its {name}", one, other
    yield from _differing_numbers("quality", stored.quality or {}, now.quality)


def _differing_numbers(
    name: str, stored: Mapping[str, object], now: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    """What both tell: a judge may tell more than it did without deciding otherwise."""
    for key in sorted(stored.keys() & now.keys()):
        one, other = stored[key], now[key]
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _differing_numbers(f"{name}.{key}", one, other)
        elif not _alike(one, other):
            yield f"{name}.{key}", one, other


def _alike(one: object, other: object) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return one == other


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "nothing" if value is None else str(value)
