"""A folder of runs whose jobs go to the fake of Modal."""

from collections.abc import Callable
from pathlib import Path

from experiments.executors.modal.executor import ModalExecutor
from experiments.executors.modal.following import Patience
from experiments.executors.modal.prices import packaged
from experiments.job.place import Place
from experiments.measurement.evidence import Stage
from tests.simulated.modal.server import FakeModal
from tests.waiting import wait_for

QUICK = Patience(heads_s=0.0, silent_s=0.3, ask_s=0.02, gone_s=20.0, look_s=0.02)


def modal_executor(
    folder: Path, target: str = "modal:cpu", limits_s: dict[Stage, float] | None = None
) -> ModalExecutor:
    place = Place(artifacts_dir=folder / "artifacts", cache_dir=folder / "cache")
    if limits_s is not None:
        place = place.model_copy(update={"limits_s": limits_s})
    return ModalExecutor(folder / "jobs", place, target, patience=QUICK, rates=lambda: packaged())


class ModalPlace:
    """Executors over one folder, and the fake that they reach through Modal's own library."""

    def __init__(self, fake: FakeModal, folder: Path) -> None:
        self.fake = fake
        self.folder = folder

    def executor(self) -> ModalExecutor:
        return modal_executor(self.folder)

    def living(self, ref: str) -> int:
        return self.fake.living(ref)

    def kill(self, ref: str) -> None:
        self.fake.crash(ref)

    def wait_for(self, done: Callable[[], bool]) -> None:
        wait_for(done)
