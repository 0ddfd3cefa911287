"""Whether words try to instruct, to run or to lead somewhere, instead of giving a reason. Pure.

Nothing that an answer says is ever run, opened or given to a shell: these words are shown to people and kept.
They are refused all the same, because they have no place in a reason and whoever reads them, or another
model that is told them, might follow.
"""

from __future__ import annotations

import re
import unicodedata

_SIGNS: tuple[tuple[str, str], ...] = (
    ("names an address", r"\b[a-z][a-z0-9+.-]{1,20}://|\bwww\.|\bmailto:|\bdata:[a-z]+/|\bjavascript:"),
    ("names a path", r"(?:^|[\s\"'(=`])(?:~|\.{1,2})?/(?:[\w.-]+/)+[\w.-]*|(?:^|\s)~/|\b[a-z]:\\|\.\./"),
    ("holds code", r"```|\$\(|<\s*(?:/\s*)?(?:script|iframe|img|svg|data|system)\b|\{\{|\{%"),
    (
        "holds a command",
        r"\b(?:rm\s+-|sudo\s|curl\s|wget\s|pip\s+install|apt(?:-get)?\s+install|chmod\s|eval\s*\(|exec\s*\("
        r"|os\.system|subprocess|import\s+os\b|bash\s+-c|powershell)|&&|\|\s*(?:sh|bash)\b|;\s*(?:rm|cat|curl)\b",
    ),
    ("poses as a message", r"<\|[^|]{0,40}\|>|\[/?inst\]|^[^\S\n]*(?:system|assistant|user|human)\s*:"),
    (
        "instructs",
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.]{0,40}\b(?:instruction|rule|previous|above|prior"
        r"|prompt|limit|guard|budget|judge)|\byou (?:must|should|are now|have to)\b|\bnew instructions?\b"
        r"|\bsystem prompt\b|\b(?:mark|declare|report|record|treat) (?:it|this|them|the \w+) as supported\b"
        r"|\b(?:approve|execute|run) (?:this|it|the following)\b",
    ),
)
"""What gives such words away, the reason first. Each is looked for in time that grows as the text does: a
whole answer is read so, and may be nothing but blanks."""

_COMPILED = tuple((why, re.compile(sign, re.IGNORECASE | re.MULTILINE)) for why, sign in _SIGNS)


def instructs(text: str) -> str | None:
    """What the words try, as the end of a sentence (`names an address`); None for a plain reason.

    They are read as they are written, and as what only looks otherwise (full-width letters) stands for.
    """
    meant = unicodedata.normalize("NFKC", text)
    return next((why for why, sign in _COMPILED if sign.search(text) or sign.search(meant)), None)
