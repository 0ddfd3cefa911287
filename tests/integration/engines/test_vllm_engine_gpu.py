"""The engine vllm passes the suite of all engines on a real GPU, where vLLM for NVIDIA is installed.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one, or a GPU, all is skipped.
"""

from pathlib import Path

import pytest

from experiments.engines.port import Infeasible, Launch
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import needed_environment
from experiments.engines.vllm.launch import VllmLaunch
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import KnobValue
from experiments.telemetry.identity import NoSuchDevice, identify
from tests.integration.engines.conformance import EngineConformance, EngineSetting
from tests.integration.engines.lone_prompt import is_a_lone_prompt_by_part
from tests.integration.engines.test_vllm_engine import VOCABULARY, TextSetting

DEVICE = "cuda:0"

KNOBS: dict[str, KnobValue] = {
    "serving.graph_mode": "eager",  # loads in seconds; what graphs change is timed by campaigns
    "serving.gdn_prefill_backend": "triton",  # the other one needs a compiler on Hopper
    "serving.max_model_len": 512,
    "serving.max_sequences": 1,
}


def why_not() -> str:
    try:
        needed_environment(DEVICE)
        identify(DEVICE)
    except (Infeasible, NoSuchDevice) as reason:
        return str(reason)
    return ""


pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> EngineSetting:
    source = Path(__file__).with_name("conformance.py").read_text(encoding="utf-8")
    return TextSetting(
        engine=VllmEngine(),
        entry="experiments.engines.vllm.engine:VllmEngine",
        knobs=KNOBS,
        checkpoint=reference_model_path(),
        device=DEVICE,
        folder=tmp_path_factory.mktemp("vllm-engine"),
        vocabulary=VOCABULARY,
        drafting={"drafting.method": "mtp", "drafting.draft_tokens": 1},
        text=tuple(load_tokenizer(reference_model_path()).encode(source).ids),
    )


class TestVllmEngineOnGpu(EngineConformance):
    @pytest.mark.parametrize("graphs", ["eager", "auto"])
    def test_a_step_is_told_by_the_parts_of_the_model_within_graphs_too(
        self, setting: EngineSetting, graphs: str
    ) -> None:
        launch = setting.launch(**{"serving.graph_mode": graphs})
        assert isinstance(launch, VllmLaunch)
        try:
            parts = {part.part: part for part in launch.profile(setting.request())}
            record = launch.profile_record
        finally:
            launch.close()
        assert record is not None
        assert sum(part.time_ms for part in parts.values()) == pytest.approx(record["step_ms"])
        assert {
            "in_proj_qkvz",
            "gate_up_proj",
            "in_proj_ba",
            "lm_head",
            "gdn_state",
            "attention",
        } < parts.keys()
        assert [round(parts[part].launches) for part in ("gdn_state", "conv1d")] == [9, 9]
        assert "other" not in parts, record["kernels"]
        read = record["read"]
        assert isinstance(read, dict)
        bandwidth = read["bandwidth"]
        assert isinstance(bandwidth, dict)
        assert 1e11 < float(str(bandwidth["bytes_per_s"])) < 1e14
        products = read["products"]
        assert isinstance(products, dict)
        assert 1e12 < float(str(products["operations_per_s"])) < 1e16
        is_a_lone_prompt_by_part(record["prompt"])

    @pytest.mark.parametrize(
        ("tokens", "sequences", "captured"), [(512, 1, 512), (1024, 4, 1024), (1024, 1, 512)]
    )
    def test_steps_that_read_a_prompt_are_captured_up_to_as_many_tokens_as_are_asked_for_and_may_be(
        self, setting: EngineSetting, tokens: int, sequences: int, captured: int
    ) -> None:
        """One sequence of 512 tokens, which is all there is room for here, has no more in a step."""
        launch = setting.launch(
            **{
                "serving.graph_mode": "auto",
                "serving.max_graph_tokens": tokens,
                "serving.max_sequences": sequences,
            }
        )
        try:
            assert launch.resolved()["max_graph_tokens"] == captured
        finally:
            launch.close()

    def test_what_runs_is_read_from_the_running_engine(self, launch: Launch) -> None:
        resolved = launch.resolved()
        assert resolved["dtype"] == "bfloat16"
        assert resolved["attention"] != "unknown"
        assert resolved["linear_kernel"] == "UnquantizedLinearMethod"
        assert resolved["gdn_state_dtype"] in {"bfloat16", "float32"}  # this config.json leaves it to vLLM
        assert (resolved["graph_mode"], resolved["compile_mode"]) == ("none", "none")
        assert resolved["drafting"] == {"method": "none"}

    def test_the_decode_path_reads_a_document_as_the_prefill_does(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        prefilled, decoded = launch.score([setting.document("a", 150)], [])[0]
        assert decoded.item == f"decode:{prefilled.item}"
        assert decoded.kl_nats is not None
        assert decoded.kl_nats < 0.01

    def test_short_prompts_score_alike_with_a_drafter_in_the_graphs(self, setting: EngineSetting) -> None:
        """vLLM would score a prompt that fits into a graph with its drafter's states (docs/vllm.md)."""
        assert setting.drafting is not None
        knobs: dict[str, KnobValue] = {"serving.graph_mode": "auto", "serving.max_graph_tokens": 512}
        documents = [setting.document(item, 40) for item in "abcdef"]
        bits = []
        for drafting in ({}, setting.drafting):
            launch = setting.launch(**knobs, **drafting)
            try:
                bits.append([score.nll_bits for score in launch.score(documents, [])[0]])
            finally:
                launch.close()
        plain, drafted = bits
        assert drafted == pytest.approx(plain, rel=0.01)
