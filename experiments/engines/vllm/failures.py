"""Why vLLM did not load or died, read from its words. Pure.

vLLM tells the cause of a failed load in its log alone: what its client raises says "see above". So the
causes that a user can do something about are looked for in the log first, and else the last error that
it names. Which knobs a failure is about, `blame` reads from the same words.
"""

from __future__ import annotations

import re
import signal

from experiments.engines import torch_memory
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST, Infeasible
from experiments.engines.server_process import KILLED
from experiments.engines.vllm.blame import blamed_by
from experiments.engines.vllm.lacking import lacked

LEANER = (
    "take fewer serving.max_sequences, a smaller serving.max_model_len or quantized weights, or free the GPU "
    "of other processes"
)
"""What to do where a GPU's memory is full."""

ENGINE_DIED = "vLLM's engine process ended"
"""How the driver begins the sentence that the engine's own process is no more."""

MAYBE_KILLED = (
    "It may have been ended from outside, as by the system where memory runs out; its kernel's log (dmesg) "
    "would say it."
)
"""Of a process that left no word, by a code that nobody told."""

_GIB = r"([\d.]+)\s*GiB"

_CACHE_TOO_SMALL = re.compile(
    rf"max seq len \(?(\d+)\)?, \(?{_GIB} KV\s+cache is needed.*?available KV cache\s+memory \({_GIB}\)"
    r"(?:.*?maximum model length is (\d+))?",
    re.DOTALL,
)
_CPU_CACHE_TOO_LARGE = re.compile(
    rf"Available memory on node \d+ \(([\d.]+)/{_GIB}\) on kv cache allocation is less than requested "
    rf"memory for kv \({_GIB}\)"
)
_NO_CACHE = re.compile(r"No available memory for the cache blocks")
_TOO_FULL_TO_START = re.compile(
    rf"\(([\d.]+)/{_GIB}\) on startup\s+is less than desired [^(]*\([\d.]+, {_GIB}\)"
)
_DEVICE_FULL = re.compile(
    r"\w*Error: ([^\n]*(?:CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED)[^\n]*)"
)
"""The GPU's memory is full, in words without figures: of the driver, or of vLLM's own warm-up."""
_TORCH_FULL = re.compile(r"(DefaultCPUAllocator: [^\n]*|[^\n]*can't allocate memory[^\n]*)")
_WEIGHTS_BROKEN = re.compile(r"(SafetensorError: [^\n]+|[^\n]*Error while deserializing header[^\n]*)")
_WEIGHTS_MISSHAPEN = re.compile(
    r"([^\n]*(?:exceeds dimension size|not initialized from checkpoint|Attempted to load weight|"
    r"size mismatch for|no module or parameter named)[^\n]*)"
)
_NO_KERNEL = re.compile(
    r"SM\d+ .*unavailable|(?<!Async scheduling )is not supported (?:on|by|for)|No valid \w+ backend|"
    r"Failed to find a kernel|does not support (?:float32|float16|bfloat16)"
)
_KERNEL_REASON = re.compile(
    r"^(?:\([^)]*\) )?(?:ERROR [\d :-]+\[[^\]]+\] )?\s*(\w+ cannot implement due to: .+)$", re.MULTILINE
)
_VALIDATION_NOISE = re.compile(r"\s*\[type=.*?\](?=\s|$)|\s*For further information visit \S+")
_NAMED = re.compile(
    r"^(?:\([^)]*\) )?(?:ERROR [\d :-]+\[[^\]]+\] )?\s*((?:[\w.]+\.)?\w*(?:Error|Exception): .+)$", re.M
)
_MODULE_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_UNTELLING = (
    "Engine core initialization failed",
    "EngineDeadError",
    "EngineCore encountered",
    "RuntimeError: cancelled",
)
_FAILED_PROCESS = re.compile(r"Failed core proc\(s\): \{[^}]*?: (-?\d+)")
_DIED = re.compile(r"died unexpectedly \(exit code: (-?\d+)\)")
_ENDED = re.compile(rf"^{re.escape(ENGINE_DIED)}(?: \(exit code: (-?\d+)\))?: ")
_NATIVE = re.compile(
    r"^(double free or corruption.*|malloc.*|free\(\): .*|corrupted .*|Segmentation fault.*)$", re.MULTILINE
)
_DEVICE_ERROR = re.compile(r"((?:CUDA error|Xid|NVRM)[^\n]*)")

