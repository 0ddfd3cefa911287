"""What was not there to make the values of some hypotheses when their campaign was last started. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping

from db.models.base import JsonObject
from experiments.space.configuration import KnobValue
from experiments.space.knob import is_among
from knowledge.queries.view import View

MISSING = "missing_tools"
"""What of a stored campaign's ground tells it."""


class MissingToolView(View):
    """A tool that was not there: the `values` that need it, by knob; `told` says why they can't be tested and
    what to do, in a sentence, and `command` installs it. `words` are what a row of the queue says of it,
    before the command, and `few_words` what is said where there is less room."""

    values: dict[str, tuple[KnobValue, ...]]
    told: str
    command: str

    def is_needed_by(self, candidate: JsonObject, levers: Container[str]) -> bool:
        """Whether a configuration has one of the values, of a knob of the levers that its test changes:
        another group size of quantized weights is quantized anew."""
        return any(
            knob.partition(".")[0] in levers and knob in candidate and is_among(candidate[knob], values)
            for knob, values in self.values.items()
        )

    @property
    def words(self) -> str:
        """What a row of the queue says of it, before the command."""
        return "needs what was not there when the campaign was last started; to install it"

    @property
    def few_words(self) -> str:
        """What is said of it before the command where a row is narrow, as on the Now page."""
        return "lacked a tool"


def missing_tools(spec: Mapping[str, object]) -> tuple[MissingToolView, ...]:
    """What a stored campaign's spec tells of them; nothing where nothing was missing."""
    found = spec.get("found")
    told = found.get(MISSING) if isinstance(found, dict) else None
    return tuple(MissingToolView.model_validate(each) for each in told or ())
