"""Beliefs with and without what was carried, averaged by how well each foretold what came out here. Pure.

What other campaigns found may be wrong here: measured on another ground, mistaken, or made up. So the
regression is learnt several times over: from this campaign's outcomes alone, with all that was carried, and,
where several campaigns told something, with each of them by itself. Their forecasts are averaged,

    p(y) = Σ w_m p_m(y),    w_m ∝ w_m⁰ · p_m(outcomes of this campaign | what m was told)

which is Bayesian model averaging (Hoeting et al., *Statistical Science* 14, 1999). The evidence p_m of a
member is the product of the densities that it gave to each outcome here before it came, its prequential
score (Dawid, *Journal of the Royal Statistical Society A* 147, 1984), so that a campaign whose claims miss
what comes out loses its weight by as much as its forecasts were worse than those without it. With a normal
for each member it is the robust meta-analytic-predictive prior of Schmidli et al. (*Biometrics* 70, 2014),
whose vague component here is physics. However wrong what was carried is, the average of all members foretells
the outcomes no worse, over all of them together, than physics and this campaign alone do by more than
log(1 / w⁰), w⁰ the weight that these began with.

**Who speaks.** A weight of 1e-4 is little, and times the square of a claim that is off by a factor of ten it
is not: it widens what is thought possible by as much as is open of a small change. So a member speaks in a
forecast only within Occam's window (Madigan and Raftery, *Journal of the American Statistical Association*
89, 1994): where it is not `WINDOW` times less likely than the likeliest. Who was told nothing always speaks.
Who is silent goes on being weighed, and outcomes may bring it back. With W(S) for the weight of a set of
members, what those that speak foretell loses at most

    log(1 / w⁰) + Σ max(0, log(W(who speaks now) / W(who spoke before)))

by the weights of now: what a member gains while it is silent is not won, and counts when it speaks again.

**How wide.** A member learns its weights from all that it was told, and the factor of all its spreads
(`linear.py`) from outcomes here alone: how far off physics and claims are here is shown here. Who was told
what physics did not expect would else be unsure of everything, and so foretell surprises better the more
wrongly it was told.

Before any outcome here, what was told is held against physics: w_m⁰ is `BELIEVED`, less where its claims as
a whole are better explained by a mistake than by physics (prior-data conflict, Box, *Journal of the Royal
Statistical Society A* 143, 1980), and never below `LEAST_BELIEVED`, so that outcomes here can restore it. Two
mistakes are thought possible: claims that have nothing to do with what happens here, and ratios the wrong way
round, the control over the candidate. How wide physics' spreads should have been is open in this too, by a
factor that what is true and all mistakes share, and only so far (`FARTHEST_OFF`): where they are too narrow
by half, what is true lies further off than they say; but that claims are off by ten times as much says
that the claims are wrong, and not that physics is.

Outcomes are those that are heard: where a belief bounds what one outcome may say (`hearing.py`), what lies
further off counts as lying at that bound. Whether what was told can be believed at first is asked of it as it
stands.

The evidence in closed form: with posterior covariance Σ after all rows, n of them of this campaign, q their
misfit after what was told, and a scale that has ν₀ = `SCALE_COUNT` outcomes' weight,

    log p(y) = ½ log|Σ| − ½ (ν₀ + n) log(ν₀ + q) + log Γ(½ (ν₀ + n)) + what all members share
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from agent.surrogate.hearing import Row, heard, heard_after
from agent.surrogate.linear import SCALE_COUNT, Array, Features, LinearBelief

BELIEVED = 0.8
"""The weight, before any outcome here, of what was carried where physics has nothing against it."""

LEAST_BELIEVED = 1e-4
"""The least weight before any outcome here, of what physics speaks against."""

GARBAGE = 3.0
"""How many times as far off as physics says outcomes lie that have nothing to do with it; judgement."""

FARTHEST_OFF = 2.0
"""How many times too narrow, or too wide, physics' stated spreads may be: any factor in between is, on the
log scale, as likely as any other; judgement."""

FACTORS: tuple[float, ...] = tuple(FARTHEST_OFF ** (step / 4) for step in range(-4, 5))
"""The factors that are averaged over."""

WINDOW = 20.0
"""How many times less likely than the likeliest a member may be and still speak: the factor of Madigan and
Raftery."""

MOST_ALONE = 6
"""Campaigns that are believed each by itself beside all together, those that told most: a campaign's beliefs
are learnt once for each."""


@dataclass(frozen=True)
class Member:
    """A regression and what it was told: the sources whose rows it holds beside this campaign's own.

    `log_weight` is the log of its weight before normalizing.
    """

    sources: tuple[str, ...]
    belief: LinearBelief
    log_weight: float


@dataclass(frozen=True)
class Averaged:
    """Members, the first of which was told nothing; reads as a `LinearBelief` does. An outcome is heard as if
    it lay no more than `farthest` standard deviations off."""

    members: tuple[Member, ...]
    farthest: float = math.inf

    @classmethod
    def learn(
        cls,
        own: Sequence[Row],
        told: Mapping[str, Sequence[Row]],
        farthest: float = math.inf,
        turned: Mapping[str, Sequence[Row]] | None = None,
        credit: Mapping[str, float] | None = None,
    ) -> Averaged:
        """The average after this campaign's own rows, each source's rows given by its name; `turned` are
        the same with every claim the wrong way round (None: that is not thought possible). `credit` is the
        share of their first weight, from 0 to 1, that sources begin with (1 of who is not named)."""
        sources = {name: rows for name, rows in told.items() if rows}
        groups: list[tuple[str, ...]] = [tuple(sorted(sources))] if sources else []
        if len(sources) > 1:
            most = sorted(sources, key=lambda name: (-len(sources[name]), name))[:MOST_ALONE]
            groups += [(name,) for name in sorted(most)]
        own = heard(own, farthest)
        alone = _learnt(own)
        begun = [(group, _of(sources, group)) for group in groups]
        chances = [
            max(
                LEAST_BELIEVED,
                min((credit or {}).get(name, 1.0) for name in group)
                * believed(rows, None if turned is None else _of(turned, group)),
            )
            / len(groups)
            for group, rows in begun
        ]
        members = [Member((), alone, math.log1p(-math.fsum(chances)) + _evidence(alone) - _evidence(_NONE))]
        for (group, rows), chance in zip(begun, chances, strict=True):
            told_here = heard(rows, farthest)
            before_own = _learnt(told_here)
            at_first = _since(before_own, before_own)
            after = _since(_learnt([*told_here, *own]), before_own)
            members.append(Member(group, after, math.log(chance) + _evidence(after) - _evidence(at_first)))
        return cls(tuple(members), farthest)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """The members' weights, which add up to 1, whether they speak or not."""
        most = max(each.log_weight for each in self.members)
        raw = [math.exp(each.log_weight - most) for each in self.members]
        return tuple(each / math.fsum(raw) for each in raw)

    @cached_property
    def spoken(self) -> tuple[float, ...]:
        """The members' weights in a forecast, which add up to 1; 0 of those that are silent."""
        least = max(self.weights) / WINDOW
        kept = [
            weight if not member.sources or weight >= least else 0.0
            for member, weight in zip(self.members, self.weights, strict=True)
        ]
        return tuple(each / math.fsum(kept) for each in kept)

    @property
    def carried_weight(self) -> float:
        """The weight of all that was carried, from 0 to 1; 0 where nothing was."""
        return math.fsum(self.weights[1:])

    def weight_of(self, source: str) -> float:
        """The weight of all members that hold what this source told."""
        return math.fsum(
            weight
            for member, weight in zip(self.members, self.weights, strict=True)
            if source in member.sources
        )

    @property
    def scale(self) -> float:
        """The factor of all standard deviations, averaged by weight over the members that speak."""
        return math.fsum(
            weight * member.belief.scale for member, weight in zip(self.members, self.spoken, strict=True)
        )

    def after(self, row: Features, residual: float, variance: float) -> Averaged:
        """The average after one row more of this campaign; as `learn` of all, but for rounding."""
        members = []
        row, residual, variance = heard_after(
            self.members[0].belief, (row, residual, variance), self.farthest
        )
        for each in self.members:
            belief = each.belief.after(row, residual, variance)
            gained = _evidence(belief) - _evidence(each.belief)
            members.append(Member(each.sources, belief, each.log_weight + gained))
        return Averaged(tuple(members), self.farthest)

    def moved_by(self, features: Features, told: Sequence[tuple[str, Row]]) -> list[float]:
        """How far each row that a source told (by its name) moves the mean at these features.

        A posterior mean is linear in what was heard: row i of a member moves it by xᵀ Σ x_i y_i / v_i.
        """
        moved = [0.0] * len(told)
        for member, weight in zip(self.members, self.spoken, strict=True):
            if not member.sources or not weight:
                continue
            x = np.array([features.get(name, 0.0) for name in member.belief.names])
            pull = dict(zip(member.belief.names, member.belief.covariance @ x, strict=True))
            places = [k for name in member.sources for k, (source, _) in enumerate(told) if source == name]
            rows = heard([told[place][1] for place in places], self.farthest)
            for place, (row, residual, variance) in zip(places, rows, strict=True):
                along = math.fsum(value * pull.get(name, 0.0) for name, value in row.items())
                moved[place] += weight * along * residual / variance
        return moved

    def predict(self, rows: Sequence[Features]) -> tuple[Array, Array]:
        """Mean and variance at each row of the mixture of those that speak."""
        speak = [(each, weight) for each, weight in zip(self.members, self.spoken, strict=True) if weight]
        found = [each.belief.predict(rows) for each, _ in speak]
        if len(found) == 1:
            return found[0]
        weights = np.array([weight for _, weight in speak])[:, None]
        means, variances = np.array([mean for mean, _ in found]), np.array([spread for _, spread in found])
        mean: Array = (weights * means).sum(axis=0)
        variance: Array = (weights * (variances + (means - mean) ** 2)).sum(axis=0)
        return mean, variance


