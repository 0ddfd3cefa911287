"""The simulated engine behind the reference engine's own check: real causes, made-up times."""

from pathlib import Path

from experiments.engines.reference.engine import ReferenceEngine
from experiments.space.configuration import Configuration
from tests.simulated.engine import SimulatedEngine


class CheckedEngine(SimulatedEngine):
    name = "checked"

    def check(
        self, configuration: Configuration, checkpoint: Path, device: str, context_tokens: int = 1
    ) -> None:
        ReferenceEngine().check(configuration, checkpoint, device, context_tokens)
