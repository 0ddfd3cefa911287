"""The scope of a finding: where its verdicts were reached, and so the only place it speaks of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from configs.asked_over import ASKED_OVER, HTTP
from configs.quality_tasks import AskedTask, asked_tasks
from experiments.measurement.evidence import Json
from experiments.space.configuration import Change, Configuration, KnobValue
from experiments.space.workload_rules import BATCH_TOKENS, LEAST_STEP_TOKENS, asked_of_a_step
from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY
from knowledge.machines import machine

OWN_VERSIONS = frozenset({"autoinfer", "git_revision"})
"""Versions of this program itself: recorded with an experiment, no part of what was measured."""

TOKENS_A_STEP = "tokens_a_step"
"""How a workload tells what steps held of it, where its control does not say it and the requests told it from
2,048, as which everything was read before 28 November 2026 and which is not written."""


@dataclass(frozen=True)
class Scope:
    """Model, target, engine with its versions, workload, and the configuration that the change was made to.

    `latency_only`: the weights are made up, and it speaks of times alone. `versions` maps packages to
    versions, without `OWN_VERSIONS`; `workload` is that of the stopping plan, with how it was asked where
    that was over HTTP, and what steps held of it (`steps_told_apart`).
    """

    model: str
    model_fingerprint: str
    target: str
    engine: str
    versions: tuple[tuple[str, str], ...]
    workload: tuple[tuple[str, int | str], ...]
    control: Configuration
    latency_only: bool = False

    @classmethod
    def of(
        cls,
        *,
        model: str,
        model_fingerprint: str,
        target: str,
        engine: str,
        versions: Mapping[str, object],
        workload: Mapping[str, object],
        control: Configuration,
        latency_only: bool = False,
        step_tokens: int | None = None,
    ) -> Scope:
        """Return the scope in canonical form; what is no version or no number is left out. `step_tokens` are
        those that a step had, as launches told it."""
        steps = steps_told_apart(control, workload, step_tokens)
        return cls(
            model=model,
            model_fingerprint=model_fingerprint,
            target=target,
            engine=engine,
            versions=tuple(
                sorted(
                    (name, str(value))
                    for name, value in versions.items()
                    if name not in OWN_VERSIONS and value
                )
            ),
            workload=tuple(
                sorted(
                    [(name, value) for name, value in workload.items() if isinstance(value, int)]
                    + ([(ASKED_OVER, HTTP)] if workload.get(ASKED_OVER) == HTTP else [])
                    + ([] if steps is None else [(TOKENS_A_STEP, steps)])
                    + [(f"task {task.name}", task.items) for task in _tasks(workload)]
                )
            ),
            control=control,
            latency_only=latency_only,
        )

    @property
    def lineage_digest(self) -> str:
        """Digest of everything but the versions: findings of one lineage differ by what was upgraded."""
        return _digest(
            [
                self.model_fingerprint,
                self.target,
                self.engine,
                list(self.workload),
                self.control.canonical_json(),
            ]
        )

    @property
    def versions_digest(self) -> str:
        """Digest of the versions."""
        return _digest([list(self.versions)])

    def sentence(self) -> str:
        """Return the scope as the end of a sentence: `on model M, target T, engine E (versions), workload
        W`."""
        engine = self.engine
        if self.versions:
            engine += f" ({', '.join(f'{name} {version}' for name, version in self.versions)})"
        parts = [f"model {self.model}", f"target {machine(self.target)}", f"engine {engine}"]
        if self.workload:
            parts.append(workload_words(dict(self.workload)))
        if self.latency_only:
            parts.append(f"{LATENCY_ONLY}, {UNKNOWN_QUALITY}")
        return "on " + ", ".join(parts)

    def as_json(self, changes: tuple[Change, ...], lever: str, min_effect: float) -> dict[str, Json]:
        """Return the scope as it is stored with a finding, with the change that was made in it."""
        return {
            "model": self.model,
            "model_fingerprint": self.model_fingerprint,
            "target": self.target,
            "engine": self.engine,
            "versions": dict(self.versions),
            "workload": dict(self.workload),
            "control": dict(self.control),
            "lever": lever,
            "knobs": [change.knob for change in changes],
            "change": [asdict(change) for change in changes],
            "min_effect": min_effect,
            **({"latency_only": True} if self.latency_only else {}),
        }


def steps_told_apart(
    control: Mapping[str, KnobValue], workload: Mapping[str, object], step_tokens: int | None
) -> int | None:
    """Return how much of what its requests can ask of a step was in one, where the control has no knob for
    that; None where 2,048 tokens hold as much, and where it is not known."""
    at_once, prompt = workload.get("concurrency"), workload.get("prompt_tokens")
    if step_tokens is None or BATCH_TOKENS in control:
        return None
    if not isinstance(at_once, int) or not isinstance(prompt, int):
        return None
    held = min(step_tokens, asked_of_a_step(at_once, prompt))
    return held if held > LEAST_STEP_TOKENS else None


def _tasks(workload: Mapping[str, object]) -> tuple[AskedTask, ...]:
    """The quality tasks of a workload, by which its quality was judged too."""
    written = workload.get("evaluation_tasks")
    return asked_tasks([str(each) for each in written]) if isinstance(written, list | tuple) else ()


def workload_words(workload: Mapping[str, object]) -> str:
    """Return a workload in words, such as `128 tokens in, 48 tokens out, concurrency 1, over HTTP`."""
    words = {
        "prompt_tokens": "{} tokens in",
        "new_tokens": "{} tokens out",
        "concurrency": "concurrency {}",
        TOKENS_A_STEP: "up to {:,} tokens a step",
    }
    told = [text.format(workload[name]) for name, text in words.items() if name in workload]
    return ", ".join([*told, "over HTTP"] if workload.get(ASKED_OVER) == HTTP else told)


def _digest(value: list[object]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
