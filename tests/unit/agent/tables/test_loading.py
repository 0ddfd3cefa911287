"""What a load of a table takes of a GPU's memory, by which several are up at once."""

from pathlib import Path

import pytest

from agent.tables.grid import PlannedLoad
from agent.tables.loading import Sources, needed_bytes
from configs.models import load_model_profile
from experiments.engines.vllm.reserved_cache import cache_bytes
from experiments.reference_model.load import reference_model_path
from experiments.shapes.drafter import drafter_for
from experiments.shapes.folder import write_shape
from experiments.shapes.stored_as import StoredAs
from experiments.space.configuration import Configuration, KnobValue

PROFILE = load_model_profile("qwen3.5-9b")

PLAIN: dict[str, KnobValue] = {"serving.max_model_len": 2048, "serving.max_sequences": 16}


def weights_needed(folder: Path, **drafting: KnobValue) -> int:
    """What a load needs beside its cache."""
    named = {f"drafting.{name}": value for name, value in drafting.items()}
    load = PlannedLoad(Configuration.of({**PLAIN, **named}), StoredAs.COMPRESSED_TENSORS)
    sources = Sources(PROFILE, folder, folder, 1.0)
    needed = needed_bytes(load, "it", sources)
    return needed - cache_bytes(load.configuration, sources.folder_of(load, "it"))


@pytest.mark.parametrize("draft_tokens", [1, 7])
def test_a_drafter_s_weights_are_needed_beside_the_target_s(tmp_path: Path, draft_tokens: int) -> None:
    alone = weights_needed(tmp_path)
    with_own = weights_needed(tmp_path, method="dflash", draft_tokens=draft_tokens)
    assert with_own - alone == 2 * drafter_for(PROFILE).parameters > 2.5e9


def test_a_draft_model_counts_as_its_files_or_as_what_is_made_up_for_it(tmp_path: Path) -> None:
    alone = weights_needed(tmp_path)
    files = sum(path.stat().st_size for path in reference_model_path().glob("*.safetensors"))
    packaged = weights_needed(tmp_path, method="draft_model", draft_tokens=2, drafter="packaged")
    assert packaged - alone == files > 1_000_000
    small = load_model_profile("qwen3.5-0.8b")
    other = write_shape(small, Configuration.of({}), tmp_path / "other")
    found = weights_needed(tmp_path, method="draft_model", draft_tokens=2, drafter=str(other))
    assert found - alone == 2 * small.text_parameters


def test_an_mtp_head_s_weights_are_needed_and_what_can_t_be_needs_nothing(tmp_path: Path) -> None:
    alone = weights_needed(tmp_path)
    assert weights_needed(tmp_path, method="mtp", draft_tokens=3) - alone == 2 * PROFILE.mtp_parameters
    never = Configuration.of({**PLAIN, "drafting.method": "mtp", "drafting.draft_tokens": 99})
    load = PlannedLoad(never, StoredAs.COMPRESSED_TENSORS)
    assert needed_bytes(load, "it", Sources(PROFILE, tmp_path, tmp_path, 1.0)) == 0
