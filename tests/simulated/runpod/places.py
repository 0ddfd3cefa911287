"""A folder of runs whose jobs go to pods of the fake, over a board in a real PostgreSQL."""

from collections.abc import Callable
from pathlib import Path

from experiments.executors.runpod.account import Account
from experiments.executors.runpod.executor import RunPodExecutor
from experiments.executors.runpod.following import Patience
from experiments.job.place import Place
from experiments.measurement.evidence import Stage
from tests.simulated.runpod.server import ACCOUNT_KEY, FakeRunPod
from tests.waiting import wait_for

QUICK = Patience(list_s=0.0, appear_s=0.3, startup_s=20.0, silent_s=0.5, end_s=20.0, gone_s=10.0, look_s=0.02)


def runpod_executor(
    folder: Path,
    url: str,
    board: str,
    board_from_pod: str,
    target: str = "runpod:cpu",
    *,
    limits_s: dict[Stage, float] | None = None,
    patience: Patience = QUICK,
    shared_artifacts: str | None = None,
) -> RunPodExecutor:
    place = Place(
        artifacts_dir=folder / "artifacts", cache_dir=folder / "cache", shared_artifacts=shared_artifacts
    )
    if limits_s is not None:
        place = place.model_copy(update={"limits_s": limits_s})
    account = Account(
        key=ACCOUNT_KEY, image="example/autoinfer:1", board=board, board_from_pod=board_from_pod, url=url
    )
    return RunPodExecutor(folder / "jobs", place, target, account=account, patience=patience)


class RunPodPlace:
    """Executors over one folder, the fake, and the board."""

    def __init__(self, fake: FakeRunPod, folder: Path, board: str, board_from_pod: str) -> None:
        self.fake, self.folder, self.board, self.board_from_pod = fake, folder, board, board_from_pod
        self.made: list[RunPodExecutor] = []

    def executor(self, target: str = "runpod:cpu", **more: object) -> RunPodExecutor:
        made = runpod_executor(
            self.folder,
            self.fake.url,
            self.board,
            self.board_from_pod,
            target,
            **more,  # type: ignore[arg-type]
        )
        self.made.append(made)
        return made

    def close(self) -> None:
        for each in self.made:
            each.close()

    def living(self, ref: str) -> int:
        return self.fake.living(ref)

    def kill(self, ref: str) -> None:
        self.fake.crash(ref)

    def wait_for(self, done: Callable[[], bool]) -> None:
        wait_for(done)
