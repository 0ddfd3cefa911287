from collections.abc import Iterator

import pytest
import torch

from experiments.reference_model.load import reference_model_path
from experiments.reference_model.scores import LoadedCheckpoint, load_checkpoint


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run beside one another: more threads than cores make small operators ten times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def reference() -> LoadedCheckpoint:
    """The packaged reference model."""
    return load_checkpoint(reference_model_path())
