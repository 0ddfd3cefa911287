"""The cause of a failed load is found in vLLM's own words."""

import pytest

from experiments.engines.vllm.failures import ENGINE_DIED, death_of, engine_died, failure_of

CLIENT = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"

ERROR = "(EngineCore pid=7) ERROR 11-22 22:27:14 [core.py:1512] "


@pytest.mark.parametrize(
    ("log", "kind", "words"),
    [
        (
            f"{ERROR}ValueError: To serve at least one request with the model's max seq len (4096), (1.20 "
            "GiB KV cache is needed, which is larger than the available KV cache memory (0.50 GiB). Based on "
            "the available memory, the estimated maximum model length is 1648. Try increasing …",
            "out_of_memory",
            ("0.70 GiB too few", "at most 1648"),
        ),
        (
            f"{ERROR}ValueError: Available memory on node 0 (13.19/15.71 GiB) on kv cache allocation is less "
            "than requested memory for kv (100.0 GiB). Decrease --kv-cache-memory-bytes, …",
            "out_of_memory",
            ("takes 100.00 GiB and 13.19 are available", "86.81 GiB too few"),
        ),
        (
            f"{ERROR}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a "
            "total capacity of 79.10 GiB of which 128.00 MiB is free. Process 1 has …",
            "out_of_memory",
            ("0.50 GiB more", "0.38 GiB too few", "serving.max_sequences"),
        ),
        (
            f"{ERROR}ValueError: Free memory on device cuda:0 (3.1/79.1 GiB) on startup is less than desired "
            "GPU memory utilization (0.9, 71.2 GiB).",
            "out_of_memory",
            ("begins with 71.20 GiB free", "3.10 of 79.10 are", "68.10 GiB too few"),
        ),
        (
            f"{ERROR}torch.AcceleratorError: CUDA error: out of memory\nCUDA kernel errors might be …",
            "out_of_memory",
            ("by how much is not told (CUDA error: out of memory)", "serving.max_sequences"),
        ),
        (
            f"{ERROR}RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
            "out_of_memory",
            ("CUBLAS_STATUS_ALLOC_FAILED",),
        ),
        (
            f"{ERROR}RuntimeError: CUDA out of memory occurred when warming up sampler with 64 dummy "
            "requests. Please try lowering `max_num_seqs` …",
            "out_of_memory",
            ("warming up sampler with 64 dummy requests",),
        ),
        (
            f"{ERROR}ValueError: No available memory for the cache blocks. Try increasing …",
            "out_of_memory",
            ("no memory left",),
        ),
        (
            f"{ERROR}safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
            "checkpoint",
            ("can't read the checkpoint's weights", "incomplete metadata"),
        ),
        (
            f"{ERROR}ValueError: Async scheduling is not supported by the V1 model runner with ngram-based "
            "speculative decoding.",
            "illegal",
            ("vLLM did not load it", "Async scheduling is not supported by the V1 model runner"),
        ),
        (
            f"{ERROR}RuntimeError: SM90 GDN prefill DSL kernel is unavailable",
            "unsupported",
            ("SM90 GDN prefill DSL kernel is unavailable",),
        ),
        (
            f"{ERROR}ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons: "
            "\n(EngineCore pid=7)  ConchLinearKernel cannot implement due to: Group size (32) not supported "
            "by ConchLinearKernel, supported group sizes are: [-1, 128]",
            "unsupported",
            ("WNA16 linear layer: ConchLinearKernel cannot", "Group size (32)"),
        ),
        (
            f"{ERROR}RuntimeError: start (0) + length (1024) exceeds dimension size (512).",
            "checkpoint",
            ("not those of the checkpoint's config.json", "exceeds dimension size"),
        ),
        (
            f"{ERROR}RuntimeError: Worker failed with error 'CPU GDN attention requires BF16.'",
            "crashed",
            ("requires BF16",),
        ),
        (f"{ERROR}KeyError: 'layers.9.mlp'\nlater lines without a name", "crashed", ("layers.9.mlp",)),
        (
            f"{ERROR}torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
            "device_lost",
            ("uncorrectable ECC error", "nvidia-smi --gpu-reset"),
        ),
        (
            f"{ERROR}torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
            "device_busy",
            ("busy or unavailable", "Free it"),
        ),
        ("nothing that tells", "crashed", ("its engine process ended, and its log names no error. It may",)),
        ("free(): invalid size", "crashed", ("its engine process ended: free(): invalid size.",)),
    ],
)
def test_a_cause_is_one_sentence_with_its_kind(log: str, kind: str, words: tuple[str, ...]) -> None:
    failure = failure_of(f"INFO: loading\n{log}\n", CLIENT)
    assert failure.kind == kind
    assert all(word in failure.cause for word in words), failure.cause
    assert "\n" not in failure.cause
    assert failure.cause.endswith(".")


