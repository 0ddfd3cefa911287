"""What is asked of vLLM's driver when it is recorded, and by the tests that a recorded server answers.

Both go through the engine itself. A request changed here is recorded anew (`record_vllm.py`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import (
    DocumentScore,
    GenerationRequest,
    GenerationTrace,
    Launch,
    ScoringDocument,
    ScoringTask,
    TaskScore,
)
from experiments.engines.vllm.engine import VllmEngine
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.recorded.vllm_recording import ROOT, Names

KNOBS: dict[str, KnobValue] = {
    "serving.dtype": "bfloat16",  # all that vLLM's GatedDeltaNet kernels for CPUs compute in
    "serving.graph_mode": "eager",
    "serving.max_model_len": 512,
    "serving.max_sequences": 4,
}

DFLASH: dict[str, KnobValue] = {"drafting.method": "dflash", "drafting.draft_tokens": 4}
DFLASH_BY_ONE: dict[str, KnobValue] = {"drafting.method": "dflash", "drafting.draft_tokens": 1}
MTP: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 1}

REFUSED: dict[str, KnobValue] = {"serving.gdn_state_dtype": "abacus"}
"""A value that vLLM itself refuses."""

TOO_LARGE_BYTES = 2**46
"""A cache that no machine's memory holds, 64 TiB."""

TEXT = """
The mill stood where the river bends, and every spring the water came up to its third step. The miller kept a
book of it: the day, the height in inches, and what the wind had been. When he was old he gave the book to his
daughter, who went on with it, and when she had filled the last page she bought another of the same kind. Her
neighbours laughed, for what was there to learn from water? But in the wet year she told them on a Monday that
the bridge would not last until the Sunday, and they carried the hay across on the Tuesday, and on the Friday
night the bridge went down the river in two pieces. After that they asked her, and she always looked into the
book before she answered, and sometimes she said that the book did not know.
"""


def prompt(first: int, tokens: int) -> tuple[int, ...]:
    """Tokens of the text, from one on."""
    ids = tuple(load_tokenizer(reference_model_path()).encode(TEXT).ids)
    assert first + tokens <= len(ids), "the text is too short"
    return ids[first : first + tokens]


def requests() -> list[GenerationRequest]:
    """Four requests of a block."""
    return [GenerationRequest(item, prompt(11 * place, 30), 16) for place, item in enumerate("abcd")]


def lost(item: str) -> list[GenerationRequest]:
    """Requests that are never answered, two of a block; `item` tells why."""
    return [GenerationRequest(f"{item} {place}", prompt(5 * place, 33), 400) for place in (1, 2)]


def drafted() -> list[GenerationRequest]:
    """Requests whose drafting is checked."""
    return [GenerationRequest(f"drafted {place}", prompt(9 * place, 40), 32) for place in (1, 2)]


def to_profile() -> GenerationRequest:
    """A request whose steps are told by part."""
    return GenerationRequest("profiled", prompt(3, 40), 16)


def served(launch: Launch) -> dict[int, list[GenerationTrace]]:
    """A block of requests, by how many at once."""
    return {concurrency: launch.serve(requests(), concurrency) for concurrency in (1, 2)}


def scored(
    launch: Launch, reference: Path
) -> tuple[Sequence[DocumentScore], Sequence[DocumentScore], Sequence[TaskScore]]:
    """Documents scored and written as the reference, the same compared with it, and two items, of which the
    second one is wrong."""
    documents = [
        ScoringDocument("long", prompt(0, 120), 400),
        ScoringDocument("short", prompt(40, 30), 100),
    ]
    asked = GenerationRequest("answer", prompt(20, 20), 3)
    right = launch.generate(asked).token_ids
    wrong = (*right[:2], (right[2] + 1) % 4096)
    tasks = [ScoringTask(name, asked.prompt_ids, ids) for name, ids in (("right", right), ("wrong", wrong))]
    written, graded = launch.score(documents, tasks, write_reference=reference)
    compared, _ = launch.score(documents, [], reference=reference)
    return written, compared, graded


def launched(folder: Path, engine: VllmEngine, checkpoint: Path | None = None, **more: KnobValue) -> Launch:
    """The engine's launch of the reference model, or of another checkpoint."""
    return engine.launch(
        Configuration.of({**KNOBS, **more}),
        checkpoint or reference_model_path(),
        "cpu",
        folder / "launch.log",
        folder / "cache",
    )


def want_too_much(patch: pytest.MonkeyPatch) -> None:
    """Let the engine ask for a cache that no memory holds."""
    patch.setattr("experiments.engines.device_memory.CACHE_BYTES_MIN", TOO_LARGE_BYTES)


def wider(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """The reference model with a config.json of wider layers than its weights have; the engine's own look at
    tensors is left out, as of a kind of tensor that it does not look at."""
    made = folder / "wider"
    shutil.copytree(reference_model_path(), made)
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    config["intermediate_size"] *= 2
    (made / "config.json").write_text(json.dumps(config), encoding="utf-8")
    patch.setattr("experiments.engines.vllm.checked_order.check_served_tensors", lambda files: None)
    return made


def names(folder: Path) -> Names:
    """What paths are called: `folder` is what one test, or one recording, works in."""
    model, drafter = reference_model_path(), packaged_drafter_path()
    return Names(
        {
            f"<reference model {checkpoint_fingerprint(model)[:12]}>": str(model),
            f"<drafter {checkpoint_fingerprint(drafter)[:12]}>": str(drafter),
            "<folder>": str(folder),
            "<autoinfer>": str(ROOT),
        }
    )
