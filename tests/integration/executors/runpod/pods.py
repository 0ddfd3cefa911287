"""What the tests of pods ask of one: its end, its beginning, its log."""

from experiments.executors.port import RunState, Status
from experiments.executors.runpod.executor import RunPodExecutor
from tests.simulated.runpod.places import RunPodPlace

OPEN = (RunState.PENDING, RunState.RUNNING)


def ended(place: RunPodPlace, executor: RunPodExecutor, ref: str) -> Status:
    """Wait for the end of a run, and give its status."""
    place.wait_for(lambda: executor.poll(ref).state not in OPEN)
    return executor.poll(ref)


def begun(place: RunPodPlace, executor: RunPodExecutor, ref: str) -> None:
    """Wait until the job measures."""

    def measures() -> bool:
        progress = executor.poll(ref).progress
        return progress is not None and progress.stage == "quick"

    place.wait_for(measures)


def made(place: RunPodPlace) -> int:
    """How many pods there ever were."""
    return len(place.fake.ever)


def log(place: RunPodPlace, number: int = 0) -> str:
    """What a pod wrote, by the number of its making."""
    return place.fake.ever[number].log.read_text()
