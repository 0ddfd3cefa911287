"""Proposers are told apart by what became of what they proposed, in a campaign and over all."""

from math import expm1, log1p
from pathlib import Path
from statistics import fmean

import pytest
from scipy.stats import binomtest

from db.states import VerdictOutcome
from experiments.space.configuration import KnobValue
from knowledge.hit_rates import Hits, Record
from knowledge.queries.claims.calibration import calibration
from knowledge.queries.claims.hypotheses import Asked
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from knowledge.queries.claims.predictions import predictions
from knowledge.queries.claims.proposers import ProposerView, proposers, records
from knowledge.queries.facts import campaign_facts
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History
from tests.recorded.levers_on_four import levers_on_four

BITS = ("H-034", "H-042")
"""What separation proposed on the four GPUs, both of it on bits; what the campaign asked is on time too."""

OTHERS: tuple[dict[str, KnobValue], ...] = ({"serving.dtype": "bfloat16"}, {"serving.compile": "default"})


def judged(
    history: History,
    number: int,
    proposer: str,
    outcome: VerdictOutcome,
    measured: float | None,
    campaign_id: int | None = None,
) -> int:
    """A hypothesis with its verdict; each sets other knobs, since the same is refused as a duplicate."""
    fewer: dict[str, KnobValue] = {"pruning.method": "depth", "pruning.layers_removed": number}
    change = fewer if number < 5 else OTHERS[number - 5]
    hypothesis = history.propose(change, proposer=proposer, predicted=-0.1, campaign_id=campaign_id)
    effect = None if measured is None else (measured, measured - 0.02, measured + 0.02)
    history.judge(hypothesis, outcome, effect=effect)
    return hypothesis


@pytest.fixture
def told(history: History) -> History:
    """One of profile's three supported, one of optuna's confounded, and another campaign."""
    judged(history, 1, "profile", VerdictOutcome.SUPPORTED, -0.12)
    judged(history, 2, "profile", VerdictOutcome.REFUTED, 0.3)
    judged(history, 3, "profile", VerdictOutcome.INFEASIBLE, None)
    judged(history, 4, "optuna", VerdictOutcome.CONFOUNDED, -0.5)
    history.propose({"serving.threads": 1}, proposer="neighbours")
    other = history.start("other")
    judged(history, 5, "profile", VerdictOutcome.SUPPORTED, -0.1, other)
    return history


def of(history: History, campaign_id: int | None) -> dict[str, ProposerView]:
    with history.database.read() as session:
        return {each.name: each for each in proposers(session, campaign_id)}


def test_a_hit_rate_is_the_supported_of_what_has_a_verdict_on_its_claim(told: History) -> None:
    found = of(told, 1)["profile"]
    assert (found.proposed, found.judged, found.supported) == (3, 3, 1)
    assert (found.low, found.high) == pytest.approx(tuple(binomtest(1, 3).proportion_ci(0.95)))
    assert found.chance == Record(3, Hits(1, 3), Hits(1, 1)).chance


def test_a_confounded_test_says_nothing_of_its_proposer(told: History) -> None:
    found = of(told, 1)["optuna"]
    assert (found.proposed, found.judged, found.measured) == (1, 0, 0)
    assert (found.rate, found.low, found.predicted_mean) == (None, None, None)
    assert found.words == "nothing judged yet"


def test_predicted_is_set_beside_measured(told: History) -> None:
    found = of(told, 1)["profile"]
    assert (found.measured, found.inside) == (2, 1)
    assert found.predicted_mean == pytest.approx(-0.1)
    assert found.measured_mean == pytest.approx(expm1((log1p(-0.12) + log1p(0.3)) / 2))


def test_over_all_campaigns_they_add_up(told: History) -> None:
    found = of(told, None)
    assert (found["profile"].judged, found["profile"].supported) == (4, 2)
    assert found["profile"].chance is None
    assert list(found) == ["profile", "neighbours", "optuna"], "who brought most comes first"


def test_the_share_rests_on_this_campaign_and_a_little_on_others(told: History) -> None:
    with told.database.read() as session:
        found = records(session, 1)
    assert found["profile"] == Record(3, Hits(1, 3), Hits(1, 1))
    assert found["neighbours"] == Record(1)


def test_a_reproduction_counts_its_hypothesis_once(told: History) -> None:
    hypothesis = judged(told, 6, "roofline", VerdictOutcome.SUPPORTED, -0.1)
    told.judge(hypothesis, VerdictOutcome.SUPPORTED, reproduces=1)
    found = of(told, 1)["roofline"]
    assert (found.judged, found.measured) == (1, 1)


def test_the_summary_and_the_hypothesis_tell_of_it(told: History) -> None:
    with told.database.read() as session:
        part = summarize(campaign_facts(session, 1)).proposers
        assert hypothesis_detail(session, 1).proposer_hits == "1 of 3 judged supported, 33 % (1 to 91 %)"
    assert part.sentence == ("1 proposer has verdicts; nothing of neighbours and optuna is judged yet.")
    assert part.lines == (
        "profile  1 of 3 judged supported, 33 % (1 to 91 %), 43 % after shrinkage; "
        "predicted −10.0 % on average, measured +7.0 % (1 of 2 inside the 80 % prediction)",
    )


def test_outcomes_are_counted_as_the_campaign_counts_them_and_a_mean_is_of_one_metric(
    tmp_path: Path,
) -> None:
    database = levers_on_four(tmp_path)
    with database.read() as session:
        found, counted = proposers(session, 1), calibration(session, 1)
        listed = predictions(session, Asked(1)).points
    database.close()
    assert sum(each.measured for each in found) == counted.total > len(listed)
    assert sum(each.inside for each in found) == counted.inside
    of = {each.name: each for each in found}
    assert {each.measured.metric for each in listed if each.hypothesis not in BITS} == {"tpot_ms", "nll_bits"}
    assert (of["questions"].predicted_mean, of["questions"].measured_mean) == (None, None)
    means = fmean(log1p(each.measured.relative) for each in listed if each.hypothesis in BITS)
    assert of["separation"].measured_mean == pytest.approx(expm1(means))
