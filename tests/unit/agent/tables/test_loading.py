"""What a load of a table takes of a GPU's memory, by which several are up at once."""

from collections.abc import Mapping
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


def planned(folder: Path, drafting: Mapping[str, KnobValue]) -> tuple[PlannedLoad, str, Sources]:
    named = {f"drafting.{name}": value for name, value in drafting.items()}
    load = PlannedLoad(Configuration.of({**PLAIN, **named}), StoredAs.COMPRESSED_TENSORS)
    return load, "it", Sources(PROFILE, folder, folder, 1.0)


def weights_needed(folder: Path, **drafting: KnobValue) -> int:
    """What a load needs beside its cache."""
    load, digest, sources = planned(folder, drafting)
    cache = cache_bytes(load.configuration, sources.folder_of(load, digest))
    return needed_bytes(load, digest, sources) - cache


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


def test_an_mtp_head_s_weights_are_needed(tmp_path: Path) -> None:
    alone = weights_needed(tmp_path)
    assert weights_needed(tmp_path, method="mtp", draft_tokens=3) - alone == 2 * PROFILE.mtp_parameters


@pytest.mark.parametrize(
    "drafting",
    [
        {"method": "mtp", "draft_tokens": 99},
        {"method": "dflash", "drafter": "/there/is/no/such/folder"},
        {"method": "draft_model", "drafter": "/there/is/no/such/folder"},
    ],
)
def test_what_can_t_be_needs_nothing(tmp_path: Path, drafting: dict[str, KnobValue]) -> None:
    assert needed_bytes(*planned(tmp_path, drafting)) == 0
