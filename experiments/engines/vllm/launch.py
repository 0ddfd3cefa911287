"""A launch of vLLM, seen from the parent. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from configs.asked_over import IN_ENGINE, AskedOver
from configs.quantities import format_duration
from experiments.engines.messages import data_of, message_of, messages_of
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
from experiments.engines.reference.drafting.order import drafter_layers, drafter_source
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.engines.reference.stored_weights import stored_weights
from experiments.engines.server_process import not_started
from experiments.engines.vllm.driver_process import BegunDriver, DriverProcess
from experiments.engines.vllm.drivers_ahead import DriversAhead
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.http_client_process import CLIENT, HttpClient
from experiments.engines.vllm.order import VllmOrder, drafting_of
from experiments.engines.vllm.prompt_profile import PROMPTS_READ
from experiments.engines.vllm.silence import SILENT
from experiments.measurement.evidence import Json
from experiments.shapes.folder import LATENCY_ONLY, NO_QUALITY, shape_in
from experiments.shapes.marker import drafter_of_shape
from experiments.space.configuration import Configuration
from experiments.space.legality import EXTERNAL_DRAFTERS

ASYNC_SCHEDULING = "async_scheduling"
"""vLLM's argument, and the key of the resolved configuration."""

SHAPE_S_OWN = "the shape's own (dummy)"
"""What is told in place of the folder of a drafter that a shape brings."""


