import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.session import open_database
from tests.history.asking_history import AskingHistory, an_asking_history
from tests.history.campaign_history import History, a_full_history
from tests.new_database import database_url


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """A campaign without anything in it yet."""
    found = History(tmp_path)
    yield found
    found.close()


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    a_full_history(folder).close()
    return folder


@pytest.fixture
def full_history(tmp_path: Path, written_once: Path) -> Iterator[History]:
    """A campaign with something of everything, over a copy of its database."""
    shutil.copytree(written_once, tmp_path, dirs_exist_ok=True)
    found = History(tmp_path, open_database(database_url(tmp_path)))
    yield found
    found.close()


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[AskingHistory]:
    """A campaign that asks, with an answer of each kind."""
    found = an_asking_history(tmp_path)
    yield found
    found.close()
