"""What vLLM lacked is read from the words of those who looked for it, as Triton, FlashInfer, PyTorch and gcc
print them."""

import pytest

from experiments.engines.vllm.failures import ENGINE_DIED, death_of, failure_of

CLIENT = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"

ERROR = "(EngineCore pid=7) ERROR 11-28 09:12:03 [core.py:1512] "

SITE = "/opt/engine/lib/python3.12/site-packages"


def traceback(*frames: str, error: str) -> str:
    """A traceback as vLLM logs that of its engine's process, with these places of packages."""
    lines = ["EngineCore failed to start.", "Traceback (most recent call last):"]
    for frame in frames:
        lines += [f'  File "{SITE}/{frame}", line 57, in some_function', "    module = build_and_load()"]
    return "\n".join(ERROR + line for line in (*lines, *error.split("\n")))


ATTENTION = ("vllm/v1/attention/backends/flashinfer.py", "flashinfer/prefill.py", "flashinfer/jit/core.py")
SAMPLING = ("vllm/v1/sample/ops/topk_topp_sampler.py", "flashinfer/sampling.py", "flashinfer/jit/core.py")
LINEAR = (
    "vllm/model_executor/kernels/linear/fp8.py",
    "flashinfer/gemm/gemm_base.py",
    "flashinfer/jit/core.py",
)
EXPERTS = (
    "vllm/model_executor/layers/fused_moe/experts/flashinfer_cutlass_moe.py",
    "flashinfer/fused_moe/core.py",
    "flashinfer/jit/core.py",
)
GDN = (
    "vllm/model_executor/layers/mamba/gdn_linear_attn.py",
    "flashinfer/gdn_prefill.py",
    "flashinfer/gdn_kernels/delta_rule_dsl/delta_rule_sm90.py",
)
TRITON = (
    "vllm/model_executor/layers/fla/ops/chunk.py",
    "triton/backends/nvidia/driver.py",
    "triton/runtime/build.py",
)

NO_CC = (
    "Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl."
)

OF_INDUCTOR = f"torch._inductor.exc.InductorError: RuntimeError: {NO_CC}"

TOO_OLD = "ImportError: backend='cute-dsl' requires nvidia-cutlass-dsl>=4.7.0 (cutlass.experimental)"

NO_NVCC = "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"

NO_NINJA = "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'"

GCC = (
    "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmp0a/cuda_utils.c', '-O3', '-shared', "
    "'-fPIC', '-o', '/tmp/tmp0a/cuda_utils.cpython-312-x86_64-linux-gnu.so', '-lcuda']' returned non-zero "
    "exit status 1."
)

NO_PYTHON_H = (
    "/tmp/tmp0a/cuda_utils.c:6:10: fatal error: Python.h: No such file or directory\n"
    "    6 | #include <Python.h>\n"
    "      |          ^~~~~~~~~~\n"
    "compilation terminated.\n"
)

NO_LIBCUDA = "/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1\n"


def ninja_failed(*output: str) -> str:
    told = ("ninja: Entering directory `/root/.cache/flashinfer'", "[1/3] nvcc -c a.cu", *output)
    return "\n".join(("RuntimeError: Ninja build failed. Ninja output:", *told, "ninja: build stopped."))


