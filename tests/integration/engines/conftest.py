"""One thread for models in this process, and one folder for what Inductor keeps."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.one_thread import one_thread

__all__ = ["one_thread"]

INDUCTOR_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
"""PyTorch's variable: where it keeps compiled kernels, and what it found out about the compiler."""


@pytest.fixture(scope="session", autouse=True)
def inductor_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Shared by the tests of a run and by its workers: in a new folder each would first try, by some ten
    seconds of compiling, which instructions this machine has. Steps of other shapes are compiled anew."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "inductor"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(INDUCTOR_FOLDER, str(folder))
        yield folder
