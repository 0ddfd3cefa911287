"""The campaign's loop: propose, rank, dispatch, wait, judge, learn, and again.

One loop drives a campaign, under a lease; each step is one short transaction that holds the lease, so that a
loop killed anywhere is continued by the next one without a step lost or done twice. While an experiment runs
the loop only reads, rarely, because it shares the machine with what is measured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign import order
from agent.campaign.accept import accept
from agent.campaign.desk import Choice, Desk
from agent.campaign.device_faults import device_gave_out
from agent.campaign.dispatch import dispatch_baseline, dispatch_test
from agent.campaign.facts import Facts, read_facts
from agent.campaign.glance import Seen, look, nothing_soon
from agent.campaign.held import release_held
from agent.campaign.learn import learn_baseline, learn_test
from agent.campaign.legal import legal_here
from agent.campaign.measured import Baseline, read_baseline, under_digests
from agent.campaign.outcome import note_best
from agent.campaign.questions import pose_questions
from agent.campaign.separating import follow_up
from agent.campaign.waiting import approve_command, give_up, nobody_takes, overdue
from agent.campaign.worker_process import WorkerProcess
from configs.errors import AutoinferError, DatabaseLocked, LeaseLost
from configs.quantities import format_duration
from db import campaign_lease, events
from db.campaign_owner import free_from_the_dead, new_owner
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis
from db.session import Database
from db.states import CampaignState, ExperimentKind, ExperimentState
from experiments.engines.port import DEVICE_BUSY
from experiments.kill_points import KillPoint, reached
from experiments.worker.reaping import reap
from knowledge.approvals import awaits_approval
from knowledge.figures import counted

_LOG = logging.getLogger(__name__)

MAX_BASELINE_ATTEMPTS = 2
"""Baseline experiments that may come to nothing before the campaign gives up."""

WORTH_ANOTHER_BASELINE = ("error", "lost", DEVICE_BUSY)
"""Failures of a baseline that may not come again: the job broke or was taken away, or somebody else was on
the device. What the engine says against model or configuration holds the second time too."""


_WAS = {
    CampaignState.RUNNING: "",
    CampaignState.PAUSED: "was paused and ",
    CampaignState.STOPPING: "was about to end and ",
    CampaignState.STOPPED: "had ended and ",
}
"""What a campaign that is taken up was: who starts a loop for it wants it to run."""


@dataclass(frozen=True)
class LoopTimes:
    """Seconds: the campaign's lease; how often a loop looks while something is measured, and while nothing
    is (then the wait adds to every experiment)."""

    lease_s: float = 30.0
    busy_poll_s: float = 0.5
    idle_poll_s: float = 0.05

    @property
    def renew_s(self) -> float:
        """How often the lease is renewed, and the time spent is written down."""
        return self.lease_s / 5


class CampaignLoop:
    """Drives one campaign until it stops; `run` returns why.

    `worker` is kept alive when it is given, and wakes the loop when a job of it has ended; without it,
    workers started elsewhere take the jobs. `wait` takes seconds, `clock` is monotonic ones; both are passed
    in for tests. `attended` tells whether somebody may approve what waits for it: then the loop waits too,
    else it ends. `announce` is called after every turn.
    """

    def __init__(
        self,
        database: Database,
        campaign_id: int,
        *,
        worker: WorkerProcess | None = None,
        times: LoopTimes | None = None,
        wait: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        attended: bool = True,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._worker = worker
        self._times = times or LoopTimes()
        self._wait = wait or (time.sleep if worker is None else worker.wait)
        self._clock = clock
        self._attended = attended
        self._announce = announce
        self._owner = new_owner()
        self._renewed_at = 0.0
        self._counted_at = 0.0
        self._ranked_through = -1
        self._told_of_nobody = False
        self._waits, self._waited_through = False, -1
        self._baselines: dict[int, Baseline] = {}

    def run(self) -> str:
        """Drive the campaign to its end and return the sentence that says why it stopped.

        Raises `LeaseLost` when another loop has it, and `AutoinferError` when it can't go on. A database that
        another process keeps locked is no such thing: the same step is tried again.
        """
        self._take_over()
        try:
            while True:
                try:
                    reason = self._turn()
                except DatabaseLocked as locked:
                    _LOG.warning("%s The campaign goes on when it is free.", locked.message)
                    self._wait(self._times.busy_poll_s)
                    continue
                self._announce()
                if reason is not None:
                    return reason
                with self._database.read() as session:
                    rarely = self._waits or nothing_soon(session, self._campaign_id)
                self._wait(self._times.busy_poll_s if rarely else self._times.idle_poll_s)
        finally:
            self._let_go()
            self._announce()

    def _let_go(self) -> None:
        """Count the time and give the lease back; where the database is locked, it runs out by itself."""
        try:
            with self._database.write() as session:
                self._count_time(session)
                campaign_lease.release(session, self._campaign_id, self._owner)
        except DatabaseLocked as locked:
            _LOG.warning("%s", locked.message)

    def _take_over(self) -> None:
        with self._database.write() as session:
            free_from_the_dead(session, session.get_one(Campaign, self._campaign_id))
            if not campaign_lease.take(session, self._campaign_id, self._owner, self._times.lease_s):
                label = format_label(Noun.CAMPAIGN, self._campaign_id)
                raise LeaseLost(
                    f"Another process drives {label} now.",
                    "Follow it with: autoinfer log --follow; or start another with: autoinfer run --new",
                )
            campaign = session.get_one(Campaign, self._campaign_id)
            before = campaign.state
            begun = session.scalar(
                select(func.count()).select_from(Experiment).where(Experiment.campaign_id == campaign.id)
            )
            campaign.state = CampaignState.RUNNING
            campaign.ended_at = campaign.stopped_because = None
            if begun or before is not CampaignState.RUNNING:
                events.append(
                    session,
                    EventKind.CAMPAIGN_RESUMED,
                    f"The campaign {_WAS[before]}goes on where it was left",
                    format_label(Noun.CAMPAIGN, campaign.id),
                    campaign.id,
                )
        self._renewed_at = self._counted_at = self._clock()

    def _turn(self) -> str | None:
        """One look, and one step if there is one to take; the reason when the campaign ends."""
        self._keep_lease()
        if self._worker is not None and self._worker.keep_alive():
            self._tell(EventKind.WORKER_LOST, "The worker died and was started again")
        with self._database.read() as session:
            seen = look(session, self._campaign_id)
        if seen.unlearnt:
            return self._learn(seen.unlearnt[0])
        if seen.state == CampaignState.STOPPING and not seen.flying:
            return self._stop("stopped by the user", self._facts())
        if seen.flying:
            self._look_at_what_runs(seen)
        free = not seen.flying and seen.state == CampaignState.RUNNING
        to_rank = seen.has_baseline and seen.newest_cause > self._ranked_through
        if not free and not to_rank:
            return None  # somebody measures, or the user wants peace: nothing is computed beside
        if self._waits and seen.newest_cause <= self._waited_through:
            return None  # nothing was approved, enqueued or withdrawn
        facts = self._facts()
        if facts.baseline is None:
            if self._left_s(seen) <= 0:
                budget = format_duration(facts.spec.budget.wall_s)
                return self._stop(f"the budget of {budget} is spent and the baseline not measured", facts)
            self._start_baseline(facts)
            return None
        if to_rank:
            facts = self._propose_and_rank(facts, with_proposals=not seen.flying)
        if not free or facts.state != CampaignState.RUNNING:
            return None
        return self._next_experiment(facts)

    def _next_experiment(self, facts: Facts) -> str | None:
        desk = self._desk(facts)
        choice = desk.choose(self._left_s(facts))
        if choice.waits:
            return self._wait_for_approval(choice, facts)
        self._go_on()
        if choice.draft is not None:
            with self._writing() as session:
                nothing_else = order.newest_cause(session, facts.id) <= self._ranked_through
                accepted = accept(session, facts.id, choice.draft, facts.spec.plan.metric, desk.space)
                if choice.asks:
                    return None  # it is ranked, and then waits for approval
                facts = read_facts(session, facts.id)
                confirmation = next(each for each in facts.queue if each.id == accepted.hypothesis_id)
                dispatch_test(session, facts, confirmation)
            if nothing_else:  # it is under test and in no queue: there is nothing to rank beside it
                self._ranked_through = accepted.event_id
        elif choice.hypothesis is not None:
            prediction = desk.prediction_of(choice.hypothesis)
            with self._writing() as session:
                if awaits_approval(session.get_one(Hypothesis, choice.hypothesis.id)):
                    return None  # the approval was taken back meanwhile
                dispatch_test(
                    session, facts, replace(choice.hypothesis, prediction=prediction), choice.reason
                )
        else:
            return self._stop(choice.reason, facts)
        reached(KillPoint.AFTER_DISPATCH)
        return None

    def _wait_for_approval(self, choice: Choice, facts: Facts) -> str | None:
        """Say that nothing is left but what waits for approval, once, and wait for it; the reason to end
        where nobody may give it."""
        self._waited_through = self._ranked_through
        approve = approve_command(choice.waits)
        if not self._attended:
            resume = f"autoinfer run --resume {facts.label}"
            return self._stop(f"{choice.reason}; approve with {approve}, then go on with {resume}", facts)
        if not self._waits:
            with self._writing() as session:
                self._count_time(session)
                text = f"{choice.reason[0].upper()}{choice.reason[1:]}. Approve with: {approve}"
                events.append(session, EventKind.CAMPAIGN_WAITS, text, facts.label, facts.id)
            self._waits = True
        return None

    def _go_on(self) -> None:
        """Wait for no approval any more; the time until now was nobody's."""
        if self._waits:
            self._waits, self._counted_at = False, self._clock()

    def _look_at_what_runs(self, seen: Seen) -> None:
        """Say once when nobody takes the campaign's jobs; give them up when the budget is spent, or when the
        campaign is to end and nobody will take them.

        A test that runs is finished, because its verdict is near; half a baseline is worth nothing.
        """
        spent = seen.state == CampaignState.RUNNING and self._left_s(seen) <= 0
        stopping = seen.state == CampaignState.STOPPING
        ask = self._worker is None and (stopping or not self._told_of_nobody)
        if not (ask or spent):
            return
        with self._database.read() as session:
            device = nobody_takes(session, self._campaign_id) if ask else None
            running_too = spent and not seen.has_baseline
            give = spent or (stopping and device is not None)
            jobs = overdue(session, self._campaign_id, running_too=running_too) if give else []
        if device is not None and not self._told_of_nobody:
            self._told_of_nobody = True
            self._tell(
                EventKind.WORKER_MISSING,
                f"No worker takes jobs for {device}; start one: autoinfer worker --device {device}",
            )
        if jobs:
            ended = "was stopped" if stopping else "had spent its budget"
            with self._writing() as session:
                give_up(session, jobs, f"The campaign {ended} before a worker took it.")

    def _start_baseline(self, facts: Facts) -> None:
        with self._database.read() as session:
            tried = session.scalars(
                select(Experiment)
                .where(
                    Experiment.campaign_id == facts.id,
                    Experiment.kind == ExperimentKind.BASELINE,
                    Experiment.state != ExperimentState.CANCELLED,
                )
                .order_by(Experiment.id)
            ).all()
        if len(tried) >= MAX_BASELINE_ATTEMPTS or (
            tried and tried[-1].failure_kind not in WORTH_ANOTHER_BASELINE
        ):
            cause = tried[-1].failure or "no cause was recorded"
            self._stop(f"the baseline could not be measured: {cause}", facts)
            raise AutoinferError(
                f"The baseline could not be measured: {cause}",
                f"See its log with: autoinfer show {format_label(Noun.EXPERIMENT, tried[-1].id)} --log",
            )
        with self._writing() as session:
            dispatch_baseline(session, facts, legal_here(facts.spec, facts.checkpoint, facts.cores).space)

    def _learn(self, experiment_id: int) -> str | None:
        """Conclude from an experiment; gives the reason where the campaign can't go on after it."""
        with self._writing() as session:
            gave_out = device_gave_out(session, self._campaign_id, experiment_id)
            experiment = session.get_one(Experiment, experiment_id)
            if experiment.kind == ExperimentKind.BASELINE:
                learn_baseline(session, experiment_id)
            else:
                learn_test(session, experiment_id)
                follow_up(session, experiment_id)
                note_best(session, self._campaign_id)
            reached(KillPoint.BEFORE_LEARNT)
        if self._worker is not None:
            self._worker.did_well()
        return None if gave_out is None else self._stop(gave_out, self._facts())

    def _propose_and_rank(self, facts: Facts, *, with_proposals: bool) -> Facts:
        desk = self._desk(facts)
        drafts = order.proposals(desk) if with_proposals else []
        with self._writing() as session:
            pose_questions(session, desk)
            release_held(session, desk)
            order.take_in(session, desk, drafts)
        with self._database.read() as session:
            facts = read_facts(session, self._campaign_id)
        desk = self._desk(facts)
        with self._writing() as session:
            self._ranked_through = order.rank_queue(session, desk)
        with self._database.read() as session:
            return read_facts(session, self._campaign_id)

    def _desk(self, facts: Facts) -> Desk:
        with self._database.read() as session:
            baseline = self._baseline(session, facts)
            directives = order.read_directives(session, facts.id)
        return Desk(facts, legal_here(facts.spec, facts.checkpoint, facts.cores), baseline, directives)

    def _baseline(self, session: Session, facts: Facts) -> Baseline:
        """What the baseline measured, read once: an experiment that was learnt from never changes."""
        experiment_id = facts.baseline_experiment_id
        assert experiment_id is not None
        if experiment_id not in self._baselines:
            self._baselines = {experiment_id: read_baseline(session, experiment_id)}
        return under_digests(self._baselines[experiment_id], facts)

    def _facts(self) -> Facts:
        with self._database.read() as session:
            return read_facts(session, self._campaign_id)

    def _stop(self, reason: str, facts: Facts) -> str:
        if facts.open_questions:
            asked = counted(len(facts.open_questions), "question")
            reason += f"; {asked} of {len(facts.spec.questions)} left open: {', '.join(facts.open_questions)}"
        with self._writing() as session:
            campaign = session.get_one(Campaign, self._campaign_id)
            campaign.state = CampaignState.STOPPED
            campaign.stopped_because = reason
            campaign.ended_at = now()
            self._count_time(session)
            events.append(
                session,
                EventKind.CAMPAIGN_STOPPED,
                f"The campaign ended: {reason}",
                format_label(Noun.CAMPAIGN, campaign.id),
                campaign.id,
            )
        return reason

    def _keep_lease(self) -> None:
        if self._clock() - self._renewed_at < self._times.renew_s:
            return
        with self._database.write() as session:
            if not campaign_lease.renew(session, self._campaign_id, self._owner, self._times.lease_s):
                raise LeaseLost(
                    f"{format_label(Noun.CAMPAIGN, self._campaign_id)} was taken over by another process.",
                    "Follow it with: autoinfer log --follow",
                )
            self._count_time(session)
            reap(session)
        self._renewed_at = self._clock()

    def _count_time(self, session: Session) -> None:
        """Add the time since the last count to what the campaign has spent; paused time, and that of waiting
        for an approval, is free."""
        moment = self._clock()
        campaign = session.get_one(Campaign, self._campaign_id)
        if campaign.state != CampaignState.PAUSED and not self._waits:
            spent = float(campaign.budget.get("spent_s", 0.0)) + moment - self._counted_at
            campaign.budget = {**campaign.budget, "spent_s": spent}
        self._counted_at = moment

    def _left_s(self, now: Seen | Facts) -> float:
        wall_s = now.wall_s if isinstance(now, Seen) else now.spec.budget.wall_s
        return wall_s - now.spent_s - (0.0 if self._waits else self._clock() - self._counted_at)

    def _tell(self, kind: EventKind, text: str) -> None:
        with self._writing() as session:
            events.append(
                session, kind, text, format_label(Noun.CAMPAIGN, self._campaign_id), self._campaign_id
            )

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        """A write transaction that rolls back unless this loop still has the campaign's lease."""
        with self._database.write() as session:
            campaign_lease.hold(session, self._campaign_id, self._owner)
            yield session