def believed(rows: Sequence[Row], turned: Sequence[Row] | None = None) -> float:
    """w⁰: the weight before any outcome here of what these rows tell.

    That they are as physics says is held against two ways to be wrong: outcomes that have nothing to do with
    it, each by itself `GARBAGE` times as far off, and every claim the wrong way round (`turned`; None: not
    thought possible). Each is as likely as its evidence, averaged over `FACTORS` of all spreads. What physics
    says best has all of `BELIEVED`.
    """
    if not rows:
        return BELIEVED
    noise = np.array([variance for _, _, variance in rows])
    residuals = np.array([residual for _, residual, _ in rows])
    spread = np.array([math.fsum(value * value for value in features.values()) for features, _, _ in rows])
    garbage = GARBAGE**2 * (spread + noise)
    unrelated = _told(math.fsum(np.log(noise / garbage)), math.fsum(residuals**2 / garbage), len(rows))
    wrong = [unrelated] if turned is None else [unrelated, _told_of(_learnt(turned))]
    return max(LEAST_BELIEVED, BELIEVED * math.exp(min(0.0, _told_of(_learnt(rows)) - max(wrong))))


def _told_of(learnt: LinearBelief) -> float:
    return _told(_log_determinant(learnt), learnt.misfit, learnt.count)


