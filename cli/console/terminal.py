"""The console on which others' text is shown: what steers a terminal is written out instead of being sent.

Notes, claims, reasons that quote a log and imported findings may hold escape sequences and marks that turn
the direction of text. A terminal would obey them, so that a line could hide another or look like ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from cli.console.written_out import written_out


class Steadfast(Console):
    """A console that sends no character of a text that would steer the terminal; its own colours stay."""

    def render_str(self, text: str, **options: object) -> Text:
        """The text to lay out, with what steers written out."""
        return super().render_str(written_out(text), **options)  # type: ignore[arg-type]

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces that are sent; of texts that were laid out already, too."""
        for each in super().render(renderable, options):
            yield each if each.control else Segment(written_out(each.text), each.style)
