"""Answers that need no campaign's ground do not pay for it."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from configs.garbage import uncollected
from knowledge.graph.building import build_graph
from tests.history.campaign_history import History

HEAVY = (
    "numpy",
    "scipy",
    "optuna",
    "torch",
    "agent.campaign.decision.desk",
    "agent.surrogate.beliefs",
    "agent.ground.legal",
)


@pytest.mark.parametrize("module", ["agent.asking.of_the_graph", "agent.asking.why_not"])
def test_nothing_that_the_loop_decides_with_is_imported_for_them(module: str) -> None:
    told = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_what_asks_for_no_graph_loads_no_library_of_graphs() -> None:
    """`autoinfer graph untested` builds none; the words of one are read by all that answer."""
    loaded = ("networkx", "knowledge.queries.claims.hypothesis_detail")
    told = f"import sys, agent.asking.answers; print([m for m in {loaded!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_after_a_graph_is_built_garbage_is_collected_as_before(tmp_path: Path) -> None:
    history = History(tmp_path)
    assert gc.isenabled()
    with history.database.read() as session:
        build_graph(session)
    assert gc.isenabled()
    history.close()
    gc.disable()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled(), "whoever turned it off keeps it off"
    finally:
        gc.enable()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
