"""What is refused of a GPU before vLLM loads; the driver's answers are given, and no GPU is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm.device_check import check_device
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice
from tests.integration.engines.checkpoints import Sizes, tiny_mixture, write_checkpoint
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized


def check(
    capability: str | None = "9.0",
    free_bytes: int | None = 2**40,
    version: tuple[int, int] | None = None,
    **knobs: KnobValue,
) -> str | None:
    gpu = DeviceIdentity("a GPU", 2**40, free_bytes, capability)
    configuration = Configuration.of({f"serving.{name}": value for name, value in knobs.items()})
    return check_device(
        configuration, reference_model_path(), "cuda:0", identified=lambda device: gpu, version=version
    )


def on_a_4b(
    folder: Path,
    card_gb: float,
    launches: int,
    concurrency: int = 1,
    capability: str = "8.9",
    **knobs: KnobValue,
) -> str | None:
    """The check of the 4B's shape, whose folder has 16 bits whatever the configuration asks for."""
    write_shape(load_model_profile("qwen3.5-4b"), Configuration.of({}), folder)
    gpu = DeviceIdentity("a GPU", round(card_gb * 1e9), round(card_gb * 1e9), capability)
    configuration = load_space("vllm").configuration(
        {name.replace("__", "."): value for name, value in knobs.items()}
    )
    return check_device(
        configuration,
        folder,
        "cuda:0",
        640,
        identified=lambda device: gpu,
        launches=launches,
        concurrency=concurrency,
    )


@pytest.mark.parametrize(
    ("backend", "capability"), [("auto", "8.9"), ("machete", "9.0"), ("machete", None), ("exllama", "8.9")]
)
def test_what_is_not_known_to_fail_passes(backend: str, capability: str | None) -> None:
    check(capability, linear_backend=backend)


@pytest.mark.parametrize(
    ("capability", "knobs", "told"),
    [
        ("7.5", {}, "serving.dtype=bfloat16 can't serve this on a GPU: vLLM computes in bfloat16 from"),
        (
            "7.5",
            {"dtype": "float16", "kv_cache_dtype": "fp8_e5m2"},
            "keeps 8-bit keys and values of heads of",
        ),
    ],
)
def test_a_format_that_the_gpu_lacks_is_refused_before_anything_loads(
    capability: str, knobs: dict[str, KnobValue], told: str
) -> None:
    with pytest.raises(Infeasible, match=re.escape(told)) as refused:
        check(capability, **knobs)
    assert refused.value.kind == "unsupported"


def test_kernels_for_prompts_are_checked_by_the_version_that_would_load() -> None:
    check("12.0", version=None, gdn_prefill_backend="triton")
    with pytest.raises(Infeasible, match=r"vLLM 0\.26 takes FlashInfer's kernels"):
        check("12.0", version=(0, 26), gdn_prefill_backend="flashinfer")


def test_a_kernel_that_the_gpu_lacks_is_refused_before_anything_loads() -> None:
    with pytest.raises(
        Infeasible, match="machete can't serve this on a GPU: Machete is built for"
    ) as refused:
        check("8.9", linear_backend="machete")
    assert refused.value.kind == "unsupported"


def test_kernels_for_prompts_that_vllm_would_replace_silently_are_refused_before_anything_loads() -> None:
    with pytest.raises(Infeasible, match=r"flashinfer can't serve this on .* vLLM would run") as refused:
        check("8.9", gdn_prefill_backend="flashinfer")
    assert refused.value.kind == "unsupported"
    check("8.9", gdn_prefill_backend="auto")


def test_kernels_for_prompts_with_which_vllm_would_not_load_heads_so_narrow_are_refused_too() -> None:
    with pytest.raises(Infeasible, match=r"serve heads of 128 alone .* these have 64: vLLM would not load"):
        check("9.0", gdn_prefill_backend="flashinfer")
    check("9.0", gdn_prefill_backend="triton")


