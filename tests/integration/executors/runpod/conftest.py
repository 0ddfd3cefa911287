from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql
from tests.simulated.runpod.places import RunPodPlace
from tests.simulated.runpod.server import SECRET, FakeRunPod

BOARD = "board"
"""One database for all tests, whose tables go before each: making databases takes longer than the tests."""


@pytest.fixture(scope="session")
def pods_server() -> Iterator[postgresql.Server]:
    if postgresql.programs() is None:
        pytest.skip(postgresql.MISSING)
    with postgresql.serving() as server:
        server.execute(f"CREATE ROLE autoinfer_pod LOGIN PASSWORD '{SECRET}'")
        server.execute(f"CREATE DATABASE {BOARD}")
        yield server


@pytest.fixture(scope="session")
def runpod_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeRunPod]:
    fake = FakeRunPod(tmp_path_factory.mktemp("runpod"))
    yield fake
    fake.close()


@pytest.fixture
def fake(runpod_service: FakeRunPod) -> Iterator[FakeRunPod]:
    """The fake without a pod; a test that leaves one that is paid for fails."""
    yield runpod_service
    left = [(pod.name, pod.status) for pod in runpod_service.pods.values()]
    runpod_service.reset()
    assert left == [], "a pod is left that is paid for"


@pytest.fixture
def place(fake: FakeRunPod, pods_server: postgresql.Server, tmp_path: Path) -> Iterator[RunPodPlace]:
    pods_server.execute(
        "DROP TABLE IF EXISTS autoinfer_pod_run, autoinfer_pod, autoinfer_pod_piece, job", BOARD
    )
    from_pod = f"postgresql://autoinfer_pod@127.0.0.1:{pods_server.port}/{BOARD}"
    made = RunPodPlace(fake, tmp_path, pods_server.url(BOARD), from_pod)
    yield made
    made.close()
