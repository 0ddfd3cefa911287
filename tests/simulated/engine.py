"""A second implementation of the engine's port for tests: real processes, made-up times.

It measures nothing and must never be taken for a device or a model: it lives in `tests/` alone, is called
`simulated`, and says so in what it resolves. Its knobs: `simulated.tpot_ms`, `launch_sd`, `load_s`,
`request_s`, `bits`, `unsolved` (tasks that come out wrong, of each evaluation), `step_weight_bytes`, and
`fails` / `hangs` naming the operation (`check`, `load`, `generate`, `score`) at which it dies or hangs,
`fails_after` / `hangs_after` how many requests, `says` its last words where it fails to load (those of a full
disk are its machine's fault), and `blames` the knob that they put that down to. With a
`drafting.method` it drafts: every step gives `step_tokens` tokens, and `divergences` tokens of each checked
prompt diverge. With a `simulated.kernel` (`auto`, `machete`, `marlin`) and a `simulated.group` it takes the
times that were recorded for these kernels and groups, tells the kernel as `linear_kernel`, and has none of
Machete for groups of 32, as vLLM.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from configs.limits import LOAD_LIMIT_S
from experiments.disk import check_disk_held
from experiments.engines.port import (
    DocumentScore,
    DraftingCheck,
    GenerationRequest,
    GenerationTrace,
    Infeasible,
    PartTime,
    ScoringDocument,
    ScoringTask,
    TaskScore,
)
from experiments.engines.serve_command import NOTHING_RAN, ServeCommand
from experiments.executors import guard
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration, KnobValue

_SERVER = Path(__file__).with_name("server.py")


class TwoComputedAtOnce(AssertionError):
    """Two launches of a device were asked to work at the same time: the job broke its first rule."""


KERNEL, GROUP = "simulated.kernel", "simulated.group"

KERNEL_NAMES = {"machete": "MacheteLinearKernel", "marlin": "MarlinLinearKernel"}

KERNEL_TPOT_MS = {(32, "marlin"): 3.67, (128, "marlin"): 3.62, (128, "machete"): 4.37}
"""TPOT by group size and kernel, as recorded (`tests/recorded/vllm_h200_linear_kernels.json`)."""


def kernel_of(configuration: Configuration) -> str:
    """The kernel that runs: the one asked for, or the engine's own choice by the group size."""
    asked = str(configuration[KERNEL])
    return {32: "marlin", 128: "machete"}[int(configuration[GROUP])] if asked == "auto" else asked


def _with_recorded_time(configuration: Configuration) -> dict[str, KnobValue]:
    if KERNEL not in configuration:
        return dict(configuration)
    time_ms = KERNEL_TPOT_MS[int(configuration[GROUP]), kernel_of(configuration)]
    return {**configuration, "simulated.tpot_ms": time_ms}


