"""What was not there to make the values of some hypotheses when their campaign was last started. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.space.configuration import KnobValue
from experiments.space.knob import is_among
from knowledge.queries.view import ChangeView, View

MISSING = "missing_tools"
"""What of a stored campaign's ground tells it."""


class MissingToolView(View):
    """A tool that was not there: the `values` that need it, by knob; `told` says why they can't be tested and
    what to do, in a sentence, and `command` installs it."""

    values: dict[str, tuple[KnobValue, ...]]
    told: str
    command: str

    def is_needed_by(self, change: Iterable[ChangeView]) -> bool:
        """Whether a change sets a knob to one of the values."""
        return any(
            each.after is not None and is_among(each.after, self.values.get(each.knob, ())) for each in change
        )

    @property
    def words(self) -> str:
        """What a row of the queue says of it, before the command."""
        return "needs what was not there when the campaign was last started; to install it"


def missing_tools(spec: Mapping[str, object]) -> tuple[MissingToolView, ...]:
    """What a stored campaign's spec tells of them; nothing where nothing was missing."""
    found = spec.get("found")
    told = found.get(MISSING) if isinstance(found, dict) else None
    return tuple(MissingToolView.model_validate(each) for each in told or ())
