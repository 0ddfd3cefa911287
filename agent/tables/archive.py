"""One journal of several, small enough to be kept beside its table. Pure.

Most of a journal are the gaps between tokens of cells at high concurrency. An archive keeps of a request
there its start, first token, last token and how many there were, from which all figures follow but gaps. Of
the folders in a command it keeps the last part: what lay where on a machine is nobody's business later.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.tables.beside import undisturbed
from agent.tables.cell import after_first
from agent.tables.journal import Line

TOLD_BY_ENGINES = ("failure", "prompt", "resolved")
"""Fields of lines in which engines may name files."""

_PATH = re.compile(r"(?<![\w./:-])/(?:[\w.@+~-]+/)+([\w.@+~-]+)")
"""An absolute path within a sentence; its last part is the group."""


def archived(journals: Iterable[Iterable[Line]], gaps_up_to: int) -> Iterator[Line]:
    """The lines of all journals, each once, with gaps of cells up to the concurrency `gaps_up_to` alone.

    An archive that is archived again with new journals gets what is new. What was measured in batches beside
    which other work ran is left out.
    """
    seen: set[str] = set()
    for journal in journals:
        for line in undisturbed(journal):
            short = _short(line, gaps_up_to)
            told = json.dumps(short, sort_keys=True)
            if told not in seen:
                seen.add(told)
                yield short


def _short(line: Line, gaps_up_to: int) -> Line:
    if line["kind"] == "begin":
        return {**line, "command": without_folders(line["command"])}
    line = {name: _without_paths(value) if name in TOLD_BY_ENGINES else value for name, value in line.items()}
    if line["kind"] != "cell" or line["workload"]["concurrency"] <= gaps_up_to:
        return line
    return {**line, "requests": [_without_gaps(request) for request in line["requests"]]}


def _without_paths(value: Any) -> Any:
    """The same with the last part of each path that stands in it."""
    if isinstance(value, Mapping):
        return {name: _without_paths(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_paths(each) for each in value]
    return _PATH.sub(r"\1", value) if isinstance(value, str) else value


def without_folders(command: str) -> str:
    """A command with the last part of each path alone."""
    return shlex.join(Path(word).name if "/" in word else word for word in shlex.split(command))


def _without_gaps(request: Mapping[str, Any]) -> dict[str, Any]:
    rest_us, tokens = after_first(request)
    kept = {name: value for name, value in request.items() if name != "gaps_us"}
    return {**kept, "rest_us": rest_us, "rest_tokens": tokens}
