"""What speaks against something beside its own verdicts: objections of model, engine and target, failures of
others. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from knowledge.figures import listed

MOST_NAMED = 3
"""Hypotheses, experiments or packages that a sentence names at most."""


class Mark(StrEnum):
    """What an objection of model, engine or target comes to."""

    INFEASIBLE = "infeasible"
    INCOMPLETE = "incomplete"
    """It lacks something that the user can name."""
    UNKNOWN = "unknown"
    """Nobody can tell here."""


@dataclass(frozen=True)
class Objection:
    """What speaks against something beside verdicts: `id` names it where it has a label; `absolute` tells
    that it can't be tested as long as this stands."""

    text: str
    id: str | None = None
    absolute: bool = True
    mark: Mark = Mark.INFEASIBLE


@dataclass(frozen=True)
class Moved:
    """A package that ran in another version than here."""

    package: str
    then: str
    here: str

    def __str__(self) -> str:
        """Return it in words: `torch 2.13.0 → 2.14.0`."""
        return f"{self.package} {self.then} → {self.here}"


@dataclass(frozen=True)
class Failure:
    """A test of something else whose candidate did not run, by its label, and the values that this was put
    down to, as `KNOB=VALUE`.

    `versions` is what of the engine it ran with, in words (empty: not known), `moved` the packages that run
    here in other versions: then it rules nothing out here, as a finding of other versions does not.
    """

    experiment: str
    values: str
    versions: str = ""
    moved: tuple[Moved, ...] = ()

    @property
    def ran_with(self) -> str:
        """A sentence on the versions; empty where they are not known."""
        if self.moved:
            named = self.moved[:MOST_NAMED]
            then = listed([f"{each.package} {each.then}" for each in named])
            here = listed([f"{each.package} {each.here}" for each in named])
            return f" It ran with {then}, and here runs {here}."
        return f" It ran with {self.versions}." if self.versions else ""
