"""What is known of a table's ground before the first trial, as a campaign knows it of its own."""

from __future__ import annotations

from pathlib import Path

from agent.replay.cells import Line
from agent.replay.port import Prior
from agent.tables.grid import as_measured
from agent.tables.journal import read_journal
from agent.tables.origins import main_last
from configs.catalog import Kind, packaged_names
from configs.errors import AutoinferError, UsageError
from configs.models import load_model_profile
from experiments.engines.port import PartTime
from experiments.space.configuration import Configuration

MS_PER_S = 1e3

DEQUANTIZING_SPACES = ("reference", "levers")
"""Packaged spaces of the engine that dequantizes weights as it loads them; the others compute with packed
ones."""


def prior_of(space: str | None, baseline: Line, bandwidth_bytes_per_s: float | None) -> Prior:
    """What trial 0's line and the packaged space's name (None: another) tell of the ground."""
    model = baseline.text("model")
    shape = load_model_profile(model) if model in packaged_names(Kind.MODELS) else None
    return Prior(
        shape,
        bandwidth_bytes_per_s,
        serves_packed=space not in DEQUANTIZING_SPACES,
        made_up=baseline.yes("latency_only", otherwise=False),
    )


def bandwidth_of(line: Line) -> float | None:
    """The memory's bandwidth that a line's floor was reckoned with; None where it has none."""
    moved, floor_ms = line.number_in("step_bytes"), line.number_in("floor_ms")
    return MS_PER_S * moved / floor_ms if moved and floor_ms else None


def profiles_beside(path: Path) -> dict[Configuration, tuple[PartTime, ...]]:
    """Steps by part, by configuration `as_measured`, from the journal beside a CSV, of the runs that its rows
    are of where these profiled it; empty without one. Raises `UsageError` for a file of that name that is no
    journal."""
    journal = path.with_suffix(".jsonl")
    if not journal.is_file():
        return {}
    try:
        return {
            as_measured(line["configuration"]): tuple(PartTime(**part) for part in line["parts"])
            for _, line in main_last(read_journal(journal))
            if line["kind"] == "profile" and line.get("parts")
        }
    except (AutoinferError, OSError, LookupError, TypeError, AttributeError, ValueError):
        raise UsageError(
            f"{journal} has the name of the table's journal, and is none that can be read.",
            "Give it or the table another name: a table needs no journal.",
        ) from None
