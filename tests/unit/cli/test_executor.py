"""Executors of rented machines are made once, however often they are asked for."""

from pathlib import Path

import pytest

from cli.executors.executor import unreachable_by
from configs.errors import ProviderUnreachable
from configs.settings import Settings
from tests.simulated.remote_executor import FileProvider

GPU, OTHER = "files:H100", "files:H200"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets that executors were made for; the provider answers for H200 at the second time alone."""
    found: list[str] = []

    def make(root: Path, place: object, *, target: str) -> FileProvider:
        found.append(target)
        if target == OTHER and found.count(OTHER) == 1:
            raise ProviderUnreachable("The provider does not answer.", "Wait a moment.")
        return FileProvider(root, place, target=target)

    monkeypatch.setattr("cli.executors.executor.registered", lambda port, name: make)
    return found


def test_whether_machines_can_be_rented_is_asked_by_one_executor_of_each(
    tmp_path: Path, made: list[str]
) -> None:
    unreachable = unreachable_by(Settings(data_dir=tmp_path))
    assert [unreachable(GPU) for _ in range(3)] == [None] * 3
    assert made == [GPU]


def test_one_that_could_not_be_made_is_tried_again(tmp_path: Path, made: list[str]) -> None:
    unreachable = unreachable_by(Settings(data_dir=tmp_path))
    told = [unreachable(OTHER) for _ in range(3)]
    assert told == ["The provider does not answer. Wait a moment.", None, None]
    assert made == [OTHER, OTHER]
