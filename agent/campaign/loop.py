"""The campaign's loop: propose, rank, dispatch, wait, judge, learn, and again.

One loop drives a campaign, under a lease; each step is one short transaction that holds the lease, so that a
loop killed anywhere is continued by the next one without a step lost or done twice. A campaign has one
experiment at a time on each of its devices. While every device is at work the loop only reads, rarely,
because it shares the machine with what is measured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from agent.campaign import life
from agent.campaign.asked_model.kept_questions import tell_of_unseen
from agent.campaign.asked_model.language_model import LanguageModel
from agent.campaign.baseline_run import BaselineRun
from agent.campaign.builds_ahead import BuildsAhead, tell_built
from agent.campaign.confirmations import Confirmations
from agent.campaign.decision.choosing import Choice, choose
from agent.campaign.decision.desk import Desk
from agent.campaign.desk_reading import DeskReader
from agent.campaign.device_rests import DeviceRests, Look, put_to_rest, waits_for_a_device, who_is_on
from agent.campaign.glance import Seen, look, nothing_soon
from agent.campaign.hold import Hold
from agent.campaign.jobs_out import JobsOut
from agent.campaign.known.facts import Facts
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.learning.learn_baseline import learn_baseline
from agent.campaign.learning.outcome import note_best
from agent.campaign.night import tell_of_question
from agent.campaign.proposing import Proposing
from agent.campaign.queue import order
from agent.campaign.queue.accept import accept
from agent.campaign.queue.dispatch import dispatch_test
from agent.campaign.rerun.confirming import left_over
from agent.campaign.resources.device_faults import device_gave_out, give_up_device
from agent.campaign.resources.devices import Devices, device_of
from agent.campaign.resources.price_wait import PriceWait
from agent.campaign.resources.room_wait import RoomWait
from agent.campaign.resources.spent_time import SpentTime
from agent.campaign.resources.waiting import approve_command
from agent.campaign.resources.worker_process import Workers
from agent.campaign.separation.disputing import take_disputes_apart
from agent.campaign.separation.foreseen import set_aside
from agent.campaign.separation.separating import follow_up
from agent.proposers.port import Draft
from configs.errors import PASSING, WAITED_FOR, DiskFull, LeaseLost, UsageError
from configs.language_model import Endpoint
from configs.quantities import format_duration
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis
from db.session import Database
from db.states import CampaignState, ExperimentKind, HypothesisState
from experiments.kill_points import KillPoint, reached
from experiments.worker.reaping import reap
from knowledge.acts.approvals import awaits_approval
from knowledge.going_on import BUDGET_OF, STOPPED_BY_USER

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoopTimes:
    """Seconds: the campaign's lease; how often a loop looks while something is measured, and while nothing
    is (then the wait adds to every experiment)."""

    lease_s: float = 30.0
    busy_poll_s: float = 0.5
    idle_poll_s: float = 0.05


class CampaignLoop:
    """Drives one campaign until it stops; `run` returns why.

    `workers` are kept alive when they are given, and wake the loop when a job has ended; without them,
    workers started elsewhere take the jobs. `absent` are devices of the campaign that are not there now.
    `wait` takes seconds, `clock` is monotonic ones; both are passed in for tests. `attended` tells whether
    somebody may approve what waits for it: then the loop waits too, else it ends. `announce` is called after
    every turn. With `builds_ahead` the devices that are free while the baseline is measured build what tests
    will load. `endpoint` is where the campaign's language model is asked, where it has one. `who` is asked
    who else is on a device that rests.
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
        builds_ahead: bool = False,
        endpoint: Endpoint | None = None,
        who: Callable[[str, str | None], Look] = who_is_on,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._workers = workers
        self._absent = tuple(absent)
        self._times = times or LoopTimes()
        self._wait = wait or (time.sleep if workers is None else workers.wait)
        self._attended = attended
        self._announce = announce
        self._hold = Hold(database, campaign_id, self._times.lease_s, clock)
        self._writing = self._hold.writing
        self._time = SpentTime(clock)
        self._read = DeskReader(database, campaign_id)
        self._model = LanguageModel(database, campaign_id, endpoint, self._writing)
        self._baseline = BaselineRun(database, self._writing, self._stop_now)
        self._builds = BuildsAhead(database, campaign_id, self._writing, begins=builds_ahead)
        self._proposing = Proposing(database, self._writing, self._read, self._model, self._keep)
        self._elsewhere = Confirmations(database, campaign_id, self._writing)
        self._device_rests = DeviceRests(database, campaign_id, self._writing, who, clock)
        self._price = PriceWait(
            database, campaign_id, self._time, self._writing, self._stop_now, attended=attended
        )
        self._out = JobsOut(
            database, campaign_id, self._time, self._writing, self._elsewhere, self._price, workers
        )
        self._room = RoomWait(
            self._wait,
            clock,
            _LOG.warning,
            f"autoinfer run --resume {format_label(Noun.CAMPAIGN, campaign_id)}",
        )
        self._rests, self._waited_through = False, -1

    def run(self) -> str:
        """Drive the campaign to its end and return the sentence that says why it stopped.

        Raises `LeaseLost` when another loop has it, and `AutoinferError` when it can't go on. A database that
        another process keeps locked, or that does not answer, is no such thing: the same step is tried again.
        Nor is one on a full disk, as long as `RoomWait` waits.
        """
        self._take_over()
        try:
            while True:
                try:
                    reason = self._turn()
                    if self._room.waits:
                        self._time.begin()  # nobody's time was it that there was no room
                        self._room.found_room()
                    if reason is not None:
                        return reason  # announced as the loop lets go
                    self._announce()
                    with self._database.read() as session:
                        rarely = self._time.waits or self._rests or nothing_soon(session, self._campaign_id)
                except PASSING as away:
                    _LOG.warning("%s The campaign goes on when it is free.", away.message)
                    self._wait(self._times.busy_poll_s)
                    continue
                except DiskFull as full:
                    self._room.found_full(full)
                    self._announce()  # which hears Ctrl C
                    continue
                self._wait(self._times.busy_poll_s if rarely else self._times.idle_poll_s)
        finally:
            self._model.close()
            self._let_go()
            self._announce()

    def _keep(self) -> None:
        """Keep the lease, with what is done each time it is renewed."""
        self._hold.keep(self._beside_the_lease)

    def _beside_the_lease(self, session: Session) -> None:
        """What is done each time the lease is renewed."""
        self._time.count(session, self._campaign_id)
        if not self._room.waits:  # the leases ran out for want of room: their workers come first
            reap(session)

    def _let_go(self) -> None:
        """Count the time and give the lease back; where the database is locked, it runs out by itself."""
        try:
            with self._database.write() as session:
                self._time.count(session, self._campaign_id)
                self._hold.release(session)
        except WAITED_FOR as away:
            if not self._room.waits:
                _LOG.warning("%s", away.message)

    def _take_over(self) -> None:
        with self._database.write() as session:
            if not self._hold.take(session):
                label = format_label(Noun.CAMPAIGN, self._campaign_id)
                raise LeaseLost(
                    f"Another process drives {label} now.",
                    "Follow it with: autoinfer log --follow; or start another with: autoinfer run --new",
                )
            life.take_up(session, self._campaign_id, self._absent)
            tell_of_unseen(session, self._campaign_id)
        self._time.begin()

    def _turn(self) -> str | None:
        """One look, and one step if there is one to take; the reason when the campaign ends."""
        self._keep()
        with self._database.read() as session:
            seen = look(session, self._campaign_id)
            if seen.state is CampaignState.STOPPED:  # as one that nobody drives, while the lease had run out
                return session.get_one(Campaign, self._campaign_id).stopped_because or STOPPED_BY_USER
        self._out.keep_workers(seen)
        if seen.unlearnt:
            return self._learn(seen.unlearnt[0], seen.devices)
        if seen.unlearnt_there:
            self._elsewhere.learn(seen.unlearnt_there[0])
            self._rests = False
            return None
        self._device_rests.look(seen.devices)
        self._let_time_rest(waits_for_a_device(seen))
        if seen.state == CampaignState.STOPPING and seen.idle:
            return self._stop_now(STOPPED_BY_USER)
        if self._price.no_money and seen.idle:
            return self._stop_now(self._price.no_money)
        if not seen.idle:
            self._out.look(seen, self._left_s(seen))
            ended = self._out.look_at_the_prices(seen, rests=self._rests)
            if ended is not None:
                return ended
        self._builds.look(seen)
        if seen.builds and not seen.measures and not seen.has_baseline:
            return None  # they end, and then the baseline is begun again, or the campaign ends
        if seen.idle and self._model.holds:
            return None  # it is on this machine, and is silent while something is measured
        answered = bool(seen.free) and self._model.has_answer
        to_rank = seen.has_baseline and (answered or seen.newest_cause > self._proposing.ranked_through)
        runs = seen.state is CampaignState.RUNNING
        is_spent = runs and self._time.rests and self._left_s(seen) <= 0  # no device need be free to end
        if not seen.free and not to_rank and not is_spent:
            return None  # everything measures or rests, or the user wants peace: nothing is computed beside
        if (self._time.waits or (self._rests and not seen.idle)) and (
            seen.newest_cause <= self._waited_through
        ):
            return None  # nothing was approved, enqueued or withdrawn, and no verdict came
        facts = self._read.facts()
        if facts.baseline is None:
            if self._left_s(seen) <= 0:
                budget = format_duration(facts.spec.budget.wall_s)
                return self._stop(f"{BUDGET_OF}{budget} is spent and the baseline not measured", facts)
            return self._baseline.begin(facts, seen)
        if to_rank:
            self._proposing.round(facts, seen, lambda: self._left_s(seen))
            facts = self._read.facts()
        if facts.state != CampaignState.RUNNING or (seen.idle and self._model.holds):
            return None
        if seen.idle and seen.free and self._model.has_answer:
            return None  # it came at once: the next look takes it in, before anything is measured
        desk = self._read.desk(facts)
        if self._elsewhere.send(desk, seen, self._left_s(facts)):
            return None  # the next look sees what was sent
        return self._next_experiment(desk, seen) if seen.free or self._time.rests else None

    def _next_experiment(self, desk: Desk, seen: Seen) -> str | None:
        """Give the first free device the next test; the reason to end where there is none, and none flies
        either, on any target. While every device rests a test waits for one."""
        facts, device = desk.facts, next(iter(seen.free), None)
        choice = choose(desk, self._left_s(facts), flying=seen.flying)
        if device is None and (choice.hypothesis is not None or choice.draft is not None):
            return None
        self._rests = not seen.idle and choice.hypothesis is None and choice.draft is None
        if self._rests:
            self._waited_through = self._proposing.ranked_through
            return None
        if choice.waits:
            return self._wait_for_approval(choice, facts)
        self._time.go_on()
        if choice.draft is not None:
            try:
                dispatched = self._confirm(choice.draft, desk, None if choice.asks else device)
            except UsageError as refused:
                return self._stop(f"the best can't be confirmed: {refused.message.rstrip('.')}", facts)
            if not dispatched:
                return None
        elif choice.hypothesis is not None:
            prediction = desk.prediction_of(choice.hypothesis)
            with self._writing() as session:
                row = session.get_one(Hypothesis, choice.hypothesis.id)
                if awaits_approval(row) or row.state is not HypothesisState.QUEUED:
                    return None  # its approval was taken back meanwhile, or it was withdrawn
                chosen = replace(choice.hypothesis, prediction=prediction)
                if set_aside(session, desk, chosen) is not None:
                    return None  # the next look ranks what makes its claim anew
                dispatch_test(session, facts, chosen, choice.reason, device)
        else:
            return self._stop(
                choice.reason + left_over(desk.ranking.places, facts, self._left_s(facts)), facts
            )
        reached(KillPoint.AFTER_DISPATCH)
        return None

    def _confirm(self, draft: Draft, desk: Desk, device: str | None) -> bool:
        """Put the confirmation of the best down and give it to the device; without one it waits in the queue,
        to be ranked and approved. Whether it was given. Raises `UsageError` where it can't be put down."""
        facts = desk.facts
        with self._writing() as session:
            nothing_else = order.newest_cause(session, facts.id) <= self._proposing.ranked_through
            accepted = accept(session, facts.id, draft, facts.spec.plan.metric, desk.space)
            if device is None:
                return False
            facts = read_facts(session, facts.id)
            confirmation = next(each for each in facts.queue if each.id == accepted.hypothesis_id)
            dispatch_test(session, facts, confirmation, device=device)
        if nothing_else:  # it is under test and in no queue: there is nothing to rank beside it
            self._proposing.ranked_through = accepted.event_id
        return True

    def _wait_for_approval(self, choice: Choice, facts: Facts) -> str | None:
        """Say that nothing is left but what waits for approval, once, and wait for it; the reason to end
        where nobody may give it."""
        self._waited_through = self._proposing.ranked_through
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

    def _learn(self, experiment_id: int, devices: Devices) -> str | None:
        """Conclude from an experiment; gives the reason where the campaign can't go on after it."""
        with self._writing() as session:
            device, gone = device_of(session, experiment_id), device_gave_out(session, experiment_id)
            experiment = session.get_one(Experiment, experiment_id)
            if experiment.kind == ExperimentKind.BASELINE:
                learn_baseline(session, experiment_id)
                tell_built(session, self._campaign_id)
            else:
                learn_test(session, experiment_id)
                follow_up(session, experiment_id)
                take_disputes_apart(session, experiment_id)
                note_best(session, self._campaign_id)
                tell_of_question(session, self._campaign_id)
            put_to_rest(session, experiment_id, self._campaign_id, devices)
            ended = None if gone is None else give_up_device(session, self._campaign_id, devices, gone)
            reached(KillPoint.BEFORE_LEARNT)
        self._rests = False
        if self._workers is not None and device is not None:
            self._workers.did_well(device)
        return None if ended is None else self._stop_now(ended)

    def _let_time_rest(self, rests: bool) -> None:
        """Count no time while others use every device and nothing of the campaign is out."""
        if rests is not self._time.rests:
            with self._writing() as session:
                self._time.rest(rests, session, self._campaign_id)

    def _stop_now(self, reason: str) -> str:
        return self._stop(reason, self._read.facts())

    def _stop(self, reason: str, facts: Facts) -> str:
        reason = life.left_open(reason, facts)
        with self._writing() as session:
            life.end(session, self._campaign_id, reason)
            self._time.count(session, self._campaign_id)
        return reason

    def _left_s(self, now: Seen | Facts) -> float:
        wall_s = now.wall_s if isinstance(now, Seen) else now.spec.budget.wall_s
        return self._time.left_s(wall_s, now.spent_s)
