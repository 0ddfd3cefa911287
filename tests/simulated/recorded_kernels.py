"""A campaign by hand on the recorded kernels: hypotheses, their runs, and what follows of a verdict."""

from typing import Any

from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Queued
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.queue import order
from agent.campaign.queue.accept import accept
from agent.campaign.queue.dispatch import dispatch_test
from agent.campaign.separation.foreseen import set_aside
from agent.campaign.separation.separating import follow_up
from agent.ground.legal import legal_here
from agent.proposers.port import Draft
from agent.surrogate.levers import joined
from db.session import Database
from experiments.job.result import Failure
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from knowledge.queries.order.queue import QueueRow, queue_page
from tests.recorded.vllm_kernels import launch
from tests.simulated.by_hand import run_by_hand

GROUP, KERNEL = "quantization.group_size", "serving.linear_kernel"

SIMULATED = """
name: simulated
knobs:
  - {name: simulated.group, lever: quantization, values: [32, 128], default: 32, help: The size of groups.}
  - name: simulated.kernel
    lever: kernel
    values: [auto, machete, marlin]
    default: auto
    pins: {linear_kernel: {machete: MacheteLinearKernel, marlin: MarlinLinearKernel}}
    help: Which kernel runs.
"""
"""A space of the tests' engine in which the size of groups decides which kernel runs."""


def propose(
    session: Session,
    campaign_id: int,
    before: dict[str, object],
    after: dict[str, object],
    metric: str = "tpot_ms",
    **asks: Any,
) -> int:
    facts = read_facts(session, campaign_id)
    space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
    control, candidate = (
        space.configuration({"quantization.method": "awq", **knobs})  # type: ignore[dict-item]
        for knobs in (before, after)
    )
    draft = Draft(
        claim="Groups of 128 make a token at least 3 % faster than groups of 32.",
        control=control,
        candidate=candidate,
        lever=joined(space.levers_between(control, candidate)),
        prediction=Prediction(log_ratio_mean=-0.05, log_ratio_sd=0.05),
        min_effect=0.03,
        refuted_if="They do not.",
        rationale="Fewer scales are read.",
        proposer="user",
    )
    return accept(session, campaign_id, draft, metric, space, **asks).hypothesis_id


def next_one(database: Database, campaign_id: int, hypothesis_id: int) -> int | None:
    """What the loop does with a hypothesis whose turn it is, before it is tested."""
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
        desk = Desk(facts, legal, read_measured(session, facts), ())
        queued = next(each for each in facts.queue if each.id == hypothesis_id)
        return set_aside(session, desk, queued)


def run_recorded(
    database: Database, campaign_id: int, hypothesis_id: int, control: str, candidate: str
) -> Outcome | None:
    """Dispatch the hypothesis, record these runs as its arms, learn and follow up, as the loop does."""
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        queued = next(each for each in facts.queue if each.id == hypothesis_id)
        experiment_id = dispatch_test(session, facts, queued)

    def arms(spec: TestJob) -> list[LaunchRecord]:
        return [
            launch(Arm.CONTROL, control, Configuration.of(spec.control)),
            launch(Arm.CANDIDATE, candidate, Configuration.of(spec.candidate)),
        ]

    run_by_hand(database, experiment_id, arms)
    return learn(database, experiment_id)


def does_not_run(database: Database, campaign_id: int, hypothesis_id: int) -> Queued:
    """Dispatch the hypothesis, let its candidate not run, learn and follow up; returns what was queued."""
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        queued = next(each for each in facts.queue if each.id == hypothesis_id)
        experiment_id = dispatch_test(session, facts, queued)
    run_by_hand(database, experiment_id, lambda spec: [], Failure("unsupported", "There is no such kernel."))
    assert learn(database, experiment_id) is Outcome.INFEASIBLE
    return queued


def learn(database: Database, experiment_id: int) -> Outcome | None:
    with database.write() as session:
        outcome = learn_test(session, experiment_id)
        follow_up(session, experiment_id)
    return outcome


def ranked(database: Database, campaign_id: int) -> tuple[QueueRow, ...]:
    """The queue as `autoinfer queue` shows it, after the loop's next ranking."""
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
        order.rank_queue(session, Desk(facts, legal, read_measured(session, facts), ()))
    with database.read() as session:
        return queue_page(session, campaign_id, limit=10).items
