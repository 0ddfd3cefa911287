"""What a launch leaves to vLLM is chosen as for vLLM's own server; vLLM is stood in for by empty modules."""

import asyncio
import sys
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


def test_an_engine_is_built_as_vllm_s_server_builds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[dict[str, Any]] = []

    def from_engine_args(arguments: Arguments, **more: Any) -> object:
        asked.append(more)
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
    asyncio.run(LoadedEngine.started(VllmOrder(str(tmp_path), "cuda:0", {}), Imported(0.0, None)))
    assert asked == [{"usage_context": "the server's"}]