def _told(log_determinant: float, misfit: float, count: int) -> float:
    """Log density of so many claims with this misfit, averaged over `FACTORS` of all spreads; less what all
    who are asked share."""
    logs = [-count * math.log(factor) - 0.5 * misfit / factor**2 for factor in FACTORS]
    most = max(logs)
    return 0.5 * log_determinant + most + math.log(math.fsum(math.exp(each - most) for each in logs))


def _of(told: Mapping[str, Sequence[Row]], group: Sequence[str]) -> list[Row]:
    return [row for name in group for row in told[name]]


def _learnt(rows: Sequence[Row]) -> LinearBelief:
    features, residuals, variances = zip(*rows, strict=True) if rows else ((), (), ())
    return LinearBelief.learn(features, residuals, variances)


def _since(belief: LinearBelief, before: LinearBelief) -> LinearBelief:
    """The belief with a scale that learnt from what came after `before` alone."""
    misfit = max(0.0, belief.misfit - before.misfit)
    return replace(belief, misfit=misfit, count=belief.count - before.count)


def _evidence(belief: LinearBelief) -> float:
    """Log density of the rows that its scale learnt from, less what all members share and what was told."""
    count = SCALE_COUNT + belief.count
    return (
        0.5 * _log_determinant(belief)
        - 0.5 * count * math.log(SCALE_COUNT + belief.misfit)
        + math.lgamma(0.5 * count)
    )


def _log_determinant(belief: LinearBelief) -> float:
    return float(np.linalg.slogdet(belief.covariance)[1]) if belief.names else 0.0


_NONE = LinearBelief.learn([], [], [])
