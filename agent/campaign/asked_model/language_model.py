"""A campaign's language model: asked beside it, within its share and its budget; what it answered, kept.

A question is put when the queue has been filled, the share has room for what comes of it and the time that is
left bears a test of it, at most once between two verdicts, and after failures in a row less and less often. A
model elsewhere is asked while tests run, and its answer is taken in with the next proposals; for one on this
machine, which must be silent while something is measured, the campaign waits between two tests, for
`language_model.wait` at most, and then cuts the question off. A question is written down before it is sent,
and what was answered as soon as it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import floor, inf

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.asked_model.kept_questions import given_up, keep_question, keep_refused, keep_reply
from agent.campaign.asked_model.told_to_model import findings_in_scope, known, turnable
from agent.campaign.decision.choosing import fits_another
from agent.campaign.decision.desk import Desk
from agent.campaign.queue.accept import same_arms
from agent.language_model.answer import Allowed, Proposal, Refused, read_answer
from agent.language_model.asking import Question, Reply
from agent.language_model.beside import Asked
from agent.language_model.digest import tokens_of
from agent.language_model.exchange import GIVEN_UP
from agent.language_model.question import MOST_ASKED, can_change, question
from agent.proposers.dedupe import refusal
from agent.proposers.language_model import LanguageModelProposer, Ready, draft_from, most_standing
from agent.proposers.port import Draft
from configs.errors import AutoinferError, UsageError
from configs.language_model import PROPOSER, Endpoint, LanguageModelSpec
from configs.quantities import format_duration
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis
from db.session import Database
from db.states import ExperimentKind, HypothesisState
from experiments.space.configuration import Configuration
from knowledge.queries.claims.model_answers import last_answered, spent_on_model

_LOG = logging.getLogger(__name__)

MOST_SKIPPED = 16
"""Verdicts, at most, that are let pass after failures in a row before it is asked again."""

GIVE_UP_S = 1.0
"""Seconds that a question which is given up is waited for: its connection is cut."""

NOT_AWAITED = (
    "No answer came in the {wait} that the campaign waits for it between two tests. "
    "Raise language_model.wait, or lower language_model.answer_tokens."
)

ENDED_BEFORE = "The campaign ended before it was read."

NO_TIME = "The language model is asked no more: the {left} that are left bear no further test."

NO_ENDPOINT = (
    "No endpoint is known, so no language model is asked, and the others propose alone: set "
    "AUTOINFER_LLM_BASE_URL and AUTOINFER_LLM_MODEL, or language_model in the campaign's file."
)


@dataclass(frozen=True)
class _Put:
    """A question under way: the number it is kept under, what was asked and how, on which configuration;
    `wait_s` is how long the campaign waits for its answer, 0 where it does not, and `is_late` whether it
    waited that long in vain."""

    asked: Asked
    answer_id: int
    spec: LanguageModelSpec
    question: Question
    allowed: Allowed
    control: Configuration
    wait_s: float
    is_late: bool = False


class LanguageModel:
    """Asks for one campaign; `writing` opens a write transaction that holds the campaign's lease.

    `endpoint` None: it says so once in the log, and has nothing to say. `put` begins a question.
    """

    def __init__(
        self,
        database: Database,
        campaign_id: int,
        endpoint: Endpoint | None,
        writing: Callable[[], AbstractContextManager[Session]],
        put: Callable[[Endpoint, Question], Asked] = Asked,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._endpoint = endpoint
        self._writing = writing
        self._begin = put
        self._under_way: _Put | None = None
        self._ready: tuple[Ready, ...] = ()
        self._asked_at: int | None = None
        self._failures = 0
        self._said: set[str] = set()

    @property
    def has_answer(self) -> bool:
        """Whether a question was answered, or failed, and that is not taken in yet."""
        return self._under_way is not None and self._under_way.asked.answer() is not None

    @property
    def holds(self) -> bool:
        """Whether the campaign waits for an answer now; cuts the question off when it has waited enough."""
        put = self._under_way
        if put is None or not put.wait_s or put.asked.answer() is not None:
            return False
        if put.asked.wall_s > put.wait_s:
            put.asked.give_up(wait_s=GIVE_UP_S)
            self._under_way = replace(put, is_late=True)
            return False
        return True

    def close(self) -> None:
        """Give up what is under way, which a server that notices stops too, and write down what it used."""
        put, self._under_way = self._under_way, None
        if put is None:
            return
        put.asked.give_up(wait_s=GIVE_UP_S)
        reply = put.asked.answer() or given_up()
        unread = [] if reply.failure is not None else [Refused("the answer", ENDED_BEFORE)]
        try:
            with self._writing() as session:
                self._keep(session, put, reply, refused=unread)
        except AutoinferError as away:  # another process drives it now, or the database is locked
            _LOG.warning("The last question counts as the most that it may have used: %s", away.message)

    def proposer(self, desk: Desk) -> LanguageModelProposer:
        """Who brings what is ready, as much of it as the share allows; takes in an answer that is there."""
        self._take_in(desk)
        if not self._ready:
            return LanguageModelProposer()
        with self._database.read() as session:
            return LanguageModelProposer(self._ready, _room(session, desk))

    def brought(self, drafts: Sequence[Draft]) -> None:
        """Forget what was brought: it stands in the queue, or in the log as refused."""
        gone = {(each.from_model.answer_id, each.from_model.place) for each in drafts if each.from_model}
        self._ready = tuple(each for each in self._ready if (each.answer_id, each.place) not in gone)

    def ask(self, desk: Desk, *, idle: bool, left_s: float = inf) -> None:
        """Put the next question, where one is due and the share and the budget have room for it, and the
        time that is left bears a test of what comes of it.

        To a model on this machine only while the campaign is `idle`, when nothing is measured.
        """
        if left_s <= 0:
            return
        spec = desk.facts.spec.language_model
        if self._endpoint is None:
            self._say(NO_ENDPOINT)
        if self._endpoint is None or self._under_way is not None or self._ready or not self._is_due(desk):
            return
        wait_s = spec.wait_s(self._endpoint.base_url)
        if wait_s and not idle:
            return
        if not fits_another(desk, left_s):
            self._say(NO_TIME.format(left=format_duration(left_s)))
            return
        knobs = turnable(desk)
        with self._database.read() as session:
            if _room(session, desk, more_tested=1) < 1 or not can_change(knobs, desk.view.incumbent):
                return
            findings = findings_in_scope(session, desk)
            told = known(session, desk, findings)
            used = spent_on_model(session, self._campaign_id)
            last = last_answered(session, self._campaign_id)
        labels = tuple(format_label(Noun.FINDING, each.id) for each in findings)
        try:
            asked, found = question(
                told,
                knobs,
                labels,
                desk.view.incumbent,
                asked=MOST_ASKED,
                min_effect=desk.view.min_effect,
                prompt_tokens=spec.prompt_tokens,
                answer_tokens=spec.answer_tokens,
                seed=desk.facts.spec.seed % 2**31,
                timeout_s=spec.timeout,
            )
            room = _requests_in_budget(spec, used, asked)
        except UsageError as error:
            self._say(f"The language model is asked no more: {error}")
            return
        self._asked_at = len(desk.facts.trials)
        if found.content == last:
            return  # the campaign was continued, and nothing is known that it was not asked about
        asked = replace(asked, most_untold=room)
        with self._writing() as session:
            answer_id = keep_question(session, self._campaign_id, self._endpoint, spec, asked, found.content)
        self._under_way = _Put(
            self._begin(self._endpoint, asked),
            answer_id,
            spec,
            asked,
            Allowed({each.name: each for each in knobs}, frozenset(labels), desk.view.min_effect, MOST_ASKED),
            desk.view.incumbent,
            wait_s,
        )

    def _is_due(self, desk: Desk) -> bool:
        """Whether enough verdicts have come since the last question."""
        pause = min(MOST_SKIPPED, 2**self._failures)
        return self._asked_at is None or len(desk.facts.trials) >= self._asked_at + pause

    def _take_in(self, desk: Desk) -> None:
        """Write down the answer that is there, and refuse what can't be proposed, of it or any more."""
        put, waiting = self._under_way, self._ready
        reply = None if put is None else put.asked.answer()
        fresh: list[Ready] = []
        if put is not None and reply is not None:
            self._under_way = None
            if put.is_late and reply.failure == GIVEN_UP:
                reply = replace(reply, failure=NOT_AWAITED.format(wait=format_duration(put.wait_s)))
            self._failures = 0 if reply.failure is None else self._failures + 1
            proposals, refused = _read(reply, put.allowed)
            with self._writing() as session:
                for each in proposals:
                    ready = Ready(each, put.answer_id, len(fresh), put.control)
                    reason = self._against(session, desk, ready)
                    if reason is None:
                        fresh.append(ready)
                    else:
                        refused.append(Refused(each.words, reason))
                self._keep(session, put, reply, [each.proposal for each in fresh], refused)
                for no in refused:
                    self._refuse(session, put.answer_id, no)
        if waiting:
            with self._writing() as session:
                waiting = tuple(each for each in waiting if self._may_stand(session, desk, each))
        self._ready = (*waiting, *fresh)

    def _may_stand(self, session: Session, desk: Desk, ready: Ready) -> bool:
        """Whether a proposal that waited may be brought now; one that may not any more is refused in the log
        and among what was refused of its answer."""
        reason = self._against(session, desk, ready)
        if reason is not None:
            no = Refused(ready.proposal.words, reason)
            self._refuse(session, ready.answer_id, no)
            keep_refused(session, ready.answer_id, no)
        return reason is None

    def _against(self, session: Session, desk: Desk, ready: Ready) -> str | None:
        """Why a proposal may not be brought now, with the hypothesis that it repeats; None where it may."""
        try:
            draft = draft_from(desk.view, ready)
        except UsageError as error:
            return str(error)
        earlier = same_arms(
            session, desk.facts.id, draft.control, draft.candidate, desk.facts.objective.value
        )
        against = refusal(draft, desk.space, earlier, desk.view.refused)
        if against is not None:
            return against.reason
        spoken = desk.spoken_against(draft.control, draft.candidate)
        if spoken is not None:
            return f"{spoken}."
        return "It was proposed, or tested, before." if draft.candidate.digest in desk.view.taken else None

    def _keep(
        self,
        session: Session,
        put: _Put,
        reply: Reply,
        proposals: Sequence[Proposal] = (),
        refused: Sequence[Refused] = (),
    ) -> None:
        assert self._endpoint is not None
        secrets = (self._endpoint.key,)
        keep_reply(session, put.answer_id, secrets, put.spec, put.question, reply, proposals, refused)

    @property
    def _label(self) -> str:
        return format_label(Noun.CAMPAIGN, self._campaign_id)

    def _refuse(self, session: Session, answer_id: int, refused: Refused) -> None:
        events.append(
            session,
            EventKind.HYPOTHESIS_REFUSED,
            f"{refused.what}, by {PROPOSER}: {refused.reason}",
            campaign_id=self._campaign_id,
            data={"proposer": PROPOSER, "answer": answer_id},
        )

    def _say(self, why: str) -> None:
        """Say why it is not asked, once for each kind of reason, which stands before a colon."""
        kind = why.partition(":")[0]  # figures come after it, and change
        if kind in self._said:
            return
        self._said.add(kind)
        with self._writing() as session:
            events.append(session, EventKind.MODEL_NOT_ASKED, why, self._label, self._campaign_id)


