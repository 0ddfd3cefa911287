"""A grid of the simulated engine that is prepared and measured side by side; and a process that is killed."""

import sys
from pathlib import Path

from agent.tables.clock import Budget
from agent.tables.grid import Grid, load_grid
from agent.tables.ground import Ground
from agent.tables.preparing import Preparing
from agent.tables.side_by_side import SideBySideRun
from experiments.reference_model.load import reference_model_path
from tests.integration.tables.tables import DEVICE
from tests.simulated.engine import SimulatedEngine
from tests.simulated.material import SimulatedMaterial, SimulatedPruning

SPACE = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: a, values: [1.0, 2.0, 3.0], default: 1.0, help: Time of a token.}
  - {name: simulated.request_s, lever: a, values: [0.0, 0.05], default: 0.0, help: Time of a request.}
  - name: simulated.fails
    lever: a
    values: [nothing, load, generate, check]
    default: nothing
    help: What fails.
  - {name: simulated.bits, lever: a, values: [1.0, 1.5], default: 1.0, help: Bits of a byte.}
  - {name: simulated.prunes, lever: a, values: ['no', 'yes'], default: 'no', help: Whether layers go.}
  - name: simulated.layers
    lever: a
    values: [0, 3]
    default: 3
    when: {simulated.prunes: ['yes']}
    help: Layers that stay.
  - {name: drafting.method, lever: a, values: [none, mtp], default: none, help: What drafts.}
  - {name: serving.compile, lever: a, values: ['off', default], default: 'off', help: Whether it compiles.}
"""

GRID = """
name: simulated
engine: reference
model: reference
weights: checkpoint
space: SPACE
base: {BASE}
lengths: [{prompt_tokens: 8, new_tokens: 5, requests: {1: 4}}]
side_by_side: {launches: 3, passes: 2, prompts_a_turn: 1, shuffled_among: 4, most_beside_cores: 1000}
quality: {documents: 2, tokens_per_document: 8, items: 2, drafting_prompts: 1, drafting_new_tokens: 4}
loads:
  - {}
  - {set: {simulated.tpot_ms: 2.0}}
  - {set: {simulated.tpot_ms: 3.0}}
  - {set: {simulated.prunes: 'yes', simulated.bits: 1.5}}
  - {set: {drafting.method: mtp}}
  - {set: {serving.compile: default}}
  - {set: {simulated.fails: check}}
  - {set: {simulated.prunes: 'yes', simulated.layers: 0}}
  - {set: {simulated.fails: generate}}
"""


def grid_in(folder: Path, base: str = "simulated.request_s: 0.0") -> Grid:
    """The grid with these knobs in its base, read from a file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "space.yaml").write_text(SPACE)
    path = folder / "grid.yaml"
    path.write_text(GRID.replace("SPACE", str(folder / "space.yaml")).replace("BASE", base))
    return load_grid(path)


def ground_in(folder: Path, grid: Grid | None = None, budget: Budget | None = None) -> Ground:
    """Where it is prepared and measured."""
    return Ground(
        grid or grid_in(folder),
        DEVICE,
        SimulatedEngine(),
        reference_model_path(),
        SimulatedMaterial(),
        folder,
        folder / "leases",
        30.0,
        budget or Budget(),
        {"git_revision": "abc"},
    )


def prepare(ground: Ground, *, backwards: bool = False) -> int:
    """Prepare it; how many loads are left."""
    return Preparing(ground, (SimulatedPruning(),), lambda text: None).run(backwards=backwards)


def main() -> None:
    """Prepare and measure until killed."""
    folder = Path(sys.argv[1])
    ground = ground_in(folder, grid_in(folder, "simulated.request_s: 0.05"))
    prepare(ground)
    SideBySideRun(ground, lambda text: print(text, flush=True)).run()


if __name__ == "__main__":
    main()