def test_a_gpu_below_what_vllm_s_documentation_names_is_refused_whatever_is_asked() -> None:
    with pytest.raises(Infeasible, match=r"from compute capability 7\.5 on, and a GPU has 7\.0") as refused:
        check("7.0", dtype="float16")
    assert refused.value.kind == "unsupported"
    check("7.5", dtype="float16")


def test_a_kernel_of_a_package_that_vllm_s_python_lacks_is_refused_with_how_to_get_it() -> None:
    gpu = DeviceIdentity("a GPU", 2**40, 2**40, "9.0")
    given = Configuration.of({"serving.linear_backend": "conch"})
    asked: list[str] = []

    def lacks(name: str) -> bool:
        asked.append(name)
        return False

    with pytest.raises(Infeasible, match="pip install conch-triton-kernels there") as refused:
        check_device(given, reference_model_path(), "cuda:0", 1, lambda _: gpu, has_package=lacks)
    assert refused.value.kind == "unsupported"
    check_device(given, reference_model_path(), "cuda:0", 1, lambda _: gpu, has_package=lambda _: True)
    assert asked == ["conch-triton-kernels"]


def test_experts_that_are_stored_as_marlin_multiplies_them_wrongly_are_refused(tmp_path: Path) -> None:
    sizes = Sizes(hidden=128, intermediate=128, linear_value_heads=4)
    write_checkpoint(tmp_path, tiny_mixture(sizes=sizes), each_expert=True)
    by_hand(tmp_path, pack_quantized, compressed_tensors_config(4, True, 64), symmetric=True, group=64)
    gpu = DeviceIdentity("a GPU", 2**40, 2**40, "8.9")

    def checked(kernel: str) -> None:
        configuration = Configuration.of({"serving.moe_backend": kernel})
        check_device(configuration, tmp_path, "cuda:0", identified=lambda device: gpu)

    for kernel in ("auto", "marlin"):
        with pytest.raises(Infeasible, match="wrong answers where experts are packed in groups of 64"):
            checked(kernel)
    for kernel in ("humming", "triton"):
        checked(kernel)


def test_too_little_free_memory_is_told_in_figures_and_an_unknown_amount_passes(tmp_path: Path) -> None:
    with pytest.raises(
        Infeasible, match=r"A launch needs 9\.7 GB at least .*weights 8\.4 GB, .* 1\.7 GB too few"
    ) as refused:
        on_a_4b(tmp_path, 8, launches=1)
    assert refused.value.kind == "out_of_memory"
    check(free_bytes=None)


def test_weights_count_as_the_configuration_will_have_stored_them(tmp_path: Path) -> None:
    """The folder is that of the original, which is looked at before anything is quantized."""
    with pytest.raises(Infeasible, match=r"weights 8\.4 GB"):
        on_a_4b(tmp_path, 13, launches=2)
    knobs: dict[str, KnobValue] = {"quantization__method": "rtn", "serving__max_sequences": 1}
    assert on_a_4b(tmp_path, 13, 2, **knobs) is None


def test_what_only_the_guesses_leave_no_room_for_is_told_and_not_refused(tmp_path: Path) -> None:
    told = on_a_4b(tmp_path, 12, launches=1)
    assert told is not None
    assert re.search(r"needs 12\.3 GB on cuda:0 .* 2\.4 GB of which are upper guesses, and 12\.0 GB", told)
    assert on_a_4b(tmp_path, 16, launches=1) is None


ONE: dict[str, KnobValue] = {"serving__max_sequences": 1}
MANY: dict[str, KnobValue] = {"serving__max_sequences": 64}
DRAFTING: dict[str, KnobValue] = MANY | {"drafting__method": "mtp", "drafting__draft_tokens": 3}


