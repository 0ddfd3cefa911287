from tests.integration.executors.killing import WorkersKilled
from tests.simulated.runpod.places import RunPodPlace


class TestWorkersOfRunPod(WorkersKilled):
    target = "runpod:cpu"

    def words(self, place: RunPodPlace) -> list[str]:
        return ["runpod", place.fake.url, place.board, place.board_from_pod]

    def worked(self, place: RunPodPlace) -> int:
        """Pods that were ever made."""
        return len(place.fake.ever)