@pytest.mark.parametrize(
    ("log", "lacked", "install", "around"),
    [
        (
            traceback(*TRITON, error=f"RuntimeError: {NO_CC}"),
            "lacked a C compiler",
            "apt install build-essential",
            "no knob goes around it",
        ),
        (
            traceback("torch/_inductor/compile_fx.py", error=OF_INDUCTOR),
            "lacked a C compiler",
            "apt install build-essential",
            "no knob goes around it",
        ),
        (
            NO_PYTHON_H + traceback(*TRITON, error=GCC),
            "lacked Python.h",
            "python3-dev",
            "no knob goes around it",
        ),
        (
            NO_LIBCUDA + traceback(*TRITON, error=GCC),
            "lacked libcuda.so",
            "TRITON_LIBCUDA_PATH",
            "no knob goes around it",
        ),
        (
            traceback(
                *TRITON, error="AssertionError: libcuda.so cannot found!\nPossible files are located at …"
            ),
            "lacked libcuda.so",
            "TRITON_LIBCUDA_PATH",
            "no knob goes around it",
        ),
        (
            traceback(*ATTENTION, error=NO_NVCC),
            "lacked nvcc",
            "CUDA_HOME",
            "serving.kv_cache_dtype=auto",
        ),
        (
            traceback(*SAMPLING, error=NO_NVCC),
            "lacked nvcc",
            "CUDA_HOME",
            "VLLM_USE_FLASHINFER_SAMPLER=0",
        ),
        (
            traceback(*ATTENTION, error="FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'"),
            "lacked nvcc",
            "CUDA_HOME",
            "serving.kv_cache_dtype=auto",
        ),
        (
            traceback(*ATTENTION, error=ninja_failed("/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found")),
            "lacked nvcc",
            "CUDA_HOME",
            "serving.kv_cache_dtype=auto",
        ),
        (
            traceback(*LINEAR, error=NO_NINJA),
            "lacked ninja",
            "-m pip install ninja",
            "another serving.linear_backend",
        ),
        (
            traceback(
                "torch/utils/cpp_extension.py",
                error=(
                    "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)"
                ),
            ),
            "lacked ninja",
            "-m pip install ninja",
            "no knob is known",
        ),
        (
            traceback(
                *ATTENTION,
                error=ninja_failed("a.cuh:19:10: fatal error: curand_kernel.h: No such file or directory"),
            ),
            "lacked curand_kernel.h",
            "CUDA_HOME",
            "serving.kv_cache_dtype=auto",
        ),
        (
            traceback(*ATTENTION, error=ninja_failed("/bin/sh: 1: c++: not found")),
            "lacked a C++ compiler",
            "apt install build-essential",
            "serving.kv_cache_dtype=auto",
        ),
        (
            traceback(*ATTENTION, error=ninja_failed("/usr/bin/ld: cannot find -lcudart: No such file")),
            "lacked libcudart.so",
            "CUDA_HOME",
            "serving.kv_cache_dtype=auto",
        ),
        (
            traceback(*GDN, error="ModuleNotFoundError: No module named 'cutlass'"),
            "lacked the Python package nvidia-cutlass-dsl",
            "-m pip install nvidia-cutlass-dsl",
            "serving.gdn_prefill_backend=triton",
        ),
        (
            traceback(*GDN, error=TOO_OLD),
            "lacked the Python package nvidia-cutlass-dsl",
            "-m pip install --upgrade nvidia-cutlass-dsl",
            "serving.gdn_prefill_backend=triton",
        ),
        (
            traceback(*ATTENTION[:1], error="ModuleNotFoundError: No module named 'flashinfer.decode'"),
            "lacked the Python package flashinfer-python",
            "-m pip install flashinfer-python",
            "serving.kv_cache_dtype=auto",
        ),
        (
            traceback("vllm/v1/worker/gpu/buffer_utils.py", error="RuntimeError: UVA is not available"),
            "lacked pinned memory",
            "VLLM_WSL2_ENABLE_PIN_MEMORY=1",
            "VLLM_USE_V2_MODEL_RUNNER=0",
        ),
    ],
)
def test_what_lacked_is_told_with_how_to_install_it_and_what_goes_around_it(
    log: str, lacked: str, install: str, around: str
) -> None:
    of_load = failure_of(log, CLIENT)
    while_serving = death_of(log, f"{ENGINE_DIED}: EngineCore encountered an issue. See stack trace above.")
    for told in (of_load, while_serving):
        assert told.kind == "unsupported"
        for words in (lacked, install, around):
            assert words in told.cause, told.cause
        assert told.cause.startswith("vLLM lacked ")
        assert told.cause.count(". ") == 0, "one sentence"
        assert told.cause.endswith(".")
        assert "\n" not in told.cause


@pytest.mark.parametrize(
    ("frames", "blamed"),
    [
        (ATTENTION, ["serving.kv_cache_dtype"]),
        (LINEAR, ["serving.linear_backend"]),
        (EXPERTS, ["serving.moe_backend"]),
        (GDN, ["serving.gdn_prefill_backend"]),
        (SAMPLING, []),
    ],
)
def test_it_is_put_down_to_the_knob_that_goes_around_it(frames: tuple[str, ...], blamed: list[str]) -> None:
    assert list(failure_of(traceback(*frames, error=NO_NVCC), CLIENT).blames) == blamed


def test_a_missing_c_compiler_is_put_down_to_no_knob_though_layers_of_one_met_it_first() -> None:
    log = traceback(*GDN[:1], *TRITON, error=f"RuntimeError: {NO_CC}")
    assert failure_of(log, CLIENT).blames == {}


@pytest.mark.parametrize(
    "before",
    [
        f"WARNING 11-28 09:11:59 [flashinfer.py:61] {NO_NVCC.partition(': ')[2]}; FlashInfer is left out.\n",
        NO_PYTHON_H,
        "INFO 11-28 09:11:59 [importing.py:17] No module named 'cutlass'\n",
    ],
)
def test_what_was_only_said_on_the_way_is_not_why_it_ended(before: str) -> None:
    told = failure_of(before + traceback("vllm/config.py", error="ValueError: of its own"), CLIENT)
    assert "lacked" not in told.cause
    assert "of its own" in told.cause


def test_an_error_that_was_caught_does_not_hide_a_later_one_that_tells_of_something_else() -> None:
    log = (
        traceback(*SAMPLING, error=NO_NVCC)
        + "\n"
        + traceback("vllm/config.py", error="ValueError: of its own")
    )
    assert "of its own" in failure_of(log, CLIENT).cause


def test_an_error_of_the_compiler_itself_is_left_as_it_is() -> None:
    log = traceback(*ATTENTION, error=ninja_failed("a.cuh:3: error: expected a declaration"))
    assert "Ninja build failed" in failure_of(log, CLIENT).cause