def test_the_code_by_which_the_engine_ended_while_it_loaded_is_told_where_vllm_says_it() -> None:
    def told(code: int) -> str:
        return failure_of("INFO: loading", CLIENT.replace("{}", f"{{'EngineCore_DP0': {code}}}")).cause

    assert "ended (signal 9), and its log names no error. The system ends processes so" in told(-9)
    assert told(1).endswith("ended (exit code 1), and its log names no error.")


def test_what_was_missing_is_known_where_the_allocation_that_failed_is_told() -> None:
    told = (
        f"{ERROR}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a "
        "total capacity of 79.10 GiB of which 128.00 MiB is free. Process 1 has …"
    )
    assert failure_of(told, CLIENT).missing_bytes == 384 * 2**20
    untold = f"{ERROR}torch.AcceleratorError: CUDA error: out of memory"
    start = (
        f"{ERROR}ValueError: Free memory on device cuda:0 (3.1/79.1 GiB) on startup is less than desired GPU "
    )
    for log in (untold, f"{start}memory utilization (0.9, 71.2 GiB)."):
        assert failure_of(log, CLIENT).kind == "out_of_memory"
        assert failure_of(log, CLIENT).missing_bytes is None


@pytest.mark.parametrize(
    ("wanted", "free", "missing_bytes", "told"),
    [
        ("20.00 MiB", "0 bytes", 20 * 2**20, "0.02 GiB too few"),
        ("1.00 GiB", "832.00 KiB", 2**30 - 832 * 2**10, "1.00 GiB too few"),
    ],
)
def test_what_was_missing_is_known_of_a_card_that_is_full_to_the_last_byte(
    wanted: str, free: str, missing_bytes: int, told: str
) -> None:
    log = (
        f"{ERROR}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU 0 has a total "
        f"capacity of 8.00 GiB of which {free} is free. Of the allocated memory 7.1 GiB is allocated by …"
    )
    failure = failure_of(log, CLIENT)
    assert (failure.kind, failure.missing_bytes) == ("out_of_memory", missing_bytes)
    assert told in failure.cause


def test_a_setting_that_vllm_refuses_is_illegal() -> None:
    told = "ValidationError: 1 validation error for KernelConfig linear_backend Input should be 'auto'"
    assert failure_of("", told).kind == "illegal"


@pytest.mark.parametrize(
    ("log", "kind", "words"),
    [
        (
            "Worker proc VllmWorker-0 died unexpectedly (exit code: -6), shutting down executor.\n"
            f"{ERROR}RuntimeError: cancelled",
            "crashed",
            ("signal 6",),
        ),
        (
            f"{ERROR}torch.AcceleratorError: CUDA error: an illegal memory access",
            "crashed",
            ("illegal memory",),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
            "capacity of 79.10 GiB of which 1.00 GiB is free.",
            "out_of_memory",
            ("1.00 GiB too few",),
        ),
        (f"{ERROR}torch.AcceleratorError: CUDA error: out of memory", "out_of_memory", ("not told",)),
        ("malloc_consolidate(): invalid chunk size", "crashed", ("served: malloc_consolidate()",)),
        ("", "crashed", ("ended while it served, and its log names no error.",)),
    ],
)
def test_a_death_while_serving_is_told_with_what_the_log_says(
    log: str, kind: str, words: tuple[str, ...]
) -> None:
    death = death_of(log, f"{ENGINE_DIED}: EngineCore encountered an issue. See stack trace above.")
    assert death.kind == kind
    assert all(word in death.cause for word in words), death.cause
    assert "\n" not in death.cause