def _read(reply: Reply, allowed: Allowed) -> tuple[list[Proposal], list[Refused]]:
    if reply.failure is not None:
        return [], []
    return read_answer(reply.text, allowed, was_cut=reply.was_cut)


def _requests_in_budget(spec: LanguageModelSpec, used: tuple[int, float], asked: Question) -> int:
    """How many requests of the question, each answered at its longest, the budget has room for; raises
    `UsageError` where it has none."""
    tokens, usd = used
    sent = tokens_of(asked.system + asked.user)
    each = sent + asked.answer_tokens
    room = (spec.budget_tokens - tokens) // each
    if room < 1:
        raise UsageError(
            f"{tokens} of {spec.budget_tokens} tokens are used, and a question with its answer may take "
            f"{each} (language_model.budget_tokens)."
        )
    each_usd = spec.usd(sent, asked.answer_tokens)
    if spec.budget_usd is not None and each_usd:
        room = min(room, floor((spec.budget_usd - usd) / each_usd))
        if room < 1:
            raise UsageError(
                f"{usd:.4f} of {spec.budget_usd:g} USD are used, and a question with its answer may cost "
                f"{each_usd:.4f} (language_model.budget_usd)."
            )
    return room


def _room(session: Session, desk: Desk, more_tested: int = 0) -> int:
    """How many more hypotheses its share allows, once `more_tested` more of others were tested."""
    of_a_model = Hypothesis.proposer == PROPOSER
    stands = select(func.count()).where(
        Hypothesis.campaign_id == desk.facts.id, of_a_model, Hypothesis.state != HypothesisState.WITHDRAWN
    )
    tested = (
        select(func.count(Experiment.hypothesis_id.distinct()))
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(Experiment.campaign_id == desk.facts.id, Experiment.kind == ExperimentKind.TEST, ~of_a_model)
    )
    standing = session.scalar(stands) or 0
    others = (session.scalar(tested) or 0) + more_tested
    return most_standing(desk.facts.spec.language_model.share, others) - standing
