"""What a launch leaves to vLLM is chosen as for vLLM's own server; vLLM is stood in for by empty modules."""

import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from experiments.engines.vllm import loaded_engine
from experiments.engines.vllm.loaded_engine import Imported, LoadedEngine
from experiments.engines.vllm.order import VllmOrder


@dataclass
class Arguments:
    """In place of vLLM's `AsyncEngineArgs`."""

    model: str = ""
    worker_extension_cls: str = ""
    speculative_config: dict[str, Any] | None = None


Built = list[tuple[Arguments, dict[str, Any]]]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Built:
    """What engines are built of from now on, with the checkpoint at `tmp_path`."""
    asked: Built = []

    def from_engine_args(arguments: Arguments, **more: Any) -> object:
        asked.append((arguments, more))
        return object()

    for name, has in {
        "vllm": {"__version__": "0.33.0", "ModelRegistry": SimpleNamespace(get_supported_archs=list)},
        "vllm.envs": {"environment_variables": {}},
        "vllm.engine": {},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": Arguments},
        "vllm.usage": {},
        "vllm.usage.usage_lib": {"UsageContext": SimpleNamespace(OPENAI_API_SERVER="the server's")},
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.async_llm": {"AsyncLLM": SimpleNamespace(from_engine_args=from_engine_args)},
    }.items():
        module = ModuleType(name)
        module.__dict__.update(has)
        monkeypatch.setitem(sys.modules, name, module)
        owner, _, own = name.rpartition(".")
        if owner:
            setattr(sys.modules[owner], own, module)
    monkeypatch.setattr(loaded_engine, "keep_arrivals", lambda steps: None)
    monkeypatch.setattr(loaded_engine, "served_folder", lambda checkpoint, known, kept: checkpoint)
    (tmp_path / "config.json").write_text("{}")
    return asked


def start(order: VllmOrder) -> None:
    asyncio.run(LoadedEngine.started(order, Imported(0.0, None)))


def test_an_engine_is_built_as_vllm_s_server_builds_it(built: Built, tmp_path: Path) -> None:
    start(VllmOrder(str(tmp_path), "cuda:0", {}))
    assert [more for _, more in built] == [{"usage_context": "the server's"}]


@pytest.mark.parametrize(("method", "plain"), [("mtp", True), ("ngram", False)])
def test_an_mtp_head_is_not_served_from_a_path_that_names_another_way_to_draft(
    method: str, plain: bool, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "dflash"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    for folder_of_temporary_files in ("one launch's", "another's"):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder_of_temporary_files))
        start(VllmOrder(str(checkpoint), "cuda:0", {}, str(tmp_path / "kept"), drafting_method=method))
    [(first, _), (second, _)] = built
    assert Path(first.model).resolve() == checkpoint
    assert ("dflash" not in first.model) == plain
    assert first.model == second.model


def test_a_draft_model_is_not_read_from_such_a_path(built: Built, tmp_path: Path) -> None:
    drafter = tmp_path / "eagle3"
    drafter.mkdir()
    told = {"method": "draft_model", "model": str(drafter)}
    kept = str(tmp_path / "kept")
    start(VllmOrder(str(tmp_path), "cuda:0", {"speculative_config": told}, kept, "draft_model"))
    [(arguments, _)] = built
    assert arguments.speculative_config is not None
    assert Path(arguments.speculative_config["model"]).resolve() == drafter
    assert "eagle3" not in arguments.speculative_config["model"]
