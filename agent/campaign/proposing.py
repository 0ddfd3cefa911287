"""A round of proposals: what is queued is held against what is known, more is proposed, and all is ranked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from agent.campaign.asked_model.language_model import LanguageModel
from agent.campaign.decision.desk import Desk
from agent.campaign.desk_reading import DeskReader
from agent.campaign.glance import Seen
from agent.campaign.known.facts import Facts
from agent.campaign.queue import order
from agent.campaign.queue.held import release_held
from agent.campaign.queue.held_to_today import hold_to_today
from agent.campaign.queue.questions import pose_questions
from agent.campaign.rerun.confirm_queue import supported, take_in_supported
from agent.campaign.separation.disputes_near import disputes_near
from agent.campaign.separation.disputing import room_for_disputes, take_up_disputes
from agent.campaign.separation.separating import follow_up_what_had_none
from db.session import Database


class Proposing:
    """Proposes and ranks for one loop. `read` brings its desk, `model` is the campaign's language model, and
    `keep` keeps the loop's lease while much is looked through."""

    def __init__(
        self,
        database: Database,
        writing: Callable[[], AbstractContextManager[Session]],
        read: DeskReader,
        model: LanguageModel,
        keep: Callable[[], None],
    ) -> None:
        self._database = database
        self._writing = writing
        self._read = read
        self._model = model
        self._keep = keep
        self.ranked_through = -1
        """The last event that the order of the queue knows of, by its id."""
        self._disputes_through = 0
        self._is_held_to_today = False

    def round(self, facts: Facts, seen: Seen, left_s: Callable[[], float]) -> None:
        """Propose, where something may be tested soon, rank, and ask the language model for more, for
        which `left_s` tells the seconds that are left."""
        desk = self._held_to_today(self._read.desk(facts))
        facts = desk.facts
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
        if with_proposals:
            self._take_up_disputes(desk)
        self._model.brought(drafts)
        desk = self._read.desk(self._read.facts())
        with self._writing() as session:
            self.ranked_through = order.rank_queue(session, desk)
        if asks:
            self._model.ask(desk, idle=seen.idle, left_s=left_s())

    def _held_to_today(self, desk: Desk) -> Desk:
        """The desk after what was queued and what was confounded are held against what is known today, which
        is done once."""
        if self._is_held_to_today:
            return desk
        with self._writing() as session:
            dealt_with = hold_to_today(session, desk)
            queued = follow_up_what_had_none(session, desk)
        self._is_held_to_today = True
        return self._read.desk(self._read.facts()) if dealt_with or queued else desk

    def _take_up_disputes(self, desk: Desk) -> None:
        """Take up what the log told since the last look, a few in a transaction: others write in between, and
        the lease is kept."""
        room, is_all = room_for_disputes(desk), False
        while room > 0 and not is_all:
            self._keep()
            with self._database.read() as session:
                near = disputes_near(session, desk, self._disputes_through)
            looked_at, is_all = near.through, near.is_all
            if near.disputes:
                with self._writing() as session:
                    taken = take_up_disputes(session, desk, near, room)
                room, looked_at = room - taken.disputes, taken.through
            self._disputes_through = looked_at
