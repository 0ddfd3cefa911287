"""The scope of a finding: where its verdicts were reached, and so the only place it speaks of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from configs.asked_over import ASKED_OVER, HTTP
from configs.quality_tasks import AskedTask, asked_tasks
from experiments.measurement.evidence import Json
from experiments.space.configuration import Change, Configuration
from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY
from knowledge.machines import machine

OWN_VERSIONS = frozenset({"autoinfer", "git_revision"})
"""Versions of this program itself: recorded with an experiment, no part of what was measured."""


@dataclass(frozen=True)
class Scope:
    """Model, target, engine with its versions, workload, and the configuration that the change was made to.

    `latency_only`: the weights are made up, and it speaks of times alone. `versions` maps packages to
    versions, without `OWN_VERSIONS`; `workload` is that of the stopping plan, with how it was asked where
    that was over HTTP.
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
    ) -> Scope:
        """Return the scope in canonical form; what is no version or no number is left out."""
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
    }
    told = [text.format(workload[name]) for name, text in words.items() if name in workload]
    return ", ".join([*told, "over HTTP"] if workload.get(ASKED_OVER) == HTTP else told)


def _digest(value: list[object]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
