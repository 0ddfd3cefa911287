"""The texts and the machine of a job on a checkpoint: `job.context.Material` by held-out text and probes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path

from experiments.corpora.standard_library import fingerprint, held_out_documents, held_out_modules
from experiments.engines.port import GenerationRequest, ScoringDocument, ScoringTask
from experiments.measurement.content_prompts import content_prompts
from experiments.measurement.environment import machine_facts, moment
from experiments.measurement.evaluation import (
    material_digest,
    part_of_items,
    scoring_documents,
    scoring_tasks,
)
from experiments.measurement.evidence import TEXTS_KEY, Json
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import PromptSource, load_tokenizer

CORPUS = "standard-library held-out"
"""The text that prompts, documents and items come from."""


class HeldOutMaterial:
    """Held-out text of the standard library, tokenised with a checkpoint's tokenizer.

    Pruning and quantizing keep the tokenizer, so one material serves all arms. Prepared text is kept, and the
    machine is probed once.
    """

    def __init__(self, checkpoint: Path, device: str, seed: int) -> None:
        """Load the tokenizer; raises `UsageError` when the checkpoint has none."""
        self._device = device
        self._seed = seed
        self._tokenizer = load_tokenizer(checkpoint)
        self._evaluation = lru_cache(maxsize=4)(self._prepare)

    @cached_property
    def _prompts(self) -> PromptSource:
        return PromptSource(self._tokenizer, held_out_documents())

    @cached_property
    def _facts(self) -> dict[str, Json]:
        return {**machine_facts(self._device, self._seed), TEXTS_KEY: self.texts()}

    def requests(self, workload: Workload, seed: int, pair: int, block: int) -> list[GenerationRequest]:
        """The requests of one block: the same for both arms, others for other blocks and launch pairs."""
        return self._prompts.block(workload, seed, pair, block)

    def warmup(self, workload: Workload, seed: int) -> list[GenerationRequest]:
        """Requests that are sent before the first block and not kept."""
        return self._prompts.warm_up(workload, seed)

    def documents(self, workload: Workload, part: int = 0) -> list[ScoringDocument]:
        """The held-out documents of a part of the quality evaluation; parts share none.

        Part 0 has as many as the workload asks for, or raises `UsageError`; a later part has what is left.
        """
        return self._evaluation(workload, part)[0]

    def tasks(self, workload: Workload, part: int = 0) -> list[ScoringTask]:
        """The instruction items of a part of the quality evaluation; parts share none."""
        return self._evaluation(workload, part)[1]

    def drafting_prompts(self, workload: Workload) -> list[GenerationRequest]:
        """The requests on which drafting is checked, named by their class of content; see
        `measurement.content_prompts`."""
        return content_prompts(self._tokenizer, workload)

    def identity(self, workload: Workload, part: int = 0) -> Mapping[str, Json]:
        """What the documents and tasks of a part are: corpus, numbers, and the digest of their tokens."""
        documents, tasks = self._evaluation(workload, part)
        return {
            "corpus": CORPUS,
            "part": part,
            "documents": len(documents),
            "tasks": len(tasks),
            "digest": material_digest(documents, tasks),
        }

    def texts(self) -> str:
        """The fingerprint of the held-out modules, which differs between versions of Python."""
        return fingerprint(held_out_modules())

    def machine(self) -> Mapping[str, Json]:
        """What does not change while a job runs: `environment.machine_facts`, and the texts."""
        return self._facts

    def moment(self) -> Mapping[str, Json]:
        """What changes by the second; see `environment.moment`."""
        return moment(self._device)

    def _prepare(self, workload: Workload, part: int) -> tuple[list[ScoringDocument], list[ScoringTask]]:
        documents = scoring_documents(
            self._tokenizer,
            held_out_documents(),
            workload.evaluation_documents,
            workload.evaluation_tokens_per_document,
            part,
        )
        return documents, scoring_tasks(self._tokenizer, part_of_items(workload.evaluation_items, part))
