"""The engine's port: load a checkpoint under a configuration in a fresh process, generate, evaluate.

An engine registers under the entry-point group `autoinfer.engines`. One suite of tests
(`tests/integration/engines/conformance.py`) holds every engine to this page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeAlias

from configs.limits import LOAD_LIMIT_S
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration

DECODE_ITEM_PREFIX = "decode:"
"""Begins the name of a document that an engine scored once more, by its timed path instead of a prefill."""


Blames: TypeAlias = Mapping[str, str | None]
"""Knobs that a failure is about by the engine's own words, each with the value that the engine told to run
behind the one it was asked for (`auto`); None where it told of none."""


@dataclass(frozen=True)
class GenerationRequest:
    """One streamed, greedy generation. `prompt_ids` are token ids; end-of-text is ignored, so that
    exactly `new_tokens` tokens come back, but that it ends with the first token of `stop_ids`, which comes
    back too."""

    item: str
    prompt_ids: tuple[int, ...]
    new_tokens: int
    seed: int = 0
    stop_ids: tuple[int, ...] = ()

    def kept(self, token_ids: Sequence[int], before: int = 0) -> tuple[int, ...]:
        """Of the tokens that came after `before` others, those that were asked for: up to `new_tokens` of
        all, or the first that ends it."""
        asked = tuple(token_ids[: self.new_tokens - before])
        ends = (place for place, token in enumerate(asked) if token in self.stop_ids)
        return asked[: next(ends, len(asked)) + 1]

    def ended_by(self, token_ids: Sequence[int]) -> bool:
        """Whether nothing is to follow these tokens, of which the last one is new."""
        return len(token_ids) >= self.new_tokens or token_ids[-1] in self.stop_ids


@dataclass(frozen=True)
class GenerationTrace:
    """A generation and when each token came: seconds of a monotonic clock, from the request's start.

    `token_times_s` has one entry a token; tokens that came in one step (drafting) share a time, and so do
    those that a server sent together. `step_tokens` has, with drafting, the number of tokens that each
    verification step gave, before the last is cut to `new_tokens`, or, over HTTP, as the server has cut it;
    without drafting it is empty. `start_s` is when the request started, in seconds of
    a clock that all traces of a launch share.
    """

    token_ids: tuple[int, ...]
    token_times_s: tuple[float, ...]
    step_tokens: tuple[int, ...] = ()
    start_s: float = 0.0

    @property
    def end_s(self) -> float:
        """When the last token came, on the clock of `start_s`."""
        return self.start_s + self.token_times_s[-1]

    @property
    def ttft_ms(self) -> float:
        """Time to first token, ms."""
        return 1e3 * self.token_times_s[0]

    @property
    def e2el_ms(self) -> float:
        """End to end, ms: start of the request to its last token."""
        return 1e3 * self.token_times_s[-1]

    @property
    def tpot_ms(self) -> float:
        """Time per output token after the first, ms: (end to end − TTFT) / (tokens − 1)."""
        return (self.e2el_ms - self.ttft_ms) / (len(self.token_times_s) - 1)

    @property
    def itl_ms(self) -> tuple[float, ...]:
        """Gaps between consecutive tokens, ms; one fewer than there are tokens."""
        return tuple(1e3 * (b - a) for a, b in pairwise(self.token_times_s))

    @property
    def tokens_per_s(self) -> float:
        """Output tokens over end-to-end time, 1/s."""
        return 1e3 * len(self.token_ids) / self.e2el_ms


@dataclass(frozen=True)
class ScoringDocument:
    """A text whose tokens are scored teacher-forced; `text_bytes` is the length of the scored part."""

    item: str
    token_ids: tuple[int, ...]
    text_bytes: int


@dataclass(frozen=True)
class ScoringTask:
    """An instruction item: is `answer_ids` what greedy decoding gives after `prompt_ids`?

    Checked teacher-forced: the answer is the greedy continuation exactly when each of its tokens is
    the argmax given those before it.
    """

    item: str
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]


@dataclass(frozen=True)
class DocumentScore:
    """Bits to encode a document's tokens after the first; KL(reference‖this) in nats a token and top-1
    agreement with the reference, None when there is no reference to compare with."""

    item: str
    nll_bits: float
    text_bytes: int
    kl_nats: float | None
    top1_agreement: float | None


@dataclass(frozen=True)
class TaskScore:
    """Whether an instruction item came out exactly right."""

    item: str
    correct: bool


@dataclass(frozen=True)
class DraftingCheck:
    """What drafting did to one greedy generation, judged teacher-forced (FACTS §2).

    `step_tokens` as in `GenerationTrace`. The tokens that came out are read back through the same engine
    without a draft: `divergences` of them are not the argmax there although the gap between the two highest
    logits is above `near_tie_logits`, `near_ties` are not the argmax within that gap. `near_tie_logits` is
    measured in the same launch without a draft: the largest change of a logit gap between verifying one
    token and k + 1 tokens of the same text. `flips_without_draft` counts how often that change alone turned
    the argmax, over `positions` tokens. Both may be 0 where every token leads by too much for it to matter.
    """

    item: str
    step_tokens: tuple[int, ...]
    positions: int
    divergences: int
    near_ties: int
    near_tie_logits: float
    flips_without_draft: int


@dataclass(frozen=True)
class PartTime:
    """Time and bytes of one part of a step (a layer, the head, sampling, the rest).

    `weight_bytes` are the weights that it reads, `cache_bytes` what it reads and writes of keys, values and
    states; `launches` counts its kernels (0 where they are not told apart); `operations` are the
    multiplications and additions of its products, told of steps that read prompts alone.
    """

    part: str
    kind: str
    time_ms: float
    weight_bytes: int
    cache_bytes: int = 0
    launches: float = 0.0
    operations: float = 0.0

    @property
    def moved_bytes(self) -> int:
        """All bytes that the part has to move."""
        return self.weight_bytes + self.cache_bytes


DEVICE_BUSY = "device_busy"
"""Kind of a failure beside something else that was on the device."""

DEVICE_LOST = "device_lost"
"""Kind of a failure of the device itself, until someone intervenes."""

DEVICE_FAULTS = (DEVICE_BUSY, DEVICE_LOST)
"""Kinds of failures of the device."""


NO_NUMBERS = "no_numbers"
"""Kind of a failure of a model that computes what is no number, on which nothing can be scored."""


NOT_INSTALLED = "not_installed"
"""Kind of a failure for want of what makes the candidate: an environment, or one that computes on the device.
It lasts until the user installs that, and says nothing of the configuration."""


class Infeasible(Exception):
    """The configuration can't run here; the message is the cause, in a sentence the user reads.

    `kind` is a stable word for the feasibility model (`illegal`, `out_of_memory`, `unsupported`,
    `build_failed`, `crashed`, `timed_out`, `checkpoint`, `no_numbers`, `not_installed`). Those of
    `DEVICE_FAULTS` say nothing of the configuration: the experiment is run again. `missing_bytes` is how much
    memory was missing at least, None where that is not told. `blames` are the knobs that the engine's own
    words put the failure down to; empty where they tell of none.
    """

    def __init__(
        self, kind: str, cause: str, missing_bytes: int | None = None, blames: Blames | None = None
    ) -> None:
        super().__init__(cause)
        self.kind = kind
        self.cause = cause
        self.missing_bytes = missing_bytes
        self.blames: Blames = {} if blames is None else blames


def no_numbers(what: str, value: float) -> Infeasible:
    """That a score, `what`, came out as `value`, which is not finite."""
    return Infeasible(
        NO_NUMBERS,
        f"The model computes no numbers: {what} came out as {value}. Its weights hold values that are none, "
        "or values overflow in the number formats of this configuration.",
    )


class Launch(Protocol):
    """A fresh process that has a checkpoint loaded under one configuration.

    After `profile` it may have `profile_record`, JSON data: what the parts rest on, such as every kernel by
    name, and under `read` the `bandwidth` (`bytes_per_s`, `method`) of the device's memory. Of an engine that
    profiles a lone prompt too, `prompt` has its `parts`, or the `failure` for which there are none, and
    `read` the rate of `products` (`operations_per_s`, `method`).
    """

    configuration: Configuration
    load_s: float

    def resolved(self) -> Mapping[str, Json]:
        """What actually runs, probed from the process: dtypes, threads, compile mode, backends, versions.

        A launch that tells nothing is refused: what else differed between two could not be found.
        """
        ...

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        """One generation. Raises `Infeasible` when the process dies or does not answer in time."""
        ...

    def serve(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        """Generations in a closed loop: `concurrency` requests are under way at every time while there are so
        many left, each started as soon as another has ended; one trace a request, in their order.

        Of an engine that was `asked_over` HTTP they go through its server, as asked by a client process. Such
        a launch may have `answer`, with the same arguments: in the engine's process, for what is not timed.

        This is vLLM's `--max-concurrency`. Raises `Infeasible` as `generate`, and of kind `illegal` for more
        than this launch serves at once.
        """
        ...

    def score(
        self,
        documents: Sequence[ScoringDocument],
        tasks: Sequence[ScoringTask],
        *,
        reference: Path | None = None,
        write_reference: Path | None = None,
    ) -> tuple[list[DocumentScore], list[TaskScore]]:
        """Quality. `write_reference` stores the distributions that a later call gets as `reference`."""
        ...

    def check_drafting(self, requests: Sequence[GenerationRequest]) -> list[DraftingCheck]:
        """Generate with the configuration's drafting and compare with decoding without; one entry a request.

        Raises `Infeasible` (`illegal`) when the configuration does not draft.
        """
        ...

    def profile(self, request: GenerationRequest, concurrency: int = 1) -> list[PartTime]:
        """Time of a decode step by part, with `concurrency` such requests served at once, at most the
        engine's `max_concurrency`; may slow the process, so nothing is timed in it afterwards."""
        ...

    def close(self) -> None:
        """End the process and all it started; idempotent."""
        ...