@pytest.mark.parametrize(
    ("log", "code", "told"),
    [
        ("", -11, "ended while it served (signal 11), and its log names no error."),
        ("", 1, "ended while it served (exit code 1), and its log names no error."),
        (
            "malloc(): corrupted top size",
            -6,
            "ended while it served (signal 6): malloc(): corrupted top size.",
        ),
    ],
)
def test_the_code_by_which_the_engine_ended_is_told_where_the_log_does_not(
    log: str, code: int, told: str
) -> None:
    assert death_of(log, engine_died("EngineCore encountered an issue.", code)).cause == (
        f"vLLM's engine process {told}"
    )


def test_of_an_engine_that_was_killed_it_is_said_that_memory_may_have_run_out() -> None:
    killed = engine_died("EngineCore encountered an issue.", -9)
    assert "memory runs out" in death_of("", killed).cause
    assert "memory" not in death_of(f"{ERROR}RuntimeError: of its own", killed).cause


@pytest.mark.parametrize(
    "words",
    [
        "NotImplementedError: SM90 GDN prefill DSL kernel is unavailable.",
        "AssertionError: ChunkGatedDeltaRuleFunction does not support float32. Please use bfloat16.",
    ],
)
def test_a_kernel_that_is_only_missed_when_it_is_to_run_is_told_as_missing(words: str) -> None:
    """As vLLM 0.26 said on an H200."""
    failure = death_of(f"{ERROR}{words}\n", f"{ENGINE_DIED}: EngineCore encountered an issue.")
    assert failure.kind == "unsupported"
    assert words.rstrip(".") in failure.cause


@pytest.mark.parametrize(
    ("log", "raised"),
    [
        (
            "",
            "vLLM's process ended (exit code 1) instead of going on to load: ModuleNotFoundError: No module "
            "named 'psutil'.",
        ),
        (
            "(EngineCore pid=7) ModuleNotFoundError: No module named 'psutil'\n",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ),
    ],
    ids=["driver", "engine"],
)
def test_an_environment_that_lacks_a_module_is_told_with_what_to_do(log: str, raised: str) -> None:
    failure = failure_of(log, raised)
    assert failure.kind == "unsupported"
    assert failure.cause.startswith("vLLM's environment has no psutil, which it imports here")
    assert "autoinfer engines install vllm" in failure.cause


@pytest.mark.parametrize(
    ("raised", "package", "way"),
    [
        (
            "RuntimeError: operator torchvision::nms does not exist",
            "torchvision",
            "--index-url https://download.pytorch.org/whl/cpu torchvision",
        ),
        (
            "OSError: Could not load this library: /opt/engine/site-packages/torchaudio/lib/_torchaudio.so",
            "torchaudio",
            "pip uninstall torchaudio",
        ),
        (
            "OSError: Could not load this library: /opt/site-packages/torchcodec/libtorchcodec_image.so",
            "torchcodec",
            "pip uninstall torchcodec",
        ),
    ],
)
def test_a_package_beside_pytorch_that_it_can_t_load_is_told_with_what_to_do(
    raised: str, package: str, way: str
) -> None:
    """As vLLM 0.32 for CPUs ended beside the package index's builds for CUDA."""
    failure = failure_of("", raised)
    assert failure.kind == "unsupported"
    assert not failure.blames
    for words in (f"has a {package} that its PyTorch can't load", "`autoinfer engines install vllm`", way):
        assert words in failure.cause, failure.cause


def test_a_module_that_an_import_tried_before_does_not_hide_the_error() -> None:
    log = "ModuleNotFoundError: No module named 'flash_mla'\nRuntimeError: boom\n"
    failure = failure_of(log, "RuntimeError: Engine core initialization failed. See root cause above.")
    assert (failure.kind, "boom" in failure.cause) == ("crashed", True)
