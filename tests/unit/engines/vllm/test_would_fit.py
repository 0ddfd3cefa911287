"""What would fit after a load for which the GPU's memory was too small; the figures are given, no GPU is
asked."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.launch_memory import needed_bytes
from experiments.engines.port import Infeasible
from experiments.engines.vllm.device_check import check_device
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.needed_memory import parts_needed
from experiments.engines.vllm.would_fit import Place, with_what_would_fit
from experiments.job.named import engine_for
from experiments.measurement.plan import Workload
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from experiments.telemetry.identity import DeviceIdentity

GB = 10**9
SEQUENCES = "serving.max_sequences"
WAY = re.compile(r"([\d.]+) GB(?: of ([\d.]+) GB)? with ([\w.]+)=(\w+)")


def loaded(
    folder: Path, card_gb: int, missing_bytes: int | None, free_gb: float, knobs: dict[str, KnobValue]
) -> tuple[Infeasible, int]:
    """The failure of loading the 4B's shape with this much missing, and what the plan had for it."""
    write_shape(load_model_profile("qwen3.5-4b"), Configuration.of({}), folder)
    configuration = load_space("vllm").configuration(knobs)
    failure = Infeasible("out_of_memory", "The GPU's memory is full.", missing_bytes)
    planned = needed_bytes(parts_needed(configuration, folder, 640, card_gb * GB))
    place = Place(folder, card_gb * GB, 640, 1)
    return with_what_would_fit(failure, configuration, place, round(free_gb * GB)), planned


@pytest.mark.parametrize("card_gb", [8, 12, 16, 24])
@pytest.mark.parametrize("missing_gb", [0.1, 1.0, 3.0])
def test_what_is_named_saves_what_was_missing_and_is_no_more_than_was_free(
    tmp_path: Path, card_gb: int, missing_gb: float
) -> None:
    told, planned = loaded(tmp_path, card_gb, round(missing_gb * GB), card_gb, {})
    assert told.cause.startswith("The GPU's memory is full. ")
    ways = WAY.findall(told.cause)
    assert ways
    most = min(planned / GB - missing_gb, card_gb)
    assert float(ways[0][1]) == pytest.approx(most, abs=0.051)
    assert all(float(size) <= most + 0.051 for size, _, _, _ in ways)
    assert ("quantization.method", "awq") in [(knob, value) for _, _, knob, value in ways]


def test_for_a_mixture_of_experts_whose_kernel_is_named_a_change_is_told_too(tmp_path: Path) -> None:
    write_shape(load_model_profile("qwen3.5-35b-a3b"), Configuration.of({}), tmp_path)
    asked = {"serving.moe_backend": "triton", "serving.max_sequences": 64}
    configuration = load_space("vllm").of_experts().configuration(asked)
    failure = Infeasible("out_of_memory", "The GPU's memory is full.", GB)
    told = with_what_would_fit(failure, configuration, Place(tmp_path, 80 * GB, 640, 1), 80 * GB)
    assert SEQUENCES in {knob for _, _, knob, _ in WAY.findall(told.cause)}


def test_what_can_not_be_counted_keeps_its_cause(tmp_path: Path) -> None:
    failure = Infeasible("out_of_memory", "The GPU's memory is full.", GB)
    place = Place(tmp_path / "gone", 24 * GB, 640, 1)
    assert with_what_would_fit(failure, load_space("vllm").configuration({}), place, GB) is failure


