"""What tests of calls on Modal wait for, and what the calls told of themselves."""

from experiments.executors.modal.executor import ModalExecutor
from experiments.executors.modal.protocol import HEADS, Head
from experiments.executors.port import RunState, Status
from tests.simulated.modal.places import ModalPlace
from tests.simulated.modal.server import FakeModal

OPEN = (RunState.PENDING, RunState.RUNNING)


def ended(place: ModalPlace, executor: ModalExecutor, ref: str) -> Status:
    place.wait_for(lambda: executor.poll(ref).state not in OPEN)
    return executor.poll(ref)


def heads(fake: FakeModal) -> dict[str, Head]:
    import modal

    found = modal.Dict.from_name(HEADS, create_if_missing=True)
    return {ref: Head.model_validate_json(told) for ref, told in found.items()}


def begun(place: ModalPlace, executor: ModalExecutor, ref: str) -> None:
    def measures() -> bool:
        progress = executor.poll(ref).progress
        return progress is not None and progress.stage == "quick"

    place.wait_for(measures)
