"""Whether a campaign's predictions may be taken at their word: how often their 80 % interval held so far."""

from __future__ import annotations

import math
from statistics import NormalDist

from sqlalchemy import Float, Integer, and_, func, select
from sqlalchemy.orm import Session

from db.models import Experiment, Hypothesis, Verdict
from db.states import VerdictOutcome
from knowledge.figures import counted
from knowledge.queries.claims.predictions import MOST_POINTS
from knowledge.queries.view import PREDICTION_Z, View

NOMINAL = 0.8
"""The share of outcomes that the predicted interval is to hold."""

LEVEL = 0.95
"""Of the interval of the share that held."""


class CalibrationView(View):
    """Of `total` outcomes that were predicted, those `inside` the 80 % interval; `low` and `high` bound the
    share that such predictions hold in the long run, by the score interval of 95 % (Wilson, Journal of the
    American Statistical Association 22, 1927), which takes the outcomes for independent."""

    total: int
    inside: int
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """The counts, and what to make of them."""
        if self.total == 0:
            return f"No prediction was tested yet. {self.meaning}"
        held = f"{self.counts} came out inside the 80 % interval that was predicted: {self.share}."
        return f"{held} {self.meaning}"

    @property
    def counts(self) -> str:
        """`6 of 8 outcomes`."""
        return f"{self.inside} of {counted(self.total, 'outcome')}"

    @property
    def share(self) -> str:
        """`75 % [41, 93]`, where there is any outcome."""
        held = 100 * self.inside / max(1, self.total)
        return f"{held:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"

    @property
    def meaning(self) -> str:
        """What to make of the counts."""
        if self.total == 0:
            return "How far the figures of the queue can be trusted is not known."
        said = "surer than they should be" if self.high < NOMINAL else "more careful than they need to be"
        if (self.high < NOMINAL or self.low > NOMINAL) and chance(self.inside, self.total) > (1 - LEVEL) / 2:
            return f"So few outcomes do not tell whether the predictions are {said}."
        if self.high < NOMINAL or self.low > NOMINAL:
            return f"The predictions are {said}."
        return "That does not speak against the predictions."


def calibration(session: Session, campaign_id: int) -> CalibrationView:
    """Count the newest `MOST_POINTS` outcomes of a campaign by whether they lie in the interval that was
    predicted, as a summary does: effects of tests that are no reproductions and not confounded, ratios and
    differences of shares, which the page of predictions does not draw together; one statement."""
    prediction = Hypothesis.prediction
    mean, sd = (prediction[name].as_float() for name in ("log_ratio_mean", "log_ratio_sd"))
    held = func.abs(Verdict.effect_log - mean) <= PREDICTION_Z * sd.cast(Float)
    newest = (
        select(held.cast(Integer).label("held"))
        .select_from(Verdict)
        .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            # Sums keep a database from beginning with all hypotheses or all experiments: it goes through the
            # verdicts from the newest on, and stops when it has enough.
            Hypothesis.campaign_id + 0 == campaign_id,
            (Experiment.reproduces_experiment_id + 0).is_(None),
            Verdict.effect_log.is_not(None),
            Verdict.outcome != VerdictOutcome.CONFOUNDED,
            and_(mean.is_not(None), sd.is_not(None)),
        )
        .order_by(Verdict.id.desc())
        .limit(MOST_POINTS)
        .subquery()
    )
    total, inside = session.execute(
        select(func.count(), func.coalesce(func.sum(newest.c.held), 0)).select_from(newest)
    ).one()
    low, high = score_interval(inside, total)
    return CalibrationView(total=total, inside=inside, low=low, high=high)


def chance(inside: int, total: int) -> float:
    """The probability that of `total` outcomes so many or still fewer (or, of more than the nominal share, so
    many or still more) are inside although the predictions are right: exact, of the binomial distribution."""
    from scipy.special import bdtr, bdtrc  # loading them takes longer than most commands

    few = inside < NOMINAL * total
    return float(bdtr(inside, total, NOMINAL) if few else bdtrc(inside - 1, total, NOMINAL))


def score_interval(count: int, of: int) -> tuple[float, float]:
    """The score interval of a share at `LEVEL`; all of 0 to 1 of nothing."""
    if of == 0:
        return 0.0, 1.0
    z, share = NormalDist().inv_cdf((1 + LEVEL) / 2), count / of
    middle = share + z**2 / (2 * of)
    half = z * math.sqrt(share * (1 - share) / of + (z / (2 * of)) ** 2)
    low, high = ((middle + side * half) / (1 + z**2 / of) for side in (-1, 1))
    return max(0.0, min(low, share)), min(1.0, max(high, share))  # but for rounding, the share is in it
