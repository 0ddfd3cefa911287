"""A report as Markdown: the same sections and tables; a figure is its caption alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dashboard.report.document import Block, Figure, Listing, Paragraph, Points, Table
from dashboard.report.whole import document
from knowledge.report.view import ReportView

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_KEPT = re.compile(r"((?<!`)`[^`]+`(?!`)|\*\*.+?\*\*)")
_FENCE = "```"


def as_markdown(view: ReportView) -> str:
    """The text, which is the same for the same report."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: ReportView) -> Iterator[str]:
    found = document(view)
    yield f"# {_text(found.title)}"
    for mark in found.marks:
        yield from ("", f"> {_text(mark)}")
    yield from ("", " ".join(map(_text, found.abstract)), "")
    yield from (f"- {name}: {_text(value)}" for name, value in found.facts)
    for section in found.sections:
        yield from ("", f"## {section.number} {_text(section.title)}")
        for block in section.blocks:
            yield ""
            yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield _text(block.text)
        case Points():
            yield from (f"- {_text(item)}" for item in block.items)
        case Listing():
            fence = max([_FENCE, *(f"{each}`" for each in re.findall("`{3,}", block.text))], key=len)
            yield from (fence, *block.text.splitlines(), fence)
        case Figure():
            yield f"**Figure {block.number}.** {_text(block.caption)} *(Drawn in the HTML form.)*"
        case Table():
            yield from (f"**Table {block.number}.** {_text(block.caption)}", "")
            yield _row(name.removeprefix(">") for name in block.columns)
            yield "|" + "|".join("---:" if name.startswith(">") else "---" for name in block.columns) + "|"
            yield from (_row(row.cells) for row in block.rows)
            if block.left_out:
                yield from ("", f"{block.left_out} more rows are in the JSON form of this report.")


def _row(cells: Iterator[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(_text(cell) for cell in cells) + " |"


def _text(text: str) -> str:
    """A text whose characters mean what they are; `code` and **words that lead** stay, on one line."""
    return "".join(map(_part, _KEPT.split(" ".join(text.split()))))


def _part(part: str) -> str:
    if not _KEPT.fullmatch(part):
        return _SPECIAL.sub(r"\\\1", part)
    return part.replace("|", "\\|") if part.startswith("`") else f"**{_text(part[2:-2])}**"
