"""Which knobs a failure is about, by vLLM's own words. Each sentence is as vLLM 0.26 said it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from experiments.engines.port import Blames, Infeasible
from experiments.engines.vllm import driver_process
from experiments.engines.vllm.blame import blamed_by, of_configuration
from experiments.engines.vllm.driver_process import DriverProcess
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.failures import ENGINE_DIED, death_of, failure_of
from experiments.engines.vllm.order import VllmOrder
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu_rules import BITS
from experiments.space.loading import load_space

CLIENT = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
DIED = f"{ENGINE_DIED}: EngineCore encountered an issue. See stack trace above."
ERROR = "(EngineCore pid=7) ERROR 11-22 22:27:14 [core.py:1512] "
INFO = "(EngineCore pid=7) INFO 11-22 22:27:10 [qwen_gdn_linear_attn.py:150] "

GDN = "serving.gdn_prefill_backend"
MISSING = f"{ERROR}NotImplementedError: SM90 GDN prefill DSL kernel is unavailable.\n"


@pytest.mark.parametrize(
    ("words", "knobs"),
    [
        ("NotImplementedError: SM90 GDN prefill DSL kernel is unavailable.", {GDN}),
        (
            "ValueError: The dtype of q torch.float8_e4m3fn does not match the q_data_type "
            "torch.float8_e5m2 specified in plan function.",
            {"serving.kv_cache_dtype"},
        ),
        (
            "ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
            {"serving.kv_cache_dtype", "serving.weight_dtype"},
        ),
        (
            "RuntimeError: For FP16/BF16 input, output must have the same dtype as inputs. For FP8 input, "
            "output must have dtype BF16.",
            {"serving.kv_cache_dtype", "serving.dtype"},
        ),
        (
            "ValidationError: 1 validation error for VllmConfig Assertion failed, Chunked prefill is "
            "required for mamba cache mode 'align'.",
            {"serving.chunked_prefill", "serving.prefix_caching"},
        ),
        (
            "ValidationError: 1 validation error for SchedulerConfig max_num_batched_tokens (2048) is "
            "smaller than max_model_len (4096).",
            {"serving.max_batch_tokens", "serving.max_model_len"},
        ),
        (
            "ValueError: customized max_cudagraph_capture_size(=512) should be consistent with the max value "
            "of cudagraph_capture_sizes(=510)",
            {"serving.max_graph_tokens"},
        ),
        (
            "ValueError: No valid cudagraph sizes after rounding to multiple of 16",
            {"serving.max_graph_tokens"},
        ),
        (
            "ValueError: --linear-backend=conch was requested but no 'conch' kernel exists for this layer "
            "type.",
            {"serving.linear_backend"},
        ),
        (
            "ValueError: moe_backend='cutlass' is not supported for unquantized MoE. Expected one of "
            "['triton'].",
            {"serving.moe_backend"},
        ),
        (
            "ValueError: FP8 MoE backend HUMMING does not support the deployment configuration since kernel "
            "does not support quantization scheme.",
            {"serving.moe_backend", "serving.weight_dtype"},
        ),
        (
            "NotImplementedError: No WNA16 MoE backend supports the deployment configuration.",
            {
                "serving.moe_backend",
                "quantization.bits",
                "quantization.group_size",
                "quantization.symmetric",
            },
        ),
        (
            "ValueError: Currently, async scheduling is only supported with EAGLE/MTP kind of speculative "
            "decoding",
            {"serving.async_scheduling", "drafting.method"},
        ),
        (
            "ValueError: CUDAGraphMode.FULL is not supported with FlashInfer backend (support: NEVER)",
            {"serving.graph_mode"},
        ),
        (
            "ValidationError: 1 validation error for SpeculativeConfig draft_lm_head_quantization Unexpected "
            "keyword argument",
            {"drafting.lm_head"},
        ),
        (
            "ValueError: Quantizing an lm_head copy needs an unquantized fp16/bf16 lm_head without bias.",
            {"drafting.lm_head"},
        ),
        ("ValueError: Model Runner V1 does not support: draft lm_head quantization", {"drafting.lm_head"}),
        (
            "ValueError: VLLM_GDN_DECODE_KERNEL=cuda is not supported: the fused CUDA kernel requires a BF16 "
            "GDN model with K=V=128",
            {"serving.gdn_decode_kernel"},
        ),
        ("KeyError: 'layers.9.mlp'", set()),
        ("AssertionError: an assertion of something", set()),
    ],
)
def test_a_failure_is_put_down_to_the_knobs_of_the_part_that_is_named(words: str, knobs: set[str]) -> None:
    loading = failure_of(f"{ERROR}{words}\n", CLIENT)
    serving = death_of(f"{ERROR}{words}\n", DIED)
    assert set(loading.blames) == set(serving.blames) == knobs
    assert set(loading.blames) <= {knob.name for knob in load_space("vllm").knobs}


@pytest.mark.parametrize(
    ("reason", "knobs"),
    [
        ("Group size (32) not supported by Conch", {"quantization.group_size"}),
        ("Quant type (uint4) not supported by it", {*BITS, "quantization.symmetric"}),
        ("Zero points currently not supported by it", {"quantization.symmetric"}),
        ("Exllama only supports float16 activations", {"serving.dtype"}),
        ("Only for other machines", set()),
    ],
)
def test_a_kernel_that_takes_no_such_weights_names_itself_and_what_it_does_not_take(
    reason: str, knobs: set[str]
) -> None:
    told = (
        f"{ERROR}ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons: \n"
        f"(EngineCore pid=7)  ConchLinearKernel cannot implement due to: {reason}\n"
    )
    assert set(failure_of(told, CLIENT).blames) == {"serving.linear_backend", *knobs}


EIGHT_BITS_ON_A_CPU = (
    f"{ERROR}ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons: \n"
    "(EngineCore pid=7)  Dynamic4bitLinearKernel cannot implement due to: Unsupported quant type uint8b128\n"
    "(EngineCore pid=7)  CPUWNA16LinearKernel cannot implement due to: Quant type (uint8b128) not supported "
    "by CPUWNA16, supported types are: (ScalarType.uint4, ScalarType.uint4b8)\n"
)
"""As vLLM 0.32 for CPUs said it of four bits with eight in out_proj, asked for Machete."""

WHOLE, OUT_PROJ, KERNEL = *BITS, "serving.linear_backend"


@pytest.mark.parametrize(
    ("knobs", "blamed"),
    [
        ({WHOLE: 4, OUT_PROJ: 8, KERNEL: "machete"}, {OUT_PROJ}),
        ({WHOLE: 4, OUT_PROJ: 8}, {OUT_PROJ, KERNEL}),
        ({WHOLE: 8, OUT_PROJ: 8, KERNEL: "auto"}, {WHOLE, OUT_PROJ, KERNEL}),
        ({WHOLE: 8, KERNEL: "dynamic4bit"}, {WHOLE, KERNEL}),
        ({WHOLE: 4}, {WHOLE, OUT_PROJ, KERNEL}),
    ],
)
def test_a_type_that_no_kernel_takes_is_put_down_to_what_has_as_many_bits_and_to_kernels_that_were_looked_at(
    knobs: dict[str, KnobValue], blamed: set[str]
) -> None:
    failure = failure_of(EIGHT_BITS_ON_A_CPU, CLIENT)
    found = of_configuration(failure, Configuration.of(knobs))
    assert set(found.blames) == {*blamed, "quantization.symmetric"}
    assert (found.kind, found.cause) == (failure.kind, failure.cause)


@pytest.mark.parametrize(
    ("kernel", "blamed"), [("flashinfer_cutlass", True), ("flashinfer_trtllm", False), ("marlin", False)]
)
def test_a_kernel_whose_name_has_several_words_is_known_by_that_of_its_class(
    kernel: str, blamed: bool
) -> None:
    told = (
        f"{ERROR}ValueError: Failed to find a kernel that can implement the NVFP4 linear layer. Reasons: \n"
        "(EngineCore pid=7)  FlashInferCutlassNvFp4LinearKernel cannot implement due to: Only for others\n"
    )
    found = of_configuration(failure_of(told, CLIENT), Configuration.of({KERNEL: kernel}))
    assert (KERNEL in found.blames) is blamed


class Driver:
    """Stands for the process of a driver: it loads, or does not, and its engine dies as it is asked more."""

    def __init__(self, name: str, command: object, environment: object, log_path: Path, cache: Path) -> None:
        self._loads = log_path.name == "loads.log"

    def ask(self, request: Mapping[str, object], limit_s: float, verb: str) -> Mapping[str, float]:
        if verb == "load" and self._loads:
            return {"import_s": 1.0, "engine_s": 1.0}
        raise Infeasible("crashed", CLIENT if verb == "load" else DIED)

    def log_since_start(self, most_bytes: int) -> str:
        return EIGHT_BITS_ON_A_CPU

    def close(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize("log", ["loads.log", "does_not_load.log"])
def test_a_kernel_that_is_missing_while_it_serves_is_put_down_as_one_that_is_missing_as_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    monkeypatch.setattr(driver_process, "ServerProcess", Driver)
    order = VllmOrder("x", "cpu", {}, "", "none", 0)
    found = VllmEnvironment(Path("python"), "0.32.0", for_cpu=True)
    knobs = Configuration.of({WHOLE: 4, OUT_PROJ: 8, KERNEL: "machete"})

    def launched() -> DriverProcess:
        return DriverProcess(order, found, tmp_path / log, tmp_path, 1.0, 1.0, knobs)

    if log == "loads.log":
        up = launched()
        failures = [failure_in(lambda: up.ask({}, "serve them")) for _ in range(2)]
    else:
        failures = [failure_in(launched)]
    for each in failures:
        assert each.kind == "unsupported"
        assert set(each.blames) == {OUT_PROJ, "quantization.symmetric"}


def failure_in(step: Callable[[], object]) -> Infeasible:
    """What a step raises."""
    with pytest.raises(Infeasible) as told:
        step()
    return told.value


def test_what_a_configuration_leaves_of_the_words_of_other_parts_is_all() -> None:
    failure = failure_of(f"{INFO}Using FlashInfer GDN prefill kernel (requested=auto)\n{MISSING}", CLIENT)
    assert of_configuration(failure, Configuration.of({KERNEL: "marlin"})).blames == {GDN: "flashinfer"}


@pytest.mark.parametrize(
    ("log", "blames"),
    [
        (
            f"{INFO}Using FlashInfer GDN prefill kernel (requested=auto, head_k_dim=128).\n",
            {GDN: "flashinfer"},
        ),
        (f"{INFO}Using FlashInfer GDN prefill kernel (requested=flashinfer, head_k_dim=128).\n", {GDN: None}),
        (f"{INFO}Using Triton/FLA GDN prefill kernel (requested=auto, head_k_dim=128).\n", {GDN: "triton"}),
        ("", {GDN: None}),
    ],
)
def test_what_ran_behind_the_engines_own_choice_is_known_where_its_log_tells_it(
    log: str, blames: Blames
) -> None:
    assert death_of(f"{log}{MISSING}", DIED).blames == blames
    assert failure_of(f"{log}{MISSING}", CLIENT).blames == blames


@pytest.mark.parametrize(
    "words",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total "
        "capacity of 79.10 GiB of which 128.00 MiB is free.",
        "ValueError: No available memory for the cache blocks. Try decreasing `max_model_len`",
        "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
    ],
)
def test_a_full_memory_and_a_broken_device_are_put_down_to_no_knob(words: str) -> None:
    assert failure_of(f"{ERROR}{words}\n", CLIENT).blames == {}


def test_words_beside_the_error_blame_nothing() -> None:
    log = (
        f"{INFO}Using FlashInfer GDN prefill kernel (requested=auto, head_k_dim=128).\n"
        f"{INFO}kv_cache_dtype=auto\n"
    )
    assert death_of(f"{log}{ERROR}KeyError: 'layers.9.mlp'\n", DIED).blames == {}
    assert blamed_by("") == {}
