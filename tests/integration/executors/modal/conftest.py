from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.executors.modal import deployment
from tests.simulated.modal import app as simulated
from tests.simulated.modal.places import ModalPlace
from tests.simulated.modal.server import GPUS, FakeModal


@pytest.fixture(scope="session")
def modal_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeModal]:
    """The fake, with the app deployed by Modal's own library."""
    import modal

    fake = FakeModal(tmp_path_factory.mktemp("modal"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("SERVER_URL", fake.loopback.url),
            ("TOKEN_ID", "ak-test"),
            ("TOKEN_SECRET", "as-test"),
            ("CONFIG_PATH", str(fake.folder / "none.toml")),
        ):
            patch.setenv(f"MODAL_{name}", value)
        app = deployment.make_app(function=simulated.job, image=modal.Image.debian_slim())
        deployment.deploy(app=app)
        yield fake
        modal.Client.from_env().close()
        fake.close()


@pytest.fixture
def fake(modal_service: FakeModal) -> Iterator[FakeModal]:
    """The fake without a call."""
    deployed = dict(modal_service.apps)
    yield modal_service
    for call in modal_service.calls.values():
        modal_service._terminate(call)
    modal_service.calls.clear()
    for name in modal_service.dicts:
        modal_service.dicts[name].clear()
    modal_service.hold, modal_service.raises, modal_service.rates = False, False, {}
    modal_service.bill.clear()
    modal_service.gpu_given = dict(GPUS)
    modal_service.refuse.clear()
    modal_service.lose_answer.clear()
    modal_service.apps = deployed


@pytest.fixture
def place(fake: FakeModal, tmp_path: Path) -> ModalPlace:
    return ModalPlace(fake, tmp_path)
