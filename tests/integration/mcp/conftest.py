import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from agent.ground.legal import Legal
from tests.history.campaign_history import SPACE, a_full_history


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    a_full_history(folder).close()
    return folder


@pytest.fixture
def folder(tmp_path: Path, written_once: Path) -> Path:
    """A copy of a campaign with something of everything."""
    shutil.copytree(written_once, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def legal() -> Iterator[None]:
    """The history's campaign names a checkpoint that is not there: what is legal on it is said here."""
    found = Legal(SPACE)
    with (
        patch("agent.asking.preview.legal_of", return_value=found),
        patch("agent.campaign.queue.enqueue.legal_of", return_value=found),
    ):
        yield