_DEVICE_LOST = re.compile(
    r"([^\n]*(?:uncorrectable ECC error|fallen off the bus|GPU is lost|no CUDA-capable device is detected)"
    r"[^\n]*)"
)
_DEVICE_TAKEN = re.compile(r"([^\n]*devices?(?:\(s\))? (?:is/are|are|is) busy or unavailable[^\n]*)")


def engine_died(failure: object, exit_code: int | None) -> str:
    """What the driver says when the engine's own process is no more: what its client raised, and the code by
    which the process ended, where that is known."""
    how = "" if exit_code is None else f" (exit code: {exit_code})"
    return f"{ENGINE_DIED}{how}: {failure}"


def failure_of(log: str, told: str) -> Infeasible:
    """The cause of a failure in a sentence, from the log of the process and what its client raised."""
    text = f"{log}\n{told}"
    device = _device_cause(text)
    if device is not None:
        return device
    memory = _memory_cause(text)
    if memory is not None:
        return Infeasible("out_of_memory", memory, missing_bytes(text))
    broken = _WEIGHTS_BROKEN.search(text)
    if broken is not None:
        return Infeasible("checkpoint", f"vLLM can't read the checkpoint's weights: {_sentence(broken[1])}")
    misshapen = _WEIGHTS_MISSHAPEN.search(text)
    if misshapen is not None:
        told_of = _sentence(misshapen[1].rpartition("Error: ")[2])
        return Infeasible(
            "checkpoint", f"The weights are not those of the checkpoint's config.json: {told_of}"
        )
    named = _telling(text)
    if (lacks := lacked(named, text)) is not None:
        return Infeasible("unsupported", lacks, blames=blamed_by(lacks, log))
    unsupported = next((each for each in named if _NO_KERNEL.search(each)), None)
    if unsupported is not None:
        return _no_kernel(unsupported, text)
    untelling = any(word in told for word in _UNTELLING)
    if untelling and not named:
        return Infeasible("crashed", f"vLLM did not load it: {_ended_silently(log, told)}")
    cause = _sentence(named[-1] if named and untelling else _VALIDATION_NOISE.sub("", told))
    missing = _MODULE_MISSING.search(cause)
    if missing is not None:
        return Infeasible(
            "unsupported",
            f"vLLM's environment has no {missing[1]}, which it imports here: install that with its Python, "
            "or make the environment anew with `autoinfer engines install vllm`.",
            blames=blamed_by(cause, log),
        )
    kind = "illegal" if "alidationError" in cause or "ValueError" in cause else "crashed"
    return Infeasible(kind, f"vLLM did not load it: {cause}", blames=blamed_by(cause, log))


def death_of(log: str, told: str) -> Infeasible:
    """Why a vLLM that had loaded is no more, in a sentence; `told` is of `engine_died`."""
    lost = _device_cause(log)
    if lost is not None:
        return lost
    memory = _memory_cause(log)
    if memory is not None:
        return Infeasible("out_of_memory", memory)
    ended = _ENDED.match(told)
    by_log, by_driver = _DIED.search(log), None if ended is None else ended[1]
    code = int(by_log[1]) if by_log else int(by_driver) if by_driver else None
    how = "" if code is None else f" ({_exit(code)})"
    named = _telling(log)
    if (lacks := lacked(named, log)) is not None:  # some kernels are only compiled when they are to run
        return Infeasible("unsupported", lacks, blames=blamed_by(lacks, log))
    unsupported = next((each for each in named if _NO_KERNEL.search(each)), None)
    if unsupported is not None:  # some kernels are only looked for when they are to run
        return _no_kernel(unsupported, log)
    device = _DEVICE_ERROR.search(log)
    native = _NATIVE.search(log)
    raised = told if ended is None else told[ended.end() :]
    cause = device[1] if device is not None else native[1] if native is not None else raised
    if named and device is None and native is None:
        cause = named[-1]
    why = f": {_sentence(cause)}"
    if cause == raised and any(word in cause for word in _UNTELLING):
        why = ", and its log names no error."
        if code == -signal.SIGKILL:
            why += f" {KILLED}"
    return Infeasible(
        "crashed", f"vLLM's engine process ended while it served{how}{why}", blames=blamed_by(cause, log)
    )


