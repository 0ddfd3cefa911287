"""What a whole configuration does to TPOT, from what each of its levers is expected to do. Pure.

A step is a sum of parts, and a lever acts on some of them: with shares s of the baseline's token and, for
each part p, log factors φ of the levers that act on it,

    T / T₀ = whole · Σ s_p · exp(φ_p)

So the output head in fewer bits saves the more of a step the shorter packed weights made the rest of it, and
what is open about a kernel moves matrix products only. Everything that is open enters linearly, with the
share that its part has in *this* configuration as expected: a surprise is credited to what acts on much of
the step and is little known, not to whatever else was changed along with it. Where the candidate's own step
was profiled, each part is an outcome by itself, which settles the credit, and moves the shares: the log of a
sum is near to linear around one point alone, and that is where profiles told the parts to be. Who halves what
took half of a step and doubles what took a tenth saves 15 %; by the shares of before it were 24 %.

Levers whose parts are not known act on the whole: their logs add, and what two of them do together is open by
`TOGETHER_SHARE` of the smaller of both effects. Compiling what two threads do saves another share than
compiling what one does, and by how much is learnt for each pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

from agent.surrogate.expectation import Expectation
from agent.surrogate.levers import Setting, Target
from agent.surrogate.linear import Features
from agent.surrogate.physics import Physics

LEVER_SHARE = 0.6
"""Share of an expectation's variance that all settings of its lever have in common."""

TOGETHER_SHARE = 0.5
"""Standard deviation of what two levers do together beyond what each does alone, as a share of the smaller of
their effects: that one may be half as large, or half as large again, where the other one is."""

OTHER_STEPS = ("pruning", "drafting", "compile", "dtype")
"""Levers after which a part of the step is not the same work any more."""


NOWHERE: Features = {}
"""The point at which all that is open is as physics expects it."""


def composed(
    physics: Physics, settings: Mapping[str, Setting], target: Target, near: Features = NOWHERE
) -> tuple[float, Features]:
    """Mean of log(configuration / baseline) and the features of what is open, for these settings by lever:
    linear in what is open, and exact where that is `near`."""
    expected = {lever: physics.expect(lever, setting, target) for lever, setting in settings.items()}
    by_part = {lever: each for lever, each in expected.items() if each.parts}
    whole = {lever: each for lever, each in expected.items() if not each.parts}
    mean = math.fsum(each.mean_log for each in whole.values())
    features: dict[str, float] = {}
    for lever, each in whole.items():
        _add(features, _of_whole(physics, lever, settings[lever], target, each))
    for one, other in combinations(sorted(whole), 2):
        _add(features, _together((one, whole[one]), (other, whole[other])))
    if by_part:
        parts_mean, open_parts = _of_parts(physics.parts, by_part, near)
        mean += parts_mean
        _add(features, open_parts)
    return mean, features


def of_part(
    physics: Physics, settings: Mapping[str, Setting], target: Target, part: str
) -> tuple[float, Features] | None:
    """Mean of log(configuration / baseline) of one kind of part, and the features of what is open of it; None
    where something was changed of which it is not known what it does there, or nothing that acts there."""
    if any(lever in settings for lever in OTHER_STEPS):
        return None
    expected = [physics.expect(lever, setting, target) for lever, setting in settings.items()]
    acting = [each.parts[part] for each in expected if part in each.parts]
    features: dict[str, float] = {}
    for effect in acting:
        _add(features, effect.open)
    return (math.fsum(effect.mean_log for effect in acting), features) if features else None


def _of_whole(
    physics: Physics, lever: str, setting: Setting, target: Target, expected: Expectation
) -> Features:
    key = (lever, setting, target)
    features = physics.open_of_whole.get(key)
    if features is None:
        features = {lever: expected.sd_log * math.sqrt(LEVER_SHARE)}
        own = expected.sd_log * math.sqrt((1 - LEVER_SHARE) / len(setting))
        features.update(physics.resemblance.of_all(dict(setting), own))
        _add(features, expected.joint)
        physics.open_of_whole[key] = features
    return features


def _together(one: tuple[str, Expectation], other: tuple[str, Expectation]) -> Features:
    """What is open of a pair of levers, whatever their settings: one for each pair of settings would be
    thousands."""
    return {f"{one[0]} with {other[0]}": TOGETHER_SHARE * min(each.size_log for _, each in (one, other))}


def _of_parts(
    shares: Mapping[str, float], by_part: Mapping[str, Expectation], near: Features
) -> tuple[float, dict[str, float]]:
    """Mean log of the sum of parts, and what is open of each, weighed with its share of that sum."""
    acting = [each.parts for each in by_part.values()]
    factors = {
        part: math.fsum(
            parts[part].mean_log + _along(parts[part].open, near) for parts in acting if part in parts
        )
        for part in shares
    }
    taken = {part: share * math.exp(factors[part]) for part, share in shares.items()}
    total = math.fsum(taken.values())
    features: dict[str, float] = {}
    for parts in acting:
        for part, effect in parts.items():
            weight = taken.get(part, 0.0) / total
            _add(features, {name: weight * spread for name, spread in effect.open.items()})
    return math.log(total) - _along(features, near), features


def _along(features: Features, near: Features) -> float:
    return math.fsum(value * near.get(name, 0.0) for name, value in features.items())


def _add(features: dict[str, float], more: Features) -> None:
    for name, value in more.items():
        if value:
            features[name] = features.get(name, 0.0) + value
