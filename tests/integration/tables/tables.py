"""A grid of the simulated engine, and a process that measures it into a folder, to be killed."""

import sys
from pathlib import Path
from typing import Any

from agent.tables.clock import Budget
from agent.tables.device import TableDevice
from agent.tables.grid import Grid, load_grid
from agent.tables.journal import read_journal
from agent.tables.loading import Sources
from agent.tables.run import TableRun, measure
from configs.models import load_model_profile
from tests.simulated.engine import SimulatedEngine

SPACE = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: a, values: [1.0, 2.0, 3.0], default: 1.0, help: Time of a token.}
  - {name: simulated.load_s, lever: a, values: [0.0, 0.3, 600.0], default: 0.0, help: Time of a load.}
  - {name: simulated.request_s, lever: a, values: [0.0, 0.05], default: 0.0, help: Time of a request.}
  - {name: simulated.fails, lever: a, values: [nothing, load, generate], default: nothing, help: What fails.}
  - {name: serving.max_sequences, lever: a, values: [4], default: 4, help: Requests at once.}
"""

GRID = """
name: simulated
model: reference
weights: dummy
space: SPACE
base: {BASE}
lengths: [{prompt_tokens: 8, new_tokens: 4, requests: {1: 2, 4: 4}}]
same: {repeats: 2, loads: [0], concurrencies: [1]}
loads:
  - {}
  - {set: {simulated.tpot_ms: 2.0, simulated.load_s: 0.3}}
  - {set: {simulated.fails: load}}
  - {set: {simulated.tpot_ms: 3.0}}
"""

DEVICE = TableDevice("cpu", "a processor", None, "0")


def grid_in(folder: Path, base: str = "simulated.tpot_ms: 1.0") -> Grid:
    """The grid with these knobs in its base, read from a file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "space.yaml").write_text(SPACE)
    path = folder / "grid.yaml"
    path.write_text(GRID.replace("SPACE", str(folder / "space.yaml")).replace("BASE", base))
    return load_grid(path)


def run_in(
    folder: Path,
    grid: Grid,
    *,
    devices: tuple[TableDevice, ...] = (DEVICE,),
    loads_ahead: int = 1,
    loads_together: int = 1,
    launches: int = 1,
    budget: Budget | None = None,
) -> TableRun:
    """A call that measures it into `folder`."""
    sources = Sources(load_model_profile("reference"), folder, folder / "cache", 30.0, engine=SimulatedEngine)
    identity = {"git_revision": "abc"}
    clock, together = budget or Budget(), loads_together
    return TableRun(
        grid, devices, sources, clock, loads_ahead, identity, loads_together=together, launches=launches
    )


def main() -> None:
    """Measure until killed."""
    folder = Path(sys.argv[1])
    measure(
        run_in(folder, grid_in(folder, "simulated.request_s: 0.05")), lambda text: print(text, flush=True)
    )


if __name__ == "__main__":
    main()


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of the journal in a folder."""
    return list(read_journal(folder / "measured.jsonl"))
