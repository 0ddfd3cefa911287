from experiments.executors.modal.protocol import HEADS, Head
from tests.integration.executors.killing import WorkersKilled
from tests.simulated.modal.places import ModalPlace


class TestWorkersOfModal(WorkersKilled):
    target = "modal:cpu"

    def words(self, place: ModalPlace) -> list[str]:
        return ["modal"]

    def worked(self, place: ModalPlace) -> int:
        """Starts of calls that claimed the job; a second call of its key gives way and starts nothing."""
        import modal

        found = modal.Dict.from_name(HEADS, create_if_missing=True)
        place.wait_for(lambda: all(call.result is not None for call in place.fake.calls.values()))
        return sum(Head.model_validate_json(told).start for told in found.values())
