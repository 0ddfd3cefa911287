"""What a table's floor counts of drafting is what vLLM's tensors came to, where launches were profiled."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.tables.floor import step_bytes
from agent.tables.grid import TableWorkload
from agent.tables.journal import read_journal
from configs.models import load_model_profile
from experiments.space.configuration import Configuration

TABLES = Path(__file__).parents[4] / "docs" / "results" / "tables"

NEAR = 0.001
"""How far they may lie apart, as a share: scales, norms and a row of the embedding are not counted."""


def profiled_drafts(name: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Lines of a journal with a profile of drafting, and the bytes of weights of what drafts there."""
    for line in read_journal(TABLES / f"{name}.jsonl"):
        if line["kind"] == "profile":
            found = [part["weight_bytes"] for part in line.get("parts", []) if part["kind"] == "draft"]
            if found:
                yield line, sum(found)


@pytest.mark.parametrize(
    ("name", "least"), [("h200-4b", 4), ("h200-9b", 6), ("h200-9b-heads", 7), ("h200-9b-http", 2)]
)
def test_what_drafts_reads_what_its_profile_counted(name: str, least: int) -> None:
    lines = list(profiled_drafts(name))
    assert len(lines) >= least
    for line, read in lines:
        told = line["workload"]
        workload = TableWorkload(**{field: told[field] for field in TableWorkload.__dataclass_fields__})
        configuration = Configuration.of(line["configuration"])
        counted = step_bytes(load_model_profile(line["model"]), configuration, workload)
        assert counted.drafter == pytest.approx(read, rel=NEAR), configuration
