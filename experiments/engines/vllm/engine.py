"""vLLM as an engine (docs/vllm.md). Imports neither torch nor vLLM itself.

Knobs: `serving.*` as in `order.py`, and `drafting.*` as in the reference engine's `drafting/order.py`.
Pruning and quantization are in the checkpoint it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from configs.asked_over import HTTP, IN_ENGINE, AskedOver
from configs.checkpoints import most_positions
from configs.cpu import cpu_flags
from configs.limits import LOAD_LIMIT_S
from configs.models import ModelProfile
from experiments.checkpoints.tokenizer_file import SAVE_TOKENIZER, TOKENIZER_FILE, no_tokenizer
from experiments.engines.kernel_timings import KERNEL, KernelTimings, products_of, timed_by
from experiments.engines.port import Infeasible, Launch
from experiments.engines.reference.memory import LAUNCHES_AT_ONCE
from experiments.engines.reference.packed_layout import packing_of
from experiments.engines.reference.shape import read_profile
from experiments.engines.serve_command import NOTHING_RAN, ServeCommand
from experiments.engines.vllm.checked_order import checked_order
from experiments.engines.vllm.device_check import check_device, gpu_of
from experiments.engines.vllm.drivers_ahead import DriversAhead
from experiments.engines.vllm.environment import PACKAGES, needed_environment, untried
from experiments.engines.vllm.kernel_timer import KernelTimer, Order
from experiments.engines.vllm.known_values import known_values
from experiments.engines.vllm.launch import VllmLaunch
from experiments.engines.vllm.load_phase import load_phase
from experiments.engines.vllm.on_device import asked_on, not_taken, unsure
from experiments.engines.vllm.order import (
    EAGER,
    chosen_knobs,
    drafting_of,
    text_only,
)
from experiments.engines.vllm.packed_experts import AMX, experts_not_taken, stored_experts_not_taken
from experiments.engines.vllm.profile import PROFILE_VERSION
from experiments.engines.vllm.reserved_cache import layout_of
from experiments.engines.vllm.serve_command import as_measured, vllm_serve
from experiments.engines.vllm.timed_format import timed_format
from experiments.engines.vllm.timing_order import Case
from experiments.engines.vllm.would_fit import Place, with_what_would_fit
from experiments.other_python import package_versions
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import shape_in
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu import Gpu
from experiments.space.space import Space
from experiments.space.steps_ahead_rules import ahead_refused

REQUEST_LIMIT_S = 300.0
"""Most seconds for one request; a first one may compile kernels."""

WRAPPED = "wrapped"
"""Folder of the cache with checkpoints that were written anew for an older vLLM."""

CONCURRENCY_MAX = 1024
"""Most requests at once that a launch may be asked for: the most sequences of a step in vLLM's own defaults.
A configuration serves `serving.max_sequences` of them."""


class VllmEngine:
    """Serves Qwen3.5-type checkpoints with vLLM, in an environment of its own. Entry point `vllm`.

    Launches are asked in the engine's process, and read and write no text, unless the engine is
    `asked_over` HTTP: then `serve` goes through vLLM's own server, which writes text, so that a tokenizer is
    loaded.
    """

    name = "vllm"
    max_concurrency = CONCURRENCY_MAX
    profiles_candidates = True
    profile_version = PROFILE_VERSION
    serves_packed = True
    serves_shapes = True
    runs_drafters_itself = True
    serves_http = True

    def __init__(
        self,
        request_limit_s: float = REQUEST_LIMIT_S,
        launches_at_once: int = LAUNCHES_AT_ONCE,
        workload: tuple[int, int, int] = (1, 1, 0),
        way: AskedOver = IN_ENGINE,
        ahead: DriversAhead | None = None,
    ) -> None:
        """`launches_at_once` are those that must fit into a device's memory side by side; `workload` the
        requests at once, and the tokens of each, that what would fit is to serve, and the tokens of a
        document that is scored; `way` how launches are asked; `ahead` where drivers of launches come from
        that were begun before."""
        self._request_limit_s, self._launches_at_once = request_limit_s, launches_at_once
        self._workload, self._way, self._ahead = workload, way, ahead

    def up_at_once(self, launches: int) -> VllmEngine:
        """The same for jobs that have at most so many launches up: what must fit is the fewer of these and
        the two of a test."""
        least = min(launches, LAUNCHES_AT_ONCE)
        return VllmEngine(self._request_limit_s, least, self._workload, self._way, self._ahead)

    def asked_for(self, concurrency: int, context_tokens: int, scored_tokens: int) -> VllmEngine:
        """The same for jobs that ask for so many requests at once of so many tokens, prompt and answer, and
        score documents of so many: what is named as what would fit serves them."""
        workload = (concurrency, context_tokens, scored_tokens)
        return VllmEngine(self._request_limit_s, self._launches_at_once, workload, self._way, self._ahead)

    def asked_over(self, way: AskedOver) -> VllmEngine:
        """The same whose launches are asked in this way."""
        return VllmEngine(self._request_limit_s, self._launches_at_once, self._workload, way, self._ahead)

    @contextmanager
    def loading_ahead(self, ahead: DriversAhead | None = None) -> Iterator[VllmEngine]:
        """The same for the time of a job, each of whose loads begins to import for the next
        (`drivers_ahead.py`); what was begun for nothing ends with it."""
        engine = copy(self)  # of the same class
        engine._ahead = ahead or DriversAhead()
        try:
            yield engine
        finally:
            engine._ahead.close()

    def begin_ahead(self, device: str, folder: Path, cache_dir: Path) -> None:
        """Begin to import for a launch that comes later in the job, with its log in `folder`; nothing of it
        touches the device. Nothing but for the time of a job (`loading_ahead`), and where there is no vLLM,
        which the launch tells."""
        if self._ahead is not None:
            with suppress(Infeasible):
                self._ahead.begin(needed_environment(device), device, folder, cache_dir)

    def expect(self, launches: int) -> None:
        """Tell how many launches are opened at once after those that are opened next; their processes are
        begun meanwhile. Nothing but for the time of a job (`loading_ahead`)."""
        if self._ahead is not None:
            self._ahead.expect(launches)

    def check(
        self, configuration: Configuration, checkpoint: Path, device: str, context_tokens: int = 1
    ) -> str | None:
        """Raise `Infeasible` when the configuration can't run here; starts no vLLM and reads no weights.

        Kinds: `unsupported` (a knob, the device, a kernel that it lacks, a missing or too old vLLM, HTTP
        without a tokenizer),
        `illegal` (a value, a context that is too long for it), `checkpoint` (missing or broken),
        `out_of_memory`.
        """
        _, files = checked_order(configuration, checkpoint, device)
        self._over_http(checkpoint)
        longest = chosen_knobs(configuration)["serving.max_model_len"]
        needed = context_tokens + 1 + drafting_of(configuration).draft_tokens
        if isinstance(longest, int) and needed > longest:
            raise Infeasible(
                "illegal",
                f"The workload's sequences take {needed} tokens and serving.max_model_len is {longest}; "
                "make it larger.",
            )
        most = most_positions(files.text_config)
        if isinstance(longest, int) and most is not None and longest > most:
            raise Infeasible(
                "illegal",
                f"serving.max_model_len is {longest}, and the model's sequences have {most} tokens at most.",
            )
        found = needed_environment(device)
        known = known_values(found)
        for knob, value in configuration.items():
            why = known.why_not_on(device, knob, value, files.layer_types)
            if why is not None:
                raise Infeasible("unsupported", why)
        if (why := ahead_refused(configuration, Gpu(None, self.name, found.number))) is not None:
            raise Infeasible("unsupported", why)
        told = [known.unread]
        if device == "cpu":
            stored = stored_experts_not_taken(packing_of(files), has_amx=AMX in (cpu_flags() or ()))
            if stored is not None:
                raise Infeasible("unsupported", stored)
        else:
            doubt = check_device(
                configuration,
                checkpoint,
                device,
                context_tokens,
                launches=self._launches_at_once,
                has_package=lambda name: package_versions(found.python, (name,))[name] is not None,
                concurrency=self._workload[0],
                version=found.number,
                scored_tokens=self._workload[2],
            )
            told.append(doubt)
        return " ".join(filter(None, told)) or None

    def unknown_values(
        self, space: Space, device: str, profile: ModelProfile
    ) -> Mapping[tuple[str, KnobValue], str]:
        """Why the vLLM that would serve on the device does not know values of a space, or does not take them
        there for such a model, by knob and value; where there is none, or it could not be asked, what no vLLM
        takes there."""
        experts = experts_not_taken(
            space, device, has_experts=profile.experts is not None, has_amx=AMX in (cpu_flags() or ())
        )
        try:
            known = known_values(needed_environment(device))
        except Infeasible:
            return {**experts, **not_taken(space, device, None, {}, profile.layer_types)}
        there = not_taken(space, device, known.version, known.kernels, profile.layer_types)
        return {**experts, **there, **known.unknown(space)}

    def unsure_values(self, space: Space, device: str) -> Mapping[tuple[str, KnobValue], str]:
        """Of which values of a space it is not known whether vLLM takes them on the device, and why."""
        return unsure(space, device)

    def version_on(self, device: str) -> str | None:
        """The version of the vLLM that would serve on the device; None where there is none."""
        try:
            return needed_environment(device).version
        except Infeasible:
            return None

    def newer_on(self, device: str) -> str | None:
        """What it means that the vLLM that would serve on the device is newer than what this engine was run
        with, in a sentence; None where it is not, and where there is none."""
        try:
            return untried(needed_environment(device))
        except Infeasible:
            return None

    def why_no_version_on(self, device: str) -> str | None:
        """Why no vLLM would serve on the device, and what to do, in a sentence; None where one would."""
        try:
            needed_environment(device)
        except Infeasible as reason:
            return reason.cause
        return None

    def version_number_on(self, device: str) -> tuple[int, int] | None:
        """Major and minor number of the vLLM that would serve on the device; None where there is none."""
        try:
            return needed_environment(device).number
        except Infeasible:
            return None

    def load_phase(self, log: str) -> str:
        """What a load does now, by its log (`load_phase.py`)."""
        return load_phase(log)

    def plain(self, configuration: Configuration) -> Configuration:
        """The same without compilation and graphs, which take most of a load, and without drafting, which
        changes no text."""
        kept = {knob: value for knob, value in configuration.items() if not knob.startswith("drafting.")}
        if "drafting.method" in configuration:
            kept["drafting.method"] = "none"
        return Configuration.of(kept | {"serving.graph_mode": EAGER})

    def tool_versions(self, device: str) -> Mapping[str, str | None]:
        """The versions of the packages in vLLM's environment that decide what is computed; empty where there
        is none."""
        try:
            found = needed_environment(device)
        except Infeasible:
            return {}
        return {f"vllm: {name}": each for name, each in package_versions(found.python, PACKAGES).items()}

    def launch(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float = LOAD_LIMIT_S,
    ) -> Launch:
        """Start a fresh process and wait until it has loaded, compiled and captured, and is ready.

        `cache_dir` keeps vLLM's compiled code between launches. A checkpoint that is gone when a load has
        failed is told as that, whatever vLLM says of its name. A GPU whose memory was too small is told
        with what would fit by the plan, where vLLM tells how much was missing.
        """
        order, files = checked_order(configuration, checkpoint, device, str(cache_dir / WRAPPED))
        order = replace(order, arguments=order.arguments | self._over_http(checkpoint))
        found = needed_environment(device)
        beside = asked_on(device, found.number, order.arguments)
        order = replace(order, arguments=order.arguments | beside)
        layout, reserved = layout_of(configuration, checkpoint), order.arguments["kv_cache_memory_bytes"]
        gpu = gpu_of(device)
        try:
            launch = VllmLaunch(
                configuration,
                order,
                files,
                found,
                log_path,
                cache_dir,
                load_limit_s,
                self._request_limit_s,
                lambda tokens: layout.sequences_that_fit(tokens + order.draft_tokens, reserved),
                asked_over=self._way,
                ahead=self._ahead,
            )
        except Infeasible as failure:
            if failure.kind != "out_of_memory":
                checked_order(configuration, checkpoint, device)  # may have been removed or changed meanwhile
            if gpu is None:
                raise
            concurrency, context_tokens, scored_tokens = self._workload
            served = Gpu(gpu.compute_capability, self.name, found.number)
            place = Place(checkpoint, gpu.memory_bytes, context_tokens, concurrency, served, scored_tokens)
            raise with_what_would_fit(failure, configuration, place, gpu.free_bytes) from None
        finally:
            waited_s = 0.0 if self._ahead is None else self._ahead.settle()
        launch.waited_for_next(waited_s)
        return launch

    def time_kernels(
        self,
        configurations: Sequence[Configuration],
        checkpoint: Path,
        device: str,
        rows: int,
        log_path: Path,
        cache_dir: Path,
        tell: Callable[[int, int, str], None] = lambda done, planned, text: None,
        known: KernelTimings | None = None,
    ) -> KernelTimings:
        """As the port says; the method is in `product_times.py`, limits are in `kernel_timer.py`."""
        profile, cases = read_profile(checkpoint), []
        for each in configurations:
            try:
                stored = timed_format(profile, each)
            except Infeasible:
                continue  # groups that do not divide all inputs: only with something spared are they legal
            cases.append(Case(timed_by(each), str(each.get(KERNEL, "auto")), stored))
        dtype = str(chosen_knobs(configurations[0])["serving.dtype"]) if configurations else "bfloat16"
        order = Order(products_of(profile), rows, dtype, device)
        return KernelTimer(order, needed_environment(device), log_path, cache_dir).time(cases, tell, known)

    def serve_command(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        resolved: Mapping[str, Any] = NOTHING_RAN,
    ) -> ServeCommand:
        """`vllm serve` with the arguments that a launch gets, and as many tokens a step as were `resolved`;
        starts nothing. Raises `Infeasible` as `launch`."""
        order, _ = checked_order(configuration, checkpoint, device)
        return vllm_serve(order, {**as_measured(resolved), **text_only(checkpoint)})

    def _over_http(self, checkpoint: Path) -> dict[str, Any]:
        """The arguments that vLLM's HTTP server needs besides: a tokenizer, and that it adds nothing to what
        is asked for; none where launches are not asked over it. Raises `Infeasible` where there is no
        tokenizer."""
        if self._way != HTTP:
            return {}
        folder = checkpoint if shape_in(checkpoint) is None else reference_model_path()
        if not (folder / TOKENIZER_FILE).is_file():
            raise Infeasible("unsupported", f"{no_tokenizer(folder)} {SAVE_TOKENIZER}.")
        return {"skip_tokenizer_init": False, "tokenizer": str(folder), "generation_config": "vllm"}