def test_more_missing_takes_a_larger_change(tmp_path: Path) -> None:
    knobs: dict[str, KnobValue] = {"serving.max_sequences": 64}
    little, _ = loaded(tmp_path / "a", 24, GB // 10, 24, knobs)
    much, _ = loaded(tmp_path / "b", 24, 4 * GB, 24, knobs)
    assert [value for _, _, knob, value in WAY.findall(little.cause) if knob == SEQUENCES] == ["16"]
    assert [value for _, _, knob, value in WAY.findall(much.cause) if knob == SEQUENCES] == ["1"]


def test_without_the_figures_nothing_is_added(tmp_path: Path) -> None:
    told, _ = loaded(tmp_path, 12, None, 12, {})
    assert told.cause == "The GPU's memory is full."
    other = Infeasible("crashed", "It died.", 5)
    assert with_what_would_fit(other, Configuration.of({}), Place(tmp_path, None), None) is other


def test_a_load_that_even_the_leanest_change_does_not_save_is_told_so(tmp_path: Path) -> None:
    told, _ = loaded(tmp_path, 8, GB, 3, {})
    assert "By the plan no single change (of serving.max_sequences," in told.cause


def test_weights_that_are_quantized_already_are_not_to_be_quantized_again(tmp_path: Path) -> None:
    packed: dict[str, KnobValue] = {"quantization.method": "rtn", "quantization.bits": 8}
    configuration = load_space("vllm").configuration(packed)
    write_shape(load_model_profile("qwen3.5-4b"), configuration, tmp_path)
    failure = Infeasible("out_of_memory", "Full.", 10**8)
    told = with_what_would_fit(failure, configuration, Place(tmp_path, 12 * GB, 640, 1), 12 * GB)
    assert "quantization.bits=4" in told.cause
    assert "quantization.method=" not in told.cause


@pytest.fixture
def card_of_24_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own code with a card that is only told of: nothing is asked of a driver or of vLLM."""
    gpu = DeviceIdentity("a GPU", 24 * GB, 24 * GB, "8.9")
    engine = "experiments.engines.vllm.engine"
    found = VllmEnvironment(Path("python"), "0.26.0", for_cpu=False)
    monkeypatch.setattr(f"{engine}.needed_environment", lambda device: found)
    monkeypatch.setattr("experiments.engines.vllm.device_check.identify", lambda device: gpu)
    monkeypatch.setattr(f"{engine}.check_device", partial(check_device, identified=lambda device: gpu))


DRAFTING: dict[str, KnobValue] = {
    "serving.max_sequences": 64,
    "drafting.method": "mtp",
    "drafting.draft_tokens": 3,
}


@pytest.mark.usefixtures("card_of_24_gb")
@pytest.mark.parametrize(("requests", "named"), [(1, True), (64, False)])
def test_a_job_s_engine_names_what_serves_the_job_s_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: int, named: bool
) -> None:
    """Before the load and after one that failed."""
    write_shape(load_model_profile("qwen3.5-4b"), Configuration.of({}), tmp_path)
    configuration = load_space("vllm").configuration(DRAFTING)
    engine = engine_for(VllmEngine(), 1, Workload(concurrency=requests, prompt_tokens=512, new_tokens=128))
    with pytest.raises(Infeasible) as before:
        engine.check(configuration, tmp_path, "cuda:0", 640)

    def full(*_: object, **__: object) -> None:
        raise Infeasible("out_of_memory", "The GPU's memory is full.", 4 * GB)

    monkeypatch.setattr("experiments.engines.vllm.engine.VllmLaunch", full)
    with pytest.raises(Infeasible) as after:
        engine.launch(configuration, tmp_path, "cuda:0", tmp_path / "log", tmp_path / "cache")
    for told in (before, after):
        assert told.value.kind == "out_of_memory"
        assert ("serving.max_sequences=16" in told.value.cause) == named
        assert "drafting.method=none" in told.value.cause


def test_a_job_s_engine_counts_the_documents_that_it_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for all but their logits it is told before the load that this may not do."""
    configuration, checkpoint = load_space("vllm").configuration({}), reference_model_path()
    needed = needed_bytes(parts_needed(configuration, checkpoint, 3200, 24 * GB))
    scored = needed_bytes(parts_needed(configuration, checkpoint, 3200, 24 * GB, 3000))
    assert scored - needed > GB // 20
    gpu = DeviceIdentity("a GPU", 24 * GB, needed + 10**6, "8.9")
    engine = "experiments.engines.vllm.engine"
    found = VllmEnvironment(Path("python"), "0.26.0", for_cpu=False)
    monkeypatch.setattr(f"{engine}.needed_environment", lambda device: found)
    monkeypatch.setattr(f"{engine}.check_device", partial(check_device, identified=lambda device: gpu))

    def doubt(document_tokens: int) -> str:
        asked = Workload(prompt_tokens=3000, new_tokens=200, evaluation_tokens_per_document=document_tokens)
        told = engine_for(VllmEngine(), 1, asked).check(configuration, checkpoint, "cuda:0", 3200)
        return told or ""

    assert "whether they fit is known when vLLM loads" in doubt(3000)
    assert "when vLLM loads" not in doubt(8)
