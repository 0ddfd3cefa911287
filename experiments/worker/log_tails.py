"""The ends of the logs in a run's folder, bounded in size, and nothing outside the folder of all runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RUN_LOG = "log.txt"
"""What the run itself tells, in its folder."""

LAUNCH_LOGS = "launches"
"""The folder of the logs of its launches, named by stage, arm and index."""

TAIL_BYTES = 64 * 1024
"""Most of a log's end that is read."""

MOST_FILES = 40
"""Logs that are read of one run, at most."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class LogTail:
    """The end of a log of `bytes` bytes; `cut`: it began before `text`."""

    name: str
    bytes: int
    text: str
    cut: bool


def log_tails(root: Path, key: str, stage: str | None = None) -> tuple[LogTail, ...] | None:
    """The run's own log, or with `stage` those of the launches of that stage; None where nothing is kept.

    `root` is the folder of all runs and `key` a folder in it. What lies elsewhere, such as behind a link, is
    never read. Colours and control characters are taken out.
    """
    within = root.resolve()
    folder = (root / key).resolve()
    if folder.parent != within or not folder.is_dir():
        return None
    if stage is None:
        names = [folder / RUN_LOG]
    else:
        launches = folder / LAUNCH_LOGS
        names = sorted(launches.glob("*.log")) if launches.is_dir() else []
        names = [name for name in names if name.name.partition("-")[0] == stage]
    found = (_tail(folder, name) for name in names[:MOST_FILES])
    return tuple(tail for tail in found if tail is not None)


def stages_with_logs(root: Path, key: str) -> tuple[str, ...]:
    """The stages whose launches have a log in the run's folder so far, the first one first."""
    launches = root / key / LAUNCH_LOGS
    found = {log: log.stat().st_mtime_ns for log in launches.glob("*.log") if log.is_file()}
    return tuple(dict.fromkeys(log.name.partition("-")[0] for log in sorted(found, key=found.__getitem__)))


def _tail(folder: Path, path: Path) -> LogTail | None:
    real = path.resolve()
    if not real.is_relative_to(folder) or not real.is_file():
        return None
    try:
        with real.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            data = file.read(TAIL_BYTES)
    except OSError:
        return None
    cut = size > len(data)
    if cut:
        data = data[data.find(b"\n") + 1 :]
    return LogTail(path.name, size, plain(data.decode(errors="replace")), cut)


def plain(text: str) -> str:
    """The text without colours, with other control characters but tabs and line ends as a replacement."""
    return _CONTROLS.sub("\ufffd", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