@pytest.mark.parametrize(
    ("card_gb", "launches", "knobs", "named"),
    [
        (8, 1, ONE, ["quantization.method=awq"]),
        (16, 2, {}, ["quantization.method=awq in each"]),
        (12, 1, MANY, ["serving.max_sequences=1", "quantization.method=awq"]),
        (16, 1, DRAFTING, ["serving.max_sequences=16", "drafting.method=none"]),
        (
            24,
            1,
            DRAFTING,
            [
                "serving.max_sequences=16",
                "quantization.method=awq",
                "drafting.method=none",
                "drafting.draft_tokens=1",
                "serving.gdn_state_dtype=bfloat16",
            ],
        ),
    ],
)
def test_what_would_fit_is_named_with_its_figures(
    tmp_path: Path, card_gb: float, launches: int, knobs: dict[str, KnobValue], named: list[str]
) -> None:
    with pytest.raises(Infeasible) as refused:
        on_a_4b(tmp_path, card_gb, launches, **knobs)
    told = refused.value.cause.partition("What would fit by the plan: ")[2].rstrip(".").split("; ")
    assert [each.partition(" with ")[2] for each in told] == named
    assert all(float(each.split()[0]) <= card_gb for each in told)
    assert f" of {card_gb:.1f} GB with " in told[0]


def test_where_no_change_is_enough_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(Infeasible, match=r"By the plan no single change \(of serving\.max_sequences, "):
        on_a_4b(tmp_path, 8, launches=1, **DRAFTING)


@pytest.mark.parametrize(("capability", "tried"), [("8.9", True), ("8.6", False), ("7.5", False)])
def test_no_way_out_is_named_that_the_gpu_lacks_or_that_is_not_known_there(
    tmp_path: Path, capability: str, tried: bool
) -> None:
    with pytest.raises(Infeasible, match="no single change") as refused:
        on_a_4b(tmp_path, 8, 1, capability=capability, serving__dtype="float16", **DRAFTING)
    assert ("serving.kv_cache_dtype" in refused.value.cause) is tried


@pytest.mark.parametrize(("concurrency", "named"), [(1, True), (16, True), (17, False), (64, False)])
def test_fewer_sequences_than_the_workload_has_requests_are_not_named(
    tmp_path: Path, concurrency: int, named: bool
) -> None:
    with pytest.raises(Infeasible) as refused:
        on_a_4b(tmp_path, 24, 1, concurrency, **DRAFTING)
    assert ("serving.max_sequences=16" in refused.value.cause) == named
    assert "drafting.method=none" in refused.value.cause


def test_a_configuration_that_is_not_of_the_engine_s_space_gets_no_made_up_way_out(tmp_path: Path) -> None:
    write_shape(load_model_profile("qwen3.5-4b"), Configuration.of({}), tmp_path)
    gpu = DeviceIdentity("a GPU", 8 * 10**9, 8 * 10**9, "8.9")
    given = Configuration.of({"serving.max_sequences": 3})
    with pytest.raises(Infeasible, match="too few") as refused:
        check_device(given, tmp_path, "cuda:0", 640, identified=lambda device: gpu, launches=1)
    assert "by the plan" not in refused.value.cause.lower()
    assert refused.value.cause.endswith("smaller serving.max_model_len or fewer serving.max_sequences.")


def test_what_others_hold_is_told_where_freeing_it_would_help(tmp_path: Path) -> None:
    write_shape(load_model_profile("qwen3.5-4b"), Configuration.of({}), tmp_path)
    default = load_space("vllm").configuration({})
    for memory_gb, helps in ((16, True), (9, False)):
        gpu = DeviceIdentity("a GPU", memory_gb * 10**9, 8 * 10**9, "8.9")
        with pytest.raises(Infeasible) as refused:
            check_device(default, tmp_path, "cuda:0", 640, identified=lambda _, gpu=gpu: gpu, launches=1)
        assert ("free the GPU of what else holds 8.0 GB of it" in refused.value.cause) == helps


def test_a_device_that_is_not_there_is_told() -> None:
    def nothing(device: str) -> DeviceIdentity:
        raise NoSuchDevice(f"There is no {device}.")

    with pytest.raises(Infeasible, match="There is no cuda:7") as refused:
        check_device(Configuration.of({}), reference_model_path(), "cuda:7", 1, nothing)
    assert refused.value.kind == "unsupported"