def _ended_silently(log: str, told: str) -> str:
    """How the engine's process ended while it loaded, where no error is named."""
    coded, native = _FAILED_PROCESS.search(told) or _DIED.search(log), _NATIVE.search(log)
    code = None if coded is None else int(coded[1])
    ended = f"its engine process ended{'' if code is None else f' ({_exit(code)})'}"
    if native is not None:
        return f"{ended}: {_sentence(native[1])}"
    why = {None: MAYBE_KILLED, -signal.SIGKILL: KILLED}.get(code)
    return f"{ended}, and its log names no error.{'' if why is None else f' {why}'}"


def missing_bytes(text: str) -> int | None:
    """How much of a GPU's memory was missing for the allocation at which it failed, at least; None where the
    text does not tell, or tells of something else that comes first."""
    if any(each.search(text) for each in (_CACHE_TOO_SMALL, _CPU_CACHE_TOO_LARGE)):
        return None
    return torch_memory.missing_bytes(text)


def _no_kernel(told: str, text: str) -> Infeasible:
    """No kernel serves this; vLLM tells why each of them does not on lines of their own."""
    reasons = dict.fromkeys(_sentence(each) for each in _KERNEL_REASON.findall(text))
    told = f"{told.partition(' Reasons:')[0].rstrip('.')}: {' '.join(reasons)}" if reasons else told
    cause = f"vLLM has no kernel for this here: {_sentence(told)}"
    return Infeasible("unsupported", cause, blames=blamed_by(cause, text))


def _telling(text: str) -> list[str]:
    """Errors that the text names, less those that only say that there was one."""
    return [each for each in _NAMED.findall(text) if not any(word in each for word in _UNTELLING)]


def _exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _device_cause(text: str) -> Infeasible | None:
    """A failure of the GPU itself, which says nothing of what was to run on it."""
    lost = _DEVICE_LOST.search(text)
    if lost is not None:
        return Infeasible(
            DEVICE_LOST,
            f"The GPU failed: {_sentence(lost[1])} Reset it with `nvidia-smi --gpu-reset` or restart the "
            "machine, then resume the campaign.",
        )
    taken = _DEVICE_TAKEN.search(text)
    if taken is None:
        return None
    return Infeasible(DEVICE_BUSY, f"vLLM was not given the GPU: {_sentence(taken[1])} Free it of others.")


def _memory_cause(text: str) -> str | None:
    small = _CACHE_TOO_SMALL.search(text)
    if small is not None:
        context, needed, available, fits = small[1], float(small[2]), float(small[3]), small[4]
        way = f"serving.max_model_len of at most {fits}" if fits else "a smaller serving.max_model_len"
        return (
            f"The KV cache of one sequence of {context} tokens needs {needed:.2f} GiB and {available:.2f} "
            f"are there, {needed - available:.2f} GiB too few; what would fit: {way}."
        )
    large = _CPU_CACHE_TOO_LARGE.search(text)
    if large is not None:
        available, needed = float(large[1]), float(large[3])
        return (
            f"The cache takes {needed:.2f} GiB and {available:.2f} are available, "
            f"{needed - available:.2f} GiB too few; take fewer serving.max_sequences or a smaller "
            "serving.max_model_len."
        )
    full = torch_memory.full_told("The GPU's memory is full", text, LEANER)
    if full is not None:
        return full
    start = _TOO_FULL_TO_START.search(text)
    if start is not None:
        free, whole, needed = (float(start[number]) for number in (1, 2, 3))
        return (
            f"vLLM begins with {needed:.2f} GiB free at least, and {free:.2f} of {whole:.2f} are, "
            f"{max(0.0, needed - free):.2f} GiB too few; free the device of others, or let launches run in "
            "turn."
        )
    untold = _DEVICE_FULL.search(text)
    if untold is not None:
        told = _sentence(untold[1]).rstrip(".")
        return f"The GPU's memory is full, and by how much is not told ({told}); {LEANER}."
    if _NO_CACHE.search(text):
        return (
            "The device has no memory left for the KV cache beside the weights; take a smaller "
            "serving.max_model_len, fewer serving.max_sequences or quantized weights, or free it of others."
        )
    torch = _TORCH_FULL.search(text)
    return None if torch is None else f"The model does not fit into memory: {_sentence(torch[1])}"


def _sentence(text: str) -> str:
    """One line that ends with a full stop."""
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?")) else f"{line}."
