import pytest

from experiments.reference_model.load import reference_model_path
from experiments.reference_model.scores import LoadedCheckpoint, load_checkpoint
from tests.integration.one_thread import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def reference() -> LoadedCheckpoint:
    """The packaged reference model."""
    return load_checkpoint(reference_model_path())
