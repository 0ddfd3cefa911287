import shutil
from pathlib import Path

import pytest

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
    shutil.copytree(written_once, tmp_path / "data")
    return Autoinfer(tmp_path / "data")
