"""What speaks against findings beside their own verdicts: others that disagree, fresh runs that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Finding
from knowledge.doubts import doubt_words
from knowledge.findings.disputes import disputing
from knowledge.findings.telling import OPEN, disputes_of_each
from knowledge.queries.found.fresh_runs import differing_on


@dataclass(frozen=True)
class Doubt:
    """The labels of the findings that dispute one, the closest scope first, and of the newest fresh runs that
    differ from the supported tests on which it rests."""

    disputed_by: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()

    @property
    def words(self) -> str | None:
        """Both as a clause; None where there is neither."""
        return doubt_words(self.disputed_by, self.differing)


NO_DOUBT = Doubt()


def doubts_of(session: Session, findings: Sequence[Finding]) -> dict[int, Doubt]:
    """Return what speaks against each of these findings, by its id, of those against which anything does and
    that stand; a fixed number of statements."""
    disputed = disputes_of_each(session, findings)
    differing = differing_on(session, [each.id for each in findings if each.status in OPEN])
    return {
        number: Doubt(
            disputing(format_label(Noun.FINDING, number), disputed.get(number, ())),
            tuple(fresh.experiment for fresh in differing.get(number, ())),
        )
        for number in disputed.keys() | differing.keys()
    }
