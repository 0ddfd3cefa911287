"""The campaign's loop: propose, rank, dispatch, wait, judge, learn, and again.

One loop drives a campaign, under a lease; each step is one short transaction that holds the lease, so that a
loop killed anywhere is continued by the next one without a step lost or done twice. A campaign has one
experiment at a time on each of its devices. While every device is at work the loop only reads, rarely,
because it shares the machine with what is measured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign import order
from agent.campaign.accept import accept
from agent.campaign.baseline_attempts import Attempts, baseline_attempts
from agent.campaign.choosing import Choice, choose
from agent.campaign.confirm_queue import supported, take_in_supported
from agent.campaign.confirmations import Confirmations
from agent.campaign.confirming import left_over
from agent.campaign.desk import Desk
from agent.campaign.device_faults import GaveOut, device_gave_out, give_up_device
from agent.campaign.devices import Devices, device_of, leave_out
from agent.campaign.dispatch import dispatch_baseline, dispatch_test
from agent.campaign.disputing import take_disputes_apart
from agent.campaign.facts import Facts
from agent.campaign.fewer_bits import begin_from_fewer_bits
from agent.campaign.glance import Seen, devices_of_campaign, look, nothing_soon
from agent.campaign.held import release_held
from agent.campaign.language_model import LanguageModel
from agent.campaign.learn import learn_baseline, learn_test
from agent.campaign.measured import Baseline, read_baseline, under_digests
from agent.campaign.night import tell_of_question
from agent.campaign.outcome import note_best
from agent.campaign.price_wait import PriceWait
from agent.campaign.questions import pose_questions
from agent.campaign.reading_facts import read_facts
from agent.campaign.separating import follow_up
from agent.campaign.spent_time import SpentTime
from agent.campaign.waiting import approve_command, give_up, nobody_takes, overdue
from agent.campaign.within_memory import legal_of
from agent.campaign.worker_process import Workers
from configs.errors import PASSING, AutoinferError, LeaseLost
from configs.language_model import Endpoint
from configs.quantities import format_duration
from configs.targets import is_rented
from db import campaign_lease, events
from db.campaign_owner import free_from_the_dead, new_owner
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis
from db.session import Database
from db.states import CampaignState, ExperimentKind, HypothesisState, JobState
from experiments.kill_points import KillPoint, reached
from experiments.worker.reaping import reap
from knowledge.approvals import awaits_approval
from knowledge.figures import counted

_LOG = logging.getLogger(__name__)

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

    `workers` are kept alive when they are given, and wake the loop when a job has ended; without them,
    workers started elsewhere take the jobs. `absent` are devices of the campaign that are not there now.
    `wait` takes seconds, `clock` is monotonic ones; both are passed in for tests. `attended` tells whether
    somebody may approve what waits for it: then the loop waits too, else it ends. `announce` is called after
    every turn. `endpoint` is where the campaign's language model is asked, where it has one.
    """

    def __init__(
        self,
        database: Database,
        campaign_id: int,
        *,
        workers: Workers | None = None,
        absent: Collection[str] = (),
        times: LoopTimes | None = None,
        wait: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        attended: bool = True,
        announce: Callable[[], None] = lambda: None,
        endpoint: Endpoint | None = None,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._workers = workers
        self._absent = tuple(absent)
        self._times = times or LoopTimes()
        self._wait = wait or (time.sleep if workers is None else workers.wait)
        self._clock = clock
        self._attended = attended
        self._announce = announce
        self._owner = new_owner()
        self._renewed_at = 0.0
        self._time = SpentTime(clock)
        self._model = LanguageModel(database, campaign_id, endpoint, self._writing)
        self._elsewhere = Confirmations(database, campaign_id, self._writing)
        self._price = PriceWait(
            database,
            campaign_id,
            self._time,
            self._writing,
            lambda reason: self._stop(reason, self._facts()),
            attended=attended,
        )
        self._ranked_through = -1
        self._told_of_nobody = False
        self._is_paid = False
        self._rests, self._waited_through = False, -1
        self._baselines: dict[int, Baseline] = {}
        self._baseline_id: int | None = None

    def run(self) -> str:
        """Drive the campaign to its end and return the sentence that says why it stopped.

        Raises `LeaseLost` when another loop has it, and `AutoinferError` when it can't go on. A database that
        another process keeps locked, or that does not answer, is no such thing: the same step is tried again.
        """
        self._take_over()
        try:
            while True:
                try:
                    reason = self._turn()
                    if reason is not None:
                        return reason  # announced as the loop lets go
                    self._announce()
                    with self._database.read() as session:
                        rarely = self._time.waits or self._rests or nothing_soon(session, self._campaign_id)
                except PASSING as away:
                    _LOG.warning("%s The campaign goes on when it is free.", away.message)
                    self._wait(self._times.busy_poll_s)
                    continue
                self._wait(self._times.busy_poll_s if rarely else self._times.idle_poll_s)
        finally:
            self._model.close()
            self._let_go()
            self._announce()

    def _let_go(self) -> None:
        """Count the time and give the lease back; where the database is locked, it runs out by itself."""
        try:
            with self._database.write() as session:
                self._time.count(session, self._campaign_id)
                campaign_lease.release(session, self._campaign_id, self._owner)
        except PASSING as away:
            _LOG.warning("%s", away.message)

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
            self._is_paid = any(map(is_rented, devices_of_campaign(campaign)))
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
            for device in self._absent:
                rest = [each for each in devices_of_campaign(campaign) if each not in self._absent]
                leave_out(session, campaign.id, device, "it is not there", rest)
        self._renewed_at = self._clock()
        self._time.begin()

    def _turn(self) -> str | None:
        """One look, and one step if there is one to take; the reason when the campaign ends."""
        self._keep_lease()
        with self._database.read() as session:
            seen = look(session, self._campaign_id)
        self._keep_workers(seen)
        if seen.unlearnt:
            return self._learn(seen.unlearnt[0], seen.devices)
        if seen.unlearnt_there:
            self._elsewhere.learn(seen.unlearnt_there[0])
            self._rests = False
            return None
        if seen.state == CampaignState.STOPPING and seen.idle:
            return self._stop("stopped by the user", self._facts())
        if self._price.no_money and seen.idle:
            return self._stop(self._price.no_money, self._facts())
        if not seen.idle:
            self._look_at_what_runs(seen)
            ended = self._look_at_the_prices(seen)
            if ended is not None:
                return ended
        if seen.idle and self._model.holds:
            return None  # it is on this machine, and is silent while something is measured
        answered = bool(seen.free) and self._model.has_answer
        to_rank = seen.has_baseline and (answered or seen.newest_cause > self._ranked_through)
        if not seen.free and not to_rank:
            return None  # everything measures, or the user wants peace: nothing is computed beside
        if (self._time.waits or (self._rests and not seen.idle)) and (
            seen.newest_cause <= self._waited_through
        ):
            return None  # nothing was approved, enqueued or withdrawn, and no verdict came
        facts = self._facts()
        if facts.baseline is None:
            if self._left_s(seen) <= 0:
                budget = format_duration(facts.spec.budget.wall_s)
                return self._stop(f"the budget of {budget} is spent and the baseline not measured", facts)
            return self._start_baseline(facts, seen)
        if to_rank:
            facts = self._propose_and_rank(facts, seen)
        if facts.state != CampaignState.RUNNING or (seen.idle and self._model.holds):
            return None
        desk = self._desk(facts)
        if self._elsewhere.send(desk, seen, self._left_s(facts)):
            return None  # the next look sees what was sent
        return self._next_experiment(desk, seen) if seen.free else None

    def _keep_workers(self, seen: Seen) -> None:
        if self._workers is None:
            return
        for device in self._workers.keep_alive((*seen.devices.usable, *seen.elsewhere)):
            several = len(seen.devices.every) + len(seen.elsewhere) > 1
            which = f"The worker of {device}" if several else "The worker"
            self._tell(EventKind.WORKER_LOST, f"{which} died and was started again")

    def _next_experiment(self, desk: Desk, seen: Seen) -> str | None:
        """Give the first free device the next test; the reason to end where there is none, and none flies
        either, on any target."""
        facts, device = desk.facts, seen.free[0]
        choice = choose(desk, self._left_s(facts), flying=seen.flying)
        self._rests = not seen.idle and choice.hypothesis is None and choice.draft is None
        if self._rests:
            self._waited_through = self._ranked_through
            return None
        if choice.waits:
            return self._wait_for_approval(choice, facts)
        self._time.go_on()
        if choice.draft is not None:
            with self._writing() as session:
                nothing_else = order.newest_cause(session, facts.id) <= self._ranked_through
                accepted = accept(session, facts.id, choice.draft, facts.spec.plan.metric, desk.space)
                if choice.asks:
                    return None  # it is ranked, and then waits for approval
                facts = read_facts(session, facts.id)
                confirmation = next(each for each in facts.queue if each.id == accepted.hypothesis_id)
                dispatch_test(session, facts, confirmation, device=device)
            if nothing_else:  # it is under test and in no queue: there is nothing to rank beside it
                self._ranked_through = accepted.event_id
        elif choice.hypothesis is not None:
            prediction = desk.prediction_of(choice.hypothesis)
            with self._writing() as session:
                row = session.get_one(Hypothesis, choice.hypothesis.id)
                if awaits_approval(row) or row.state is not HypothesisState.QUEUED:
                    return None  # its approval was taken back meanwhile, or it was withdrawn
                chosen = replace(choice.hypothesis, prediction=prediction)
                dispatch_test(session, facts, chosen, choice.reason, device)
        else:
            return self._stop(
                choice.reason + left_over(desk.ranking.places, facts, self._left_s(facts)), facts
            )
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
        if not self._time.waits:
            with self._writing() as session:
                self._time.count(session, self._campaign_id)
                text = f"{choice.reason[0].upper()}{choice.reason[1:]}. Approve with: {approve}"
                events.append(session, EventKind.CAMPAIGN_WAITS, text, facts.label, facts.id)
            self._time.waits = True
        return None

    def _look_at_what_runs(self, seen: Seen) -> None:
        """Say once when nobody takes the campaign's jobs; give them up when the budget is spent, or when the
        campaign is to end and nobody will take them.

        A test that runs is finished, because its verdict is near; half a baseline is worth nothing.
        """
        spent = seen.state == CampaignState.RUNNING and self._left_s(seen) <= 0
        stopping = seen.state == CampaignState.STOPPING
        ended = "was stopped" if stopping else "had spent its budget"
        if (spent or stopping) and seen.out_there:
            self._elsewhere.take_back(f"The campaign {ended} before anything ran there.")
        ask = self._workers is None and (stopping or not self._told_of_nobody)
        if not (ask or spent):
            return
        with self._database.read() as session:
            device = nobody_takes(session, self._campaign_id) if ask else None
            unserved = device or (nobody_takes(session, self._campaign_id, elsewhere=True) if ask else None)
            running_too = spent and not seen.has_baseline
            give = spent or (stopping and device is not None)
            jobs = overdue(session, self._campaign_id, running_too=running_too) if give else []
        if unserved is not None and not self._told_of_nobody:
            self._told_of_nobody = True
            option = "target" if is_rented(unserved) else "device"
            self._tell(
                EventKind.WORKER_MISSING,
                f"No worker takes jobs for {unserved}; start one: autoinfer worker --{option} {unserved}",
            )
        if jobs:
            with self._writing() as session:
                give_up(session, jobs, f"The campaign {ended} before a worker took it.")

    def _look_at_the_prices(self, seen: Seen) -> str | None:
        """Look at what is held for its price: on another target nothing waits for it as long as there is
        something else to do."""
        there = self._elsewhere.look_at_the_price(seen) if seen.out_there else None
        if self._is_paid and seen.flying:
            return self._price.look(seen.state)
        if seen.flying or not self._rests:
            return None
        if there is None or any(state is JobState.RUNNING for state in seen.out_there.values()):
            self._time.go_on()
            return None
        return self._price.wait(there)

    def _start_baseline(self, facts: Facts, seen: Seen) -> str | None:
        """Dispatch the baseline; the reason to end where no device is left for it."""
        with self._database.read() as session:
            tried = baseline_attempts(session, facts.id, self._baseline_id)
        if tried.gone is not None and tried.gone.lost and len(seen.devices.every) > 1:
            self._baseline_id = None
            return self._give_up(tried.gone, seen.devices)
        if tried.is_last and self._begins_from_fewer_bits(tried):
            return None
        if tried.is_last:
            self._stop(f"the baseline could not be measured: {tried.cause}", facts)
            raise AutoinferError(
                f"The baseline could not be measured: {tried.cause}",
                f"See its log with: autoinfer show {tried.label} --log",
            )
        device = seen.free[tried.count % len(seen.free)]  # another one than before, where there is one
        space = legal_of(facts).space
        with self._writing() as session:
            self._baseline_id = dispatch_baseline(session, facts, space, device)
        return None

    def _begins_from_fewer_bits(self, tried: Attempts) -> bool:
        with self._writing() as session:
            return begin_from_fewer_bits(session, self._campaign_id, tried.kind, tried.cause)

    def _give_up(self, gone: GaveOut, devices: Devices) -> str | None:
        """Go on without a device; the reason to end where it was the last."""
        with self._writing() as session:
            reason = give_up_device(session, self._campaign_id, devices, gone)
        return None if reason is None else self._stop(reason, self._facts())

    def _learn(self, experiment_id: int, devices: Devices) -> str | None:
        """Conclude from an experiment; gives the reason where the campaign can't go on after it."""
        with self._writing() as session:
            device, gone = device_of(session, experiment_id), device_gave_out(session, experiment_id)
            experiment = session.get_one(Experiment, experiment_id)
            if experiment.kind == ExperimentKind.BASELINE:
                learn_baseline(session, experiment_id)
            else:
                learn_test(session, experiment_id)
                follow_up(session, experiment_id)
                take_disputes_apart(session, experiment_id)
                note_best(session, self._campaign_id)
                tell_of_question(session, self._campaign_id)
            ended = None if gone is None else give_up_device(session, self._campaign_id, devices, gone)
            reached(KillPoint.BEFORE_LEARNT)
        self._rests = False
        if self._workers is not None and device is not None:
            self._workers.did_well(device)
        return None if ended is None else self._stop(ended, self._facts())

    def _propose_and_rank(self, facts: Facts, seen: Seen) -> Facts:
        desk = self._desk(facts)
        with_proposals = bool(seen.free) or not seen.flying
        asks = with_proposals and facts.spec.asks_a_model
        model = self._model.proposer(desk) if asks else None
        drafts = order.proposals(desk, model) if with_proposals else []
        found = supported(facts)
        with self._writing() as session:
            pose_questions(session, desk)
            release_held(session, desk)
            order.take_in(session, desk, drafts)
            take_in_supported(session, facts, found)
        self._model.brought(drafts)
        with self._database.read() as session:
            facts = read_facts(session, self._campaign_id)
        desk = self._desk(facts)
        with self._writing() as session:
            self._ranked_through = order.rank_queue(session, desk)
        if asks:
            self._model.ask(desk, idle=seen.idle)
        with self._database.read() as session:
            return read_facts(session, self._campaign_id)

    def _desk(self, facts: Facts) -> Desk:
        with self._database.read() as session:
            baseline = self._baseline(session, facts)
            directives = order.read_directives(session, facts.id)
        return Desk(
            facts,
            legal_of(facts),
            baseline,
            directives,
        )

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
            self._time.count(session, self._campaign_id)
            tell_of_question(session, campaign.id)
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
            self._time.count(session, self._campaign_id)
            reap(session)
        self._renewed_at = self._clock()

    def _left_s(self, now: Seen | Facts) -> float:
        wall_s = now.wall_s if isinstance(now, Seen) else now.spec.budget.wall_s
        return self._time.left_s(wall_s, now.spent_s)

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
