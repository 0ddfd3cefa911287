"""Hypotheses that stand as under test and that nothing is done about: interrupted, or not concluded from."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy.orm import Session

from db.states import HypothesisState
from knowledge.queries.at_work import Interrupted, in_a_word, interrupted_tests
from knowledge.queries.ended_tests import EndedTest, ended_tests


class LeftAlone(NamedTuple):
    """What became of a test: nobody measures it any more, or it has `ended` and its campaign is to conclude
    from it. The names are those of the fields of rows that tell it."""

    interrupted: Interrupted | None
    ended: EndedTest | None

    @property
    def word(self) -> str:
        """The word for it where the state of a hypothesis is shown."""
        return in_a_word(HypothesisState.TESTING.value, self.interrupted, self.ended)


def left_alone(session: Session, testing: Collection[int]) -> dict[int, LeftAlone]:
    """Those of these hypotheses under test; nothing is asked where none is under test."""
    if not testing:
        return {}
    interrupted, ended = interrupted_tests(session, testing), ended_tests(session, testing)
    return {
        number: LeftAlone(interrupted.get(number), ended.get(number))
        for number in testing
        if number in interrupted or number in ended
    }