class Engine(Protocol):
    """Serves configurations of one kind of checkpoint on one kind of device.

    `max_concurrency` is how many requests a launch may be asked at once; a configuration may serve fewer.
    An engine may have `campaign_devices` too, the kinds of devices that it has campaigns on (`("cpu",)`); one
    without it has them wherever its `check` lets them.
    One that computes with packed quantized weights says `serves_packed = True`; of others quantization is
    expected to save no time.
    One that makes up weights for a shape (docs/shapes.md) says `serves_shapes = True`.
    One that runs DFlash drafters by code of its own, so that what this package's network lacks speaks against
    none, says `runs_drafters_itself = True`.
    One whose values depend on its version may have `version_on(device)`: the version that would serve there,
    None where there is none, and `why_no_version_on(device)`: then why, and what to do, in a sentence.
    It may have `newer_on(device)` too: what it means that this version is newer than what the engine was run
    with, in a sentence that plans and campaigns tell once; None where it is not.
    One whose profile takes seconds where a load takes minutes may say `profiles_candidates = True`: then
    every candidate is profiled and not the baseline alone.
    One whose profiles came to hold more, or are made otherwise than they were, has `profile_version`, raised
    each time: profiles that are kept of one version are not taken for those of another.
    One whose `check` looks whether the launches of a test fit side by side may have `up_at_once(launches)`:
    the same engine, for jobs that have no more of them up.
    One that names what would fit where a configuration does not may have `asked_for(concurrency,
    context_tokens, scored_tokens)`: the same engine, for jobs with such a workload.
    One that has an HTTP server of its own says `serves_http = True` and has `asked_over(way)`: the same
    engine whose launches are asked in that way (`configs/asked_over.py`).
    One that can begin the next launch's process while one loads may have `loading_ahead()`, a context that
    gives the same engine for the time of a job; what was begun for nothing ends with it. That engine may
    have `begin_ahead(device, folder, cache_dir)`, which begins one for a launch that comes later, with its
    log in `folder`, and returns at once; it touches no device. And `expect(launches)`: so many are opened at
    once after those that are opened next.
    One whose loads take minutes may have `load_phase(log)`: what a load does now, by its log alone, as words
    such as `compiling`, with how much of it is done in brackets after them.
    One that can time its kernels for packed weights without loading a model may have
    `time_kernels(configurations, checkpoint, device, rows, log_path, cache_dir, tell, known)`, which
    gives `KernelTimings` (`kernel_timings.py`) of all products in each configuration's format by its kernel,
    with so many rows of input, leaves out formats that the model can't be stored in, and raises `Infeasible`
    where it can't time at all; it keeps to a limit of its own and ends all that it starts. What the limit
    cut off is `left` in what it gives, and of `known`, what it gave before (or None), only that is timed.
    One whose versions know other values of its knobs, or that does not take all of them on every device, may
    have `unknown_values(space, device, profile)`: why the one that would serve there does not know values
    of the space, or does not take them for a model of this shape, by knob and value; and
    `unsure_values(space, device)`: of which values it is not known whether it takes them there, and why.
    An engine whose packages are in another environment may have `tool_versions(device)`, their versions by
    name; they go into the keys of what it evaluates.
    """

    name: str
    max_concurrency: int

    def check(
        self, configuration: Configuration, checkpoint: Path, device: str, context_tokens: int = 1
    ) -> str | None:
        """Raise `Infeasible` when the configuration can't run; cheap, loads no weights.

        `context_tokens` are the most tokens of a sequence, prompt and answer, that the workload asks for.
        Returns, in a sentence for the user, what could not be looked at; None where everything was.
        """
        ...

    def plain(self, configuration: Configuration) -> Configuration:
        """A configuration of the same weights that is ready soonest, such as without compilation.

        Used to look at the quality of changed weights before anything is timed; may be the same one.
        """
        ...

    def launch(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float = LOAD_LIMIT_S,
    ) -> Launch:
        """Start a fresh process and wait until it is ready. `cache_dir` outlives launches (compiled code).

        Raises `Infeasible` with the cause, taken from the process's log, when it does not come up; of the
        kind `timed_out` when it is not ready after `load_limit_s` seconds, and is ended then.
        """
        ...