class VllmLaunch:
    """A driver process with a checkpoint loaded, and the client that asks it over HTTP, where one does.

    Made by `VllmEngine.launch`; not for several threads.
    """

    def __init__(
        self,
        configuration: Configuration,
        order: VllmOrder,
        files: CheckpointFiles,
        found: VllmEnvironment,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float,
        request_limit_s: float,
        fits: Callable[[int], int] | None = None,
        *,
        asked_over: AskedOver = IN_ENGINE,
        ahead: DriversAhead | None = None,
    ) -> None:
        """Start the process and wait until it is ready; raises `Infeasible` with the cause when it is not.

        `fits` tells how many sequences of so many tokens its cache has room for; None: not looked at.
        `asked_over` is how `serve` asks; over HTTP the order names a tokenizer. `ahead` has processes that
        were begun before.
        """
        self.configuration = configuration
        self._order, self._files = order, files
        self._log_path = log_path
        self._start = partial(
            DriverProcess,
            found=found,
            cache_dir=cache_dir,
            load_limit_s=load_limit_s,
            request_limit_s=request_limit_s,
            configuration=configuration,
        )
        begin = BegunDriver if ahead is None else ahead.take
        self._driver = self._start(order, log_path=log_path, begin=begin)
        self._reader: DriverProcess | None = None
        self._asked_over = asked_over
        self._client: HttpClient | None = None
        self._address: str | None = None
        self._start_client = partial(
            HttpClient,
            found=found,
            log_path=log_path.with_stem(f"{log_path.stem}-client"),
            cache_dir=cache_dir,
        )
        self._request_limit_s = request_limit_s
        self.load_s, self.load_parts_s = self._driver.load_s, self._driver.load_parts_s
        self._fits = fits
        self.profile_record: Mapping[str, Json] | None = None
        """What the last profile rests on."""

    def waited_for_next(self, seconds: float) -> None:
        """Count what the load waited until the driver that it began for the next one was at rest."""
        if seconds:
            self.load_s += seconds
            self.load_parts_s = {**self.load_parts_s, "next_s": seconds}

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._driver.pid

    @property
    def client_pid(self) -> int | None:
        """The process id of what asks over HTTP; None before the first block, and where nothing does."""
        return None if self._client is None else self._client.pid

    def resolved(self) -> Mapping[str, Json]:
        """What actually runs, read from vLLM's worker; see `describe.py`."""
        told: dict[str, Json] = self._driver.ask({"op": "resolved"}, "tell what it runs")
        if self._asked_over != IN_ENGINE:
            told["asked_over"] = self._asked_over
        if isinstance(drafting := told.get("drafting"), dict):
            told["drafting"] = drafting | _drafter(drafting, self.configuration, self._files.folder)
        if (shape := shape_in(self._files.folder)) is not None:
            made_up = told["weights"] if isinstance(told["weights"], dict) else {}
            latency_only: Json = LATENCY_ONLY
            return {
                "engine": "vllm",
                "latency_only": latency_only,
                **told,
                "weights": {**shape.resolved(), **made_up},
            }
        dtype = str(told["dtype"])
        weights = dict(stored_weights(self._files, dtype))
        # vLLM has kernels for what is stored, so its time is that of these weights
        weights |= {"served": f"as stored, computed in {dtype}", "latency_representative": True}
        weights.pop("latency_reason", None)
        if isinstance(told["weights"], dict):
            weights |= told["weights"]
        return {"engine": "vllm", **told, "weights": weights}

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        """One greedy generation; raises `Infeasible` when the process dies or does not answer in time."""
        return message_of(
            GenerationTrace, self._driver.ask({"op": "generate", "request": data_of(request)}, "generate")
        )

    def serve(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        """As the port says: over vLLM's HTTP server where this launch is asked so, by a process of its own
        (`http_client.py`), else in the engine's process (`answer`).

        Raises `Infeasible` for more at once than `serving.max_sequences` (kind `illegal`), or than the cache
        of this card has room for (`out_of_memory`): the others would wait in vLLM's queue, and times would be
        those of fewer at once.
        """
        if self._asked_over == IN_ENGINE:
            return self.answer(requests, concurrency)
        self._check_room(requests, concurrency)
        client, limit_s = self._opened_client(), self._request_limit_s * _rounds(requests, concurrency)
        try:
            traces, names = client.ask(requests, concurrency, limit_s)
        except Infeasible as failure:
            if failure.kind == "illegal":
                raise
            raise self._failed_over_http(failure, limit_s) from None
        if not self._order.draft_tokens:
            return traces
        steps = self._driver.ask({"op": "steps_over_http", "names": list(names)}, "tell its steps")
        return [
            replace(trace, step_tokens=tuple(told[1:])) for trace, told in zip(traces, steps, strict=True)
        ]

    def prepare(self, requests: Sequence[GenerationRequest]) -> None:
        """Before a block is timed over HTTP: let the client write its prompts as texts (`http_client.py`).

        Raises `Infeasible` as `serve`.
        """
        if self._asked_over == IN_ENGINE:
            return
        client = self._opened_client()
        try:
            client.prepare(requests, self._request_limit_s)
        except Infeasible as failure:
            raise self._failed_over_http(failure, self._request_limit_s) from None

    def _opened_client(self) -> HttpClient:
        """The client, begun with the first block; where it can't be, all is ended and `Infeasible` raised."""
        if self._client is None:
            address = self.open_http()
            try:
                self._client = self._start_client(address)
            except (Infeasible, OSError):
                self.close()
                raise
        return self._client

    def answer(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        """As `serve`, in the engine's process however the launch is asked; the loop is in `serving.py`."""
        self._check_room(requests, concurrency)
        request: dict[str, Json] = {
            "op": "serve",
            "requests": [data_of(each) for each in requests],
            "concurrency": concurrency,
        }
        rounds = _rounds(requests, concurrency)
        return messages_of(GenerationTrace, self._driver.ask(request, "serve them", requests=rounds))

    def _failed_over_http(self, failure: Infeasible, limit_s: float) -> Infeasible:
        """Why no answer came over HTTP, by the engine's own words where it has died; all is ended."""
        try:
            if failure.kind == "timed_out":
                late = f"vLLM did not serve them over HTTP within {format_duration(limit_s)}"
                told = failure.cause if failure.cause.startswith(SILENT) else late
                return Infeasible("timed_out", f"{told}; it was ended: {self._driver.last_log_line()}")
            if not failure.cause.startswith(CLIENT):  # else the client itself has died
                self._driver.ask({"op": "health"}, "serve them")
        except Infeasible as of_engine:
            return of_engine
        finally:
            self.close()
        return failure

    def _check_room(self, requests: Sequence[GenerationRequest], concurrency: int) -> None:
        most = int(self._order.arguments["max_num_seqs"])
        if not 1 <= concurrency <= most:
            raise Infeasible(
                "illegal",
                f"{concurrency} requests at once were asked for and serving.max_sequences is {most}; "
                "make it as large.",
            )
        longest = max((len(each.prompt_ids) + each.new_tokens for each in requests), default=0)
        room = len(requests) if self._fits is None else self._fits(longest)
        if room < min(concurrency, len(requests)):
            raise Infeasible(
                "out_of_memory",
                f"{concurrency} requests of {longest} tokens at once were asked for, and the cache that is "
                f"kept on a card of this size has room for {room}; ask for fewer at once or shorter ones.",
            )

    def open_http(self) -> str:
        """Let vLLM's own OpenAI server answer too, over the same engine, if it does not yet; its address. See
        `openai_app.py`.

        Of a launch that is asked over HTTP: of others no tokenizer is loaded, and vLLM's server writes text.
        """
        if self._address is None:
            self._address = str(self._driver.ask({"op": "open_http"}, "open its HTTP server"))
        return self._address

    def score(
        self,
        documents: Sequence[ScoringDocument],
        tasks: Sequence[ScoringTask],
        *,
        reference: Path | None = None,
        write_reference: Path | None = None,
    ) -> tuple[list[DocumentScore], list[TaskScore]]:
        """Quality, as the port says; one document more comes back, `decode:<item>` (see `scoring.py`)."""
        self._refuse_dummy()
        answer = self._readable().ask(
            {
                "op": "score",
                "documents": [data_of(document) for document in documents],
                "tasks": [data_of(task) for task in tasks],
                "reference": str(reference) if reference is not None else None,
                "write_reference": str(write_reference) if write_reference is not None else None,
            },
            "score",
            requests=len(documents) + len(tasks) + 1,
        )
        return messages_of(DocumentScore, answer["documents"]), messages_of(TaskScore, answer["tasks"])

    def check_drafting(self, requests: Sequence[GenerationRequest]) -> list[DraftingCheck]:
        """As the port says; the texts are those of the process that is timed."""
        self._refuse_dummy()
        told: dict[str, Json] = {"requests": [data_of(each) for each in requests]}
        texts = self._driver.ask({"op": "draft_texts", **told}, "draft", requests=len(requests))
        checks = self._readable().ask(
            {"op": "check_drafting", **told, "texts": texts},
            "check its drafting",
            requests=2 * len(requests),
        )
        return messages_of(DraftingCheck, checks)

    def profile(self, request: GenerationRequest, concurrency: int = 1) -> list[PartTime]:
        """Time of a decode step by part, with `concurrency` such requests served at once; the method is in
        `profile.py`, what it rests on in `profile_record` afterwards."""
        answer = self._driver.ask(
            {"op": "profile", "request": data_of(request), "concurrency": concurrency},
            "profile",
            requests=2 * concurrency + PROMPTS_READ,
        )
        self.profile_record = answer["record"]
        return messages_of(PartTime, answer["parts"])

    def close(self) -> None:
        """End all processes; idempotent."""
        for process in (self._client, self._driver, self._reader):
            if process is not None:
                process.close()

    def _refuse_dummy(self) -> None:
        if self._order.dummy:
            raise Infeasible("unsupported", NO_QUALITY)

    def _drafts_ahead(self) -> bool:
        """Whether steps are scheduled ahead, so that drafts stay on the device and none can be replaced."""
        if self._order.drafting_method == "none" or self._order.arguments.get(ASYNC_SCHEDULING) is False:
            return False
        return bool(self._driver.ask({"op": "resolved"}, "tell what it runs")[ASYNC_SCHEDULING] != "off")

    def _readable(self) -> DriverProcess:
        """The process that can read a text by steps that verify it as a draft: this one, or a second one that
        schedules each step after the last, and is otherwise the same.

        Where there is no memory for both the timed one is ended: it is not timed any more.
        """
        if self._reader is None and self._drafts_ahead():
            order = replace(self._order, arguments=self._order.arguments | {ASYNC_SCHEDULING: False})
            log_path = self._log_path.with_stem(f"{self._log_path.stem}-reader")
            try:
                self._reader = self._started_reader(order, log_path)
            except Infeasible as failure:
                if failure.kind != "out_of_memory":
                    raise
                self._driver.close()
                self._reader = self._started_reader(order, log_path)
        return self._reader or self._driver

    def _started_reader(self, order: VllmOrder, log_path: Path) -> DriverProcess:
        try:
            return self._start(order, log_path=log_path)
        except OSError as cause:
            raise not_started("vLLM's second process, which reads texts,", cause) from None


def _rounds(requests: Sequence[GenerationRequest], concurrency: int) -> int:
    """How many requests follow each other at one place."""
    return -(-len(requests) // concurrency)


def _drafter(told: Mapping[str, Json], configuration: Configuration, target: Path) -> dict[str, Json]:
    """What `told` says of the drafter, and, of one with weights of its own, which files it is of and how many
    weights they hold, with the layers of one by DFlash: vLLM's own process knows a folder alone, in which
    others may lie by now. Of one that the shape `target` brings that is told: where it lies says nothing."""
    order = drafting_of(configuration)
    if order.method not in EXTERNAL_DRAFTERS:
        return {}
    source, known = drafter_source(order, target), told.get("drafter")
    stored, layers = stored_parameters(source.folder), drafter_layers(order, target)
    described = source.described()
    if source.folder == drafter_of_shape(target):
        described["folder"] = SHAPE_S_OWN
    return {
        "drafter": {
            **(known if isinstance(known, dict) else {}),
            **described,
            **({} if stored is None else {"parameters": stored.parameters}),
            **({} if layers is None else asdict(layers)),
        }
    }
