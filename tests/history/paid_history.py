"""A campaign on rented machines, as its worker leaves it: runs that ended, run, and wait, within budgets."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select, update

from db import money, queue, remote_runs
from db.clock import now
from db.models import Experiment, Hypothesis, Job, JobQuote
from db.states import BudgetScope, ExperimentKind, VerdictOutcome
from experiments.worker.claiming import Taken, tell_claimed
from tests.history.campaign_history import History
from tests.simulated.specs import a_test_job

TARGET = "files:T"
OTHER = "files:Large"
BASIS = "4.84 USD an hour for T: packaged prices; expected by a guess of 30 min: too few such jobs ran here"
LIMIT_S = 1800.0
PRICE = {"expected": 500_000, "bound": 2_000_000}


class PaidHistory(History):
    """Adds jobs and runs of experiments; amounts in millionths of a dollar."""

    def job(self, experiment_id: int, target: str = TARGET) -> int:
        with self.database.write() as session:
            spec = a_test_job(experiment_id=experiment_id)
            return queue.enqueue(
                session,
                spec.kind,
                spec.model_dump(mode="json"),
                campaign_id=self.campaign_id,
                experiment_id=experiment_id,
                device_class=target,
            )

    def run(self, job_id: int, target: str = TARGET, *, bound: int = PRICE["bound"]) -> remote_runs.Run:
        """The next run of the job, which a worker looks after."""
        with self.database.write() as session:
            claimed = queue.claim_one(session, job_id, "desk/remote#1", f"{target}/J-{job_id}", 600)
            assert claimed is not None
            key = f"job{job_id}-{claimed.attempt}"
            tell_claimed(session, Taken(claimed, key))
            run = remote_runs.intend(
                session,
                claimed,
                executor="files",
                target=target,
                key=key,
                expected_s=360,
                expected=PRICE["expected"],
                bound=bound,
                basis=BASIS,
                limit_s=LIMIT_S,
            )
            remote_runs.submitted(session, {run.id: f"fc-{key}"})
        return run

    def end(self, run: remote_runs.Run, outcome: str, actual: int | None, *, billed: bool = False) -> None:
        with self.database.write() as session:
            remote_runs.settle(
                session, run.id, outcome, None if actual is None else 400.0, actual, billed=billed
            )
            state = "queued" if outcome == "timed_out" else "done"
            session.execute(update(Job).where(Job.id == run.job_id).values(state=state, owner=None))

    def waits(self, job_id: int, *, why: str, asks: bool, target: str = TARGET) -> None:
        with self.database.write() as session:
            session.add(
                JobQuote(
                    job_id=job_id,
                    target=target,
                    expected_s=360,
                    bound_s=LIMIT_S,
                    expected_microusd=PRICE["expected"],
                    bound_microusd=PRICE["bound"],
                    basis=BASIS,
                    waits_because=why,
                    needs_approval=asks,
                )
            )

    def nobody_looks_after(self, run: remote_runs.Run) -> None:
        """Its worker is gone: the lease has run out."""
        with self.database.write() as session:
            session.execute(update(Job).where(Job.id == run.job_id).values(lease_expires_at=now()))

    def planned(self, hypothesis_id: int) -> int:
        """An experiment of the hypothesis that nothing was done for."""
        with self.database.write() as session:
            hypothesis = session.get_one(Hypothesis, hypothesis_id)
            experiment = Experiment(
                campaign_id=self.campaign_id,
                hypothesis_id=hypothesis_id,
                kind=ExperimentKind.TEST,
                target=TARGET,
                control_configuration_id=hypothesis.control_configuration_id,
                candidate_configuration_id=hypothesis.candidate_configuration_id,
                plan={"metric": "tpot_ms"},
            )
            session.add(experiment)
            session.flush()
            return experiment.id


def a_paid_history(folder: Path) -> PaidHistory:
    """Five runs that ended, two in flight, one of which nobody looks after, and two jobs that wait."""
    found = PaidHistory(folder)
    supported = found.propose({"serving.threads": 1}, claim="One thread is faster than two.", predicted=-0.10)
    refuted = found.propose({"serving.dtype": "bfloat16"}, claim="Half the bytes, less time.", predicted=-0.2)
    running = found.propose({"serving.compile": "default"}, claim="Compiled steps are faster.")
    waiting = found.propose({"drafting.method": "ngram"}, claim="Repeated text drafts well.", predicted=-0.05)
    for hypothesis, outcome, effect, actual, billed in (
        (supported, VerdictOutcome.SUPPORTED, (-0.12, -0.14, -0.10), 420_000, True),
        (refuted, VerdictOutcome.REFUTED, (0.01, -0.01, 0.03), 610_000, False),
    ):
        experiment = found.judge(hypothesis, outcome, effect=effect, target=TARGET).experiment_id
        found.end(found.run(found.job(experiment)), "done", actual, billed=billed)
    again = found.job(found.planned(running))
    found.end(found.run(again), "timed_out", 900_000)
    found.run(again, bound=3_600_000)
    found.end(found.run(found.job(found.planned(refuted))), "lost", None)
    found.nobody_looks_after(found.run(found.job(found.planned(refuted), OTHER), OTHER))
    first = found.job(found.planned(waiting))
    found.waits(first, why="It costs $2.00 at most, and above $1.00 you are asked.", asks=True)
    second = found.job(found.planned(supported), OTHER)
    room = "It costs $2.00 at most, and the budget of files:Large has $0.50 left of $3.00."
    found.waits(second, why=room, asks=False, target=OTHER)
    with found.database.write() as session:
        for scope, name, limit, above in (
            (BudgetScope.TARGET, TARGET, 20_000_000, 1_000_000),
            (BudgetScope.CAMPAIGN, "1", 12_500_000, None),
            (BudgetScope.DAY, "", 7_000_000, None),
            (BudgetScope.TARGET, OTHER, 2_500_000, None),
        ):
            money.set_budget(session, scope, name, limit, above)
        assert session.scalars(select(Job.id)).all()
    return found
