"""Prepares a grid's loads for measuring: all that other work on the machine does not falsify.

For each load, in the order of the grid: its checkpoint is built, the engine's own check asked, its quality
evaluated, its drafting checked, and its decode step compiled into the table's cache. What several loads share
is done once: a checkpoint, the scores of one in a type, drafting in one way, code of one shape. Scores are of
eager launches of one thread: neither compiling nor threads nor drafting changes them by more than rounding.

Everything is in the journal as soon as it is known, with the processor's seconds that it took, which other
work changes less than those of the clock. Several calls may prepare one table, one of them backwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from agent.tables.building import Builder, Built, architecture
from agent.tables.grid import PlannedLoad
from agent.tables.ground import ARTIFACTS, DISTRIBUTIONS, Ground, launch_processor_s, load_fields
from agent.tables.journal import Measured, read_journal, scope_of
from agent.tables.load_words import told
from agent.tables.prepared import BUILD, COMPILE, DRAFTING, QUALITY, READY, Prepared
from experiments.artifacts.store import ArtifactStore
from experiments.engines.port import DECODE_ITEM_PREFIX, Infeasible
from experiments.job.context import CheckpointStage
from experiments.space.configuration import Configuration, KnobValue

ONE_WAY: Mapping[str, KnobValue] = {"serving.compile": "off", "serving.threads": 1}
"""How launches are run whose scores are kept."""

COMPILED_BY = (
    "serving.compile",
    "serving.dtype",
    "serving.threads",
    "drafting.method",
    "drafting.draft_tokens",
)
"""Knobs that decide what is compiled, beside the shape of the checkpoint."""

DIGITS = 4
"""Digits after the point of bits and nats."""


class Preparing:
    """Prepares what of a grid is not prepared yet; `tell` gets a sentence for each thing that happens."""

    def __init__(
        self, ground: Ground, stages: tuple[CheckpointStage, ...], tell: Callable[[str], None]
    ) -> None:
        self._ground, self._tell = ground, tell
        self._journal = ground.journal()
        self._store = ArtifactStore(ground.folder / ARTIFACTS)
        self._builder = Builder(
            ground.checkpoint, stages, self._store, lambda fields: self._journal.add(BUILD, fields)
        )
        self._read()

    def run(self, *, backwards: bool = False) -> int:
        """Prepare; returns how many loads are left that are neither prepared nor failed."""
        loads, begin = self._ground.grid.loads, {"grid": self._ground.grid.name}
        self._journal.add("begin", {**begin, "command": self._ground.command, "prepares": True})
        with self._store:
            for load in reversed(loads) if backwards else loads:
                if self._ground.budget.is_over:
                    break
                self._read()  # another call may have prepared it
                if self._is_left(load):
                    self._try(load)
        self._read()
        return sum(map(self._is_left, loads))

    def _read(self) -> None:
        path = self._ground.journal_path
        scope = self._ground.device.scope
        lines = [line for line in read_journal(path) if scope_of(line) == scope] if path.is_file() else []
        self._prepared = Prepared(lines)
        self._measured = Measured(lines, scope)
        self._builder.told.update(self._prepared.builds)

    def _is_left(self, load: PlannedLoad) -> bool:
        digest = self._ground.grid.digest(load)
        return digest not in self._prepared.ready and not self._measured.load_is_over(digest)

    def _try(self, load: PlannedLoad) -> None:
        fields, words = load_fields(self._ground.grid, load), told(self._ground.grid, load)
        try:
            ready = self._ready(load)
        except Infeasible as failure:
            cause = {"kind": failure.kind, "cause": failure.cause}
            self._journal.add("failure", {**fields, "failure": cause, "workload": None, "prepares": True})
            self._tell(f"{fields['load']} can't be ({failure.kind}): {words}: {failure.cause}")
            return
        self._journal.add(READY, {**fields, **ready})
        self._tell(f"{fields['load']} is ready: {words}")

    def _ready(self, load: PlannedLoad) -> dict[str, Any]:
        ground, configuration = self._ground, load.configuration
        order = {knob: value for knob, value in configuration.items() if knob.startswith("serving.")}
        ground.engine.check(Configuration.of(order), ground.checkpoint, ground.device.device)
        built = self._builder.built(configuration)
        ground.engine.check(configuration, built.folder, ground.device.device, ground.workload.context_tokens)
        return {
            "builds": list(built.artifacts),
            "checkpoint": built.name,
            QUALITY: self._quality(configuration, built),
            DRAFTING: self._drafting(configuration, built),
            COMPILE: self._compiled(configuration, built),
        }

    def _quality(self, configuration: Configuration, built: Built) -> str:
        plain = Configuration.of({**self._ground.engine.plain(configuration), **ONE_WAY})
        key = f"{built.name[:16]} {dtype_of(plain)}"
        if key not in self._prepared.quality:
            self._add(QUALITY, key, self._scored(plain, built))
        return key

    def _scored(self, plain: Configuration, built: Built) -> dict[str, Any]:
        ground, workload, reference = self._ground, self._ground.workload, self._reference()
        launch = ground.launch(plain, built.folder, f"quality-{built.name[:16]}")
        try:
            loaded_s = launch_processor_s(launch)
            documents, tasks = launch.score(
                ground.material.documents(workload),
                ground.material.tasks(workload),
                reference=reference,
            )
            scored_s = launch_processor_s(launch)
        finally:
            launch.close()
        documents = [each for each in documents if not each.item.startswith(DECODE_ITEM_PREFIX)]
        bits = sum(each.nll_bits for each in documents)
        text_bytes = sum(each.text_bytes for each in documents)
        kl = [0.0 if each.kl_nats is None else each.kl_nats for each in documents]
        return {
            "bits_per_byte": round(bits / text_bytes, 6),
            "kl_nats": round(fmean(kl), 6),
            "tasks_solved": round(fmean(each.correct for each in tasks), 4) if tasks else None,
            "load_processor_s": _rounded(loaded_s),
            "processor_s": None if scored_s is None or loaded_s is None else _rounded(scored_s - loaded_s),
            "documents": [[round(each.nll_bits, 2), each.text_bytes] for each in documents],
            "tasks": "".join("1" if each.correct else "0" for each in tasks),
            "material": dict(ground.material.identity(workload)),
        }

    def _reference(self) -> Path:
        """The distributions of the first load, which all are compared with; written when first needed."""
        ground, workload = self._ground, self._ground.workload
        distributions = ground.folder / DISTRIBUTIONS
        if not distributions.exists():
            first = ground.grid.loads[0].configuration
            plain = Configuration.of({**ground.engine.plain(first), **ONE_WAY})
            launch = ground.launch(plain, self._builder.built(first).folder, "quality-reference")
            try:
                documents = ground.material.documents(workload)
                launch.score(documents, ground.material.tasks(workload), write_reference=distributions)
            finally:
                launch.close()
        return distributions

    def _drafting(self, configuration: Configuration, built: Built) -> str | None:
        if configuration.get("drafting.method", "none") == "none":
            return None
        eager = Configuration.of({**configuration, **ONE_WAY})
        knobs = [str(eager[knob]) for knob in sorted(eager) if knob.startswith("drafting.")]
        key = " ".join([built.name[:16], dtype_of(eager), *knobs])
        if key not in self._prepared.drafting:
            self._add(DRAFTING, key, self._checked(eager, built))
        return key

    def _checked(self, eager: Configuration, built: Built) -> dict[str, Any]:
        launch = self._ground.launch(eager, built.folder, f"drafting-{built.name[:16]}")
        try:
            loaded_s = launch_processor_s(launch)
            checks = launch.check_drafting(self._ground.material.drafting_prompts(self._ground.workload))
            checked_s = launch_processor_s(launch)
        finally:
            launch.close()
        return {
            "tokens_a_step": round(fmean(tokens for each in checks for tokens in each.step_tokens), DIGITS),
            "checked_tokens": sum(each.positions for each in checks),
            "divergences": sum(each.divergences for each in checks),
            "near_ties": sum(each.near_ties for each in checks),
            "flips_without_draft": sum(each.flips_without_draft for each in checks),
            "step_tokens": {each.item: list(each.step_tokens) for each in checks},
            "processor_s": None if checked_s is None or loaded_s is None else _rounded(checked_s - loaded_s),
        }

    def _compiled(self, configuration: Configuration, built: Built) -> str | None:
        if configuration.get("serving.compile", "off") == "off":
            return None
        words = " ".join(str(configuration[knob]) for knob in COMPILED_BY if knob in configuration)
        shape = hashlib.sha256(architecture(built.folder).encode()).hexdigest()[:8]
        key = f"{shape} {words}"
        if key not in self._prepared.compiled:
            self._add(COMPILE, key, self._first_launch(configuration, built))
        return key

    def _first_launch(self, configuration: Configuration, built: Built) -> dict[str, Any]:
        ground = self._ground
        launch = ground.launch(configuration, built.folder, f"compile-{built.name[:16]}")
        try:
            loaded_s = launch_processor_s(launch)
            launch.serve(ground.material.warmup(ground.workload, ground.grid.seed), 1)
            return {
                "load_s": _rounded(launch.load_s),
                "load_parts_s": dict(getattr(launch, "load_parts_s", {})),
                "processor_s": _rounded(loaded_s),
                "resolved": dict(launch.resolved()),
            }
        finally:
            launch.close()

    def _add(self, kind: str, key: str, told: Mapping[str, Any]) -> None:
        self._journal.add(kind, {"key": key, **told})
        self._prepared.add({"kind": kind, "key": key, **told})


def dtype_of(configuration: Configuration) -> str:
    """The type that a configuration serves in, in a word."""
    return str(configuration.get("serving.dtype", "own"))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
