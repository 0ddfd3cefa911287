"""What a real vLLM does with faults, and what is left of it: each ends with its kind and a sentence.

Skipped where no vLLM for CPUs is named (see `test_vllm_engine.py`). Everything here is real; a GPU is not.
"""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file, save_file

from experiments.engines.port import GenerationRequest, Infeasible, Launch
from experiments.engines.vllm.engine import VllmEngine
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.conformance import children, wait_until_gone
from tests.integration.engines.test_vllm_engine import KNOBS, why_not

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

LONG = GenerationRequest("long", tuple(range(7, 40)), 400)
SHORT = GenerationRequest("short", tuple(range(7, 40)), 8)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert wait_until_gone(children() - before) == []


def launched(cache: Path, log: Path, engine: VllmEngine | None = None, **knobs: KnobValue) -> Launch:
    return (engine or VllmEngine()).launch(
        Configuration.of({**KNOBS, **knobs}), reference_model_path(), "cpu", log / "log", cache
    )


def engine_core(before: set[int]) -> psutil.Process:
    """The process in which vLLM computes: of those that a launch started, the one with most memory."""
    started = [psutil.Process(pid) for pid in children() - before]
    driver_less = [each for each in started if each.ppid() != os.getpid()]
    return max(driver_less, key=lambda each: each.memory_info().rss)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [(signal.SIGKILL, "crashed", "ended"), (signal.SIGSTOP, "timed_out", "did not generate within 8 s")],
    ids=["killed", "hung"],
)
def test_an_engine_that_is_killed_or_hangs_while_it_answers_is_told_and_the_next_launch_serves(
    cache: Path, tmp_path: Path, fault: signal.Signals, kind: str, words: str
) -> None:
    before = children()
    launch = launched(cache, tmp_path, VllmEngine(request_limit_s=8))
    try:
        launch.generate(SHORT)
        core = engine_core(before)
        begun = core.cpu_times().user

        def act() -> None:
            while core.cpu_times().user < begun + 0.2:  # it computes the answer
                time.sleep(0.01)
            core.send_signal(fault)

        threading.Thread(target=act).start()
        with pytest.raises(Infeasible, match=words) as told:
            launch.generate(LONG)
    finally:
        launch.close()
    assert told.value.kind == kind
    assert "\n" not in told.value.cause
    assert wait_until_gone(children() - before) == []
    again = launched(cache, tmp_path)
    try:
        assert len(again.generate(SHORT).token_ids) == SHORT.new_tokens
    finally:
        again.close()


def test_a_cache_that_the_memory_can_t_hold_is_told_as_such(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_much = 4 * psutil.virtual_memory().total
    monkeypatch.setattr("experiments.engines.vllm.engine.CACHE_BYTES_MIN", too_much)
    with pytest.raises(Infeasible) as told:
        launched(cache, tmp_path)
    assert told.value.kind == "out_of_memory"
    assert "\n" not in told.value.cause


@pytest.mark.parametrize("damage", ["wider", "misshapen", "lacking"])
def test_weights_that_are_not_those_of_the_configuration_are_refused_before_anything_starts(
    cache: Path, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(reference_model_path(), folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    tensors = load_file(weights)
    name = "model.layers.2.mlp.down_proj.weight"
    match damage:
        case "wider":
            told_of = json.loads(config.read_text())
            config.write_text(json.dumps(told_of | {"intermediate_size": 2 * told_of["intermediate_size"]}))
        case "misshapen":
            tensors[name] = tensors[name][:-1].clone()
        case "lacking":
            del tensors[name]
    if damage != "wider":
        save_file(tensors, weights, metadata={"format": "pt"})
    before = children()
    for act in (
        lambda: VllmEngine().check(Configuration.of(KNOBS), folder, "cpu"),
        lambda: VllmEngine().launch(Configuration.of(KNOBS), folder, "cpu", tmp_path / "log", cache),
    ):
        with pytest.raises(Infeasible, match=str(folder)) as told:
            act()
        assert told.value.kind == "checkpoint"
    assert children() == before


def test_what_vllm_itself_says_of_misshapen_weights_is_told_as_the_checkpoint_s_fault(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a kind of tensor that is not looked at before."""
    folder = tmp_path / "broken"
    shutil.copytree(reference_model_path(), folder)
    told_of = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(told_of | {"intermediate_size": 2 * told_of["intermediate_size"]})
    )
    monkeypatch.setattr("experiments.engines.vllm.engine.check_tensors", lambda files: None)
    with pytest.raises(Infeasible, match=r"not those of the checkpoint's config\.json") as told:
        VllmEngine().launch(Configuration.of(KNOBS), folder, "cpu", tmp_path / "log", cache)
    assert told.value.kind == "checkpoint"
