from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.asking_history import AskingHistory, an_asking_history
from tests.history.campaign_history import History, a_full_history


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """A campaign without anything in it yet."""
    found = History(tmp_path)
    yield found
    found.close()


@pytest.fixture
def full_history(tmp_path: Path) -> Iterator[History]:
    """A campaign with something of everything."""
    found = a_full_history(tmp_path)
    yield found
    found.close()


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[AskingHistory]:
    """A campaign that asks, with an answer of each kind."""
    found = an_asking_history(tmp_path)
    yield found
    found.close()