class SimulatedLaunch:
    def __init__(
        self, configuration: Configuration, log_path: Path, load_limit_s: float, device: str = "cpu"
    ) -> None:
        self.configuration = configuration
        started = time.monotonic()
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SERVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=guard.descriptors(),
            )
        self._log_path = log_path
        lock = str(log_path.with_name(f"one-at-a-time-{device.replace(':', '-')}"))
        late = threading.Timer(load_limit_s, self.process.kill)
        late.start()
        try:
            self._send({"knobs": _with_recorded_time(configuration), "lock": lock})
            self._receive()
        except Infeasible as dead:
            self.close()
            if not late.is_alive():
                late_too = f"The simulated process was not ready within {load_limit_s:g} s."
                raise Infeasible("timed_out", late_too) from dead
            raise
        finally:
            late.cancel()
        self.load_s = time.monotonic() - started

    def resolved(self) -> Mapping[str, Json]:
        if self.configuration.get("simulated.silent"):
            return {}
        told: dict[str, Json] = {"engine": "simulated"}
        if "simulated.step_weight_bytes" in self.configuration:
            told["step_weight_bytes"] = self.configuration["simulated.step_weight_bytes"]
        if KERNEL in self.configuration:
            told["linear_kernel"] = KERNEL_NAMES[kernel_of(self.configuration)]
        return told

    @property
    def _step_tokens(self) -> int:
        """Tokens a step with drafting; 0 without."""
        if self.configuration.get("drafting.method", "none") == "none":
            return 0
        return int(self.configuration.get("simulated.step_tokens", 2))

    def generate(self, request: GenerationRequest, start_s: float = 0.0) -> GenerationTrace:
        told = self._ask(op="generate", new_tokens=request.new_tokens)
        times = tuple(told["token_times_s"])
        steps = self._steps(len(times))
        if steps:  # the first token comes alone, then those of a step together
            ends = [min(1 + sum(steps[: place + 1]), len(times)) - 1 for place in range(len(steps))]
            times = (times[0], *(times[next(end for end in ends if end >= n)] for n in range(1, len(times))))
        return GenerationTrace(tuple(range(len(times))), times, steps, start_s)

    def serve(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        free_s, traces = [0.0] * concurrency, []
        for request in requests:
            first = free_s.index(min(free_s))
            traces.append(self.generate(request, free_s[first]))
            free_s[first] = traces[-1].end_s
        return traces

    def _steps(self, tokens: int) -> tuple[int, ...]:
        given = self._step_tokens
        return (given,) * (-(-(tokens - 1) // given)) if given else ()

    def score(
        self,
        documents: Sequence[ScoringDocument],
        tasks: Sequence[ScoringTask],
        *,
        reference: Path | None = None,
        write_reference: Path | None = None,
    ) -> tuple[list[DocumentScore], list[TaskScore]]:
        told = self._ask(
            op="score",
            documents=[document.item for document in documents],
            tasks=[task.item for task in tasks],
            reference=str(reference) if reference else None,
            write_reference=str(write_reference) if write_reference else None,
        )
        scores = [
            DocumentScore(item, bits, 1000, kl, None if kl is None else 1.0)
            for item, bits, kl in told["documents"]
        ]
        return scores, [TaskScore(item, correct) for item, correct in told["tasks"]]

    def check_drafting(self, requests: Sequence[GenerationRequest]) -> list[DraftingCheck]:
        if not self._step_tokens:
            raise Infeasible("illegal", "The simulated configuration does not draft.")
        self._ask(op="generate", new_tokens=requests[0].new_tokens)
        diverged = int(self.configuration.get("simulated.divergences", 0))
        return [
            DraftingCheck(each.item, self._steps(each.new_tokens), each.new_tokens - 1, diverged, 0, 0.01, 0)
            for each in requests
        ]

    def profile(self, request: GenerationRequest, concurrency: int = 1) -> list[PartTime]:
        return [PartTime(*part) for part in self._ask(op="profile")["parts"]]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue

    def _ask(self, **request: object) -> dict[str, Any]:
        self._send(request)
        told = self._receive()
        if told.get("overlap"):
            raise TwoComputedAtOnce
        return told

    def _send(self, message: Mapping[str, object]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._dead() from None

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._dead()
        told: dict[str, Any] = json.loads(line)
        return told

    def _dead(self) -> Infeasible:
        last = (self._log_path.read_text().strip().splitlines() or ["it said nothing"])[-1]
        check_disk_held("The simulated engine", last)
        blamed = self.configuration.get("simulated.blames")
        blames = {} if blamed is None else {str(blamed): None}
        return Infeasible("crashed", f"The simulated process ended: {last}.", blames=blames)


class SimulatedEngine:
    name = "simulated"
    max_concurrency = 64
    serves_shapes = True

    def check(
        self, configuration: Configuration, checkpoint: Path, device: str, context_tokens: int = 1
    ) -> None:
        if configuration.get("simulated.fails") == "check":
            raise Infeasible("illegal", "The simulated configuration is illegal.")
        if KERNEL in configuration and (configuration[GROUP], kernel_of(configuration)) not in KERNEL_TPOT_MS:
            raise Infeasible("unsupported", "The simulated kernel has no groups of this size.")

    def serve_command(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        resolved: Mapping[str, Any] = NOTHING_RAN,
    ) -> ServeCommand:
        knobs = [f"--{name}={value}" for name, value in sorted(configuration.items())]
        return ServeCommand(("serve-simulated", str(checkpoint), device, *knobs), "Made up.")

    def plain(self, configuration: Configuration) -> Configuration:
        knobs = {name: value for name, value in configuration.items() if name != "simulated.load_s"}
        return Configuration.of(knobs)

    def launch(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float = LOAD_LIMIT_S,
    ) -> SimulatedLaunch:
        return SimulatedLaunch(configuration, log_path, load_limit_s, device)
