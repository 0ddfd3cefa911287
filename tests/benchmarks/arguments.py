"""Types of a benchmark's arguments, by which argparse refuses what can't be measured or written."""

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any


def above_zero(text: str) -> float:
    """A time or a share."""
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text} is none: give a number above 0")
    return number


def at_least_two(text: str) -> int:
    """A number of tokens of which the time from one to the next is told."""
    number = int(text)
    if number < 2:
        raise argparse.ArgumentTypeError(f"{text} has no time between tokens: give 2 or more")
    return number


def file_to_write(text: str) -> Path:
    """A file that can be written, whether or not it is there; nothing is written yet."""
    file = Path(text)
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{file} is a folder: give a file in it")
    if not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {file.parent}: make it first")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{file} can't be written: give another file")
    return file


def kept_runs(text: str) -> list[dict[str, Any]]:
    """The runs of a comparison that `serving_comparison --json` wrote into a file."""
    try:
        runs: list[dict[str, Any]] = json.loads(Path(text).read_text(encoding="utf-8"))["runs"]
    except OSError as reason:
        raise argparse.ArgumentTypeError(f"{text} can't be read: {reason.strerror}") from None
    except (KeyError, TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"{text} is none that --json wrote") from None
    return runs
