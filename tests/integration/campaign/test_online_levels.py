"""The level of each test is set and sealed when it is dispatched, from what is known by then."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.learning.outcome import campaign_outcome
from agent.campaign.queue.accept import accept
from agent.campaign.queue.dispatch import dispatch_test
from agent.campaign.rerun.reproduce import enqueue_reproduction
from agent.discovery.e_lond import level
from agent.ground.legal import legal_here
from agent.proposers.port import Draft
from cli.running.telling import Teller
from cli.sheets.campaign import print_campaign
from cli.sheets.experiment import print_experiment
from db import events
from db.event_kinds import EventKind
from db.models import Experiment, Job, Verdict
from db.session import Database
from db.states import ExperimentState, VerdictOutcome
from experiments.measurement.evidence import Arm, Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.found.verification import verification
from knowledge.queries.measured.experiment_detail import experiment_detail
from tests.simulated.by_hand import launch, measure_baseline, run_by_hand
from tests.simulated.campaign import start

ALPHA = 0.05
CHANGES = (
    {"simulated.tpot_ms": 7.0},
    {"simulated.tpot_ms": 9.9},
    {"simulated.tpot_ms": 7.0, "simulated.threads": 2},
    {"simulated.tpot_ms": 9.9, "simulated.threads": 2},
)


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    yield database, campaign_id
    database.close()


def dispatched(
    session: Session,
    campaign_id: int,
    number: int,
    *,
    metric: Metric | None = None,
    proposer: str = "rules",
    question: str | None = None,
) -> int:
    """Propose the `number`-th change and dispatch its test; the id of the experiment."""
    facts = read_facts(session, campaign_id)
    space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
    assert facts.baseline is not None
    candidate = space.with_change(facts.baseline, CHANGES[number])
    draft = Draft(
        claim=f"Claim {number}.",
        control=facts.baseline,
        candidate=candidate,
        lever="+".join(space.levers_between(facts.baseline, candidate)),
        prediction=Prediction(log_ratio_mean=-0.3, log_ratio_sd=0.1),
        min_effect=0.03,
        refuted_if="It is not.",
        rationale="It may.",
        proposer=proposer,
        metric=metric,
    )
    accepted = accept(session, campaign_id, draft, "tpot_ms", space, question=question)
    facts = read_facts(session, campaign_id)
    queued = next(each for each in facts.queue if each.id == accepted.hypothesis_id)
    return dispatch_test(session, facts, queued)


def sealed_level(session: Session, experiment_id: int) -> float | None:
    experiment = session.get_one(Experiment, experiment_id)
    job = session.scalars(select(Job.spec).where(Job.experiment_id == experiment_id)).one()
    assert job["plan"]["support_alpha"] == experiment.plan["support_alpha"]
    found = experiment.plan["support_alpha"]
    return None if found is None else float(found)


def measure(database: Database, experiment_id: int, candidate_ms: float) -> None:
    run_by_hand(
        database,
        experiment_id,
        lambda spec: [
            launch(Arm.CONTROL, Configuration.of(spec.control), 10.0),
            launch(Arm.CANDIDATE, Configuration.of(spec.candidate), candidate_ms),
        ],
    )
    with database.write() as session:
        learn_test(session, experiment_id)


def support(database: Database, experiment_id: int) -> None:
    """The verdict as a support, which takes validation pairs that these tests do not run."""
    with database.write() as session:
        session.execute(
            update(Verdict)
            .where(Verdict.experiment_id == experiment_id)
            .values(outcome=VerdictOutcome.SUPPORTED)
        )


def test_whoever_proposed_it_every_test_on_time_counts_and_discoveries_raise_the_next_level(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        first = dispatched(session, campaign_id, 0)
    measure(database, first, 7.0)
    with database.write() as session:
        second = dispatched(session, campaign_id, 1, proposer="user")
    measure(database, second, 9.9)
    support(database, first)
    with database.write() as session:
        third = dispatched(session, campaign_id, 2, proposer="questions", question="q")
    measure(database, third, 7.0)
    with database.write() as session:
        fourth = dispatched(session, campaign_id, 3, proposer="confirmation")
        found = [sealed_level(session, each) for each in (first, second, third, fourth)]
    assert found == [level(ALPHA, 0, 0), level(ALPHA, 1, 0), level(ALPHA, 2, 1), level(ALPHA, 3, 1)]


def test_a_verdict_that_is_not_known_yet_only_makes_the_next_level_stricter(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        dispatched(session, campaign_id, 0)
        second = dispatched(session, campaign_id, 1)
        assert sealed_level(session, second) == level(ALPHA, 1, 0)


def test_a_cancelled_test_has_spent_its_place(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        first = dispatched(session, campaign_id, 0)
        session.get_one(Experiment, first).state = ExperimentState.CANCELLED
        second = dispatched(session, campaign_id, 1)
        assert sealed_level(session, second) == level(ALPHA, 1, 0)


def test_a_claim_on_quality_has_no_level_and_takes_no_place(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        bits = dispatched(session, campaign_id, 0, metric=Metric.NLL_BITS)
        timed = dispatched(session, campaign_id, 1)
        assert sealed_level(session, bits) is None
        assert sealed_level(session, timed) == level(ALPHA, 0, 0)


def test_a_reproduction_runs_at_the_level_of_its_original_and_takes_no_place(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        first = dispatched(session, campaign_id, 0)
    measure(database, first, 7.0)
    with database.write() as session:
        again = enqueue_reproduction(session, first)
        second = dispatched(session, campaign_id, 1)
        assert sealed_level(session, again) == sealed_level(session, first)
        assert sealed_level(session, second) == level(ALPHA, 1, 0)
        shown = experiment_detail(session, again).level
        assert shown is not None
        assert shown.test == 1


def test_the_level_is_told_when_it_is_sealed_and_shown_with_the_verdict(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        first = dispatched(session, campaign_id, 0)
    measure(database, first, 7.0)
    with database.read() as session:
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_PREREGISTERED])[-1]
        assert (told.data or {})["level"] == {
            "test": 1,
            "discoveries": 0,
            "support_alpha": level(ALPHA, 0, 0),
        }
        assert "it is test 1 of the campaign on time, supported at 0.022" in told.text
        shown = experiment_detail(session, first).level
        assert shown is not None
        assert (shown.test, shown.support_alpha) == (1, level(ALPHA, 0, 0))
        assert shown.e_value_needed == pytest.approx(1 / level(ALPHA, 0, 0))
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == first)).one()
        assert shown.e_value == verdict.judge["details"]["e_value"]


@pytest.mark.parametrize(
    ("pair_s", "told"),
    [
        (60.0, "; the budget pays for 4 of the plan's 16 exploratory launch pairs"),
        (0.01, ""),
    ],
)
def test_a_test_that_may_take_fewer_pairs_than_the_plan_says_so(
    campaign: tuple[Database, int], monkeypatch: pytest.MonkeyPatch, pair_s: float, told: str
) -> None:
    monkeypatch.setattr("agent.plan.length.pair_seconds", lambda *_: pair_s)
    database, campaign_id = campaign
    with database.write() as session:
        first = dispatched(session, campaign_id, 0)
        event = events.read(session, kinds=[EventKind.HYPOTHESIS_PREREGISTERED])[-1]
        assert event.text.endswith(f"supported at 0.022{told}")
        assert (event.data or {})["full_pairs"] == session.get_one(Experiment, first).plan["full_pairs"]


def test_the_outcome_tells_how_many_of_the_supported_are_expected_to_be_false(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        first = dispatched(session, campaign_id, 0)
    measure(database, first, 7.0)
    support(database, first)
    with database.read() as session:
        found = campaign_outcome(session, campaign_id)["discovery"]
    assert json.loads(json.dumps(found)) == {
        "procedure": "e-LOND",
        "alpha": ALPHA,
        "tests": 1,
        "supported": 1,
        "spent_alpha": level(ALPHA, 0, 0),
        "expected_false": level(ALPHA, 0, 0),
        "quality": {"checked": 0, "expected_false": 0.0},
        "outside": {
            "tests": 0,
            "supported": 0,
            "expected_false": 0.0,
            "quality": {"checked": 0, "expected_false": 0.0},
        },
    }


def test_people_see_the_seal_the_level_and_the_bound(
    campaign: tuple[Database, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    database, campaign_id = campaign
    with database.write() as session:
        first = dispatched(session, campaign_id, 0)
    measure(database, first, 7.0)
    support(database, first)
    with database.read() as session:
        detail = experiment_detail(session, first)
        print_experiment(detail)
        print_campaign(campaign_detail(session, campaign_id), verification(session, campaign_id))
        outcome = campaign_outcome(session, campaign_id)
    Teller(database, campaign_id, quiet=True).result(outcome)
    told = capsys.readouterr().out
    assert f"sealed as  {detail.preregistration_digest}" in told
    assert "test 1 of the campaign on time, at 0.022: supported from an e-value of 45.7 on" in told
    bound = (
        "at most 0.022 of the 1 supported on time is expected to be false in its time (online control at 5 %"
    )
    assert told.count(bound) == 2
