import shutil
from pathlib import Path

import pytest

from tests.history.asking_history import an_asking_history
from tests.history.campaign_history import a_full_history
from tests.integration.cli.command import Autoinfer


@pytest.fixture
def autoinfer(tmp_path: Path) -> Autoinfer:
    """The installed command with an empty data folder."""
    return Autoinfer(tmp_path / "data")


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    a_full_history(folder).close()
    return folder


@pytest.fixture
def with_history(tmp_path: Path, written_once: Path) -> Autoinfer:
    """The installed command over a copy of a campaign with something of everything."""
    return over_a_copy(written_once, tmp_path)


@pytest.fixture(scope="session")
def asked_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asking")
    an_asking_history(folder).close()
    return folder


@pytest.fixture
def asking(tmp_path: Path, asked_once: Path) -> Autoinfer:
    """The installed command over a copy of a campaign that asks."""
    return over_a_copy(asked_once, tmp_path)


def over_a_copy(written: Path, folder: Path) -> Autoinfer:
    shutil.copytree(written, folder / "data")
    return Autoinfer(folder / "data")
