"""The prompts of a job on a shape: random words by seed, and nothing to score."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from experiments.engines.port import GenerationRequest, Infeasible, ScoringDocument, ScoringTask
from experiments.engines.reference.shape import read_profile
from experiments.measurement.environment import machine_facts, moment
from experiments.measurement.evidence import TEXTS_KEY, Json
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import WARM_UP
from experiments.measurement.random_words import random_words
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import NO_QUALITY

RANDOM_WORDS = "random words"
"""What stands for the texts that a job was measured with."""


class RandomMaterial:
    """`job.context.Material` of a shape, which is served with the packaged model's tokenizer.

    No two prompts begin alike, and which words of that tokenizer a prompt has is decided by seed, launch
    pair, block and number alone. Documents, items and prompts to check drafting on are refused.
    """

    def __init__(self, shape: Path, device: str, seed: int) -> None:
        """Read the vocabulary of the shape's config.json."""
        self._device, self._seed = device, seed
        self._words = random_words(reference_model_path(), read_profile(shape).vocabulary)

    @cached_property
    def _facts(self) -> dict[str, Json]:
        return {**machine_facts(self._device, self._seed), TEXTS_KEY: self.texts()}

    def requests(self, workload: Workload, seed: int, pair: int, block: int) -> list[GenerationRequest]:
        """The requests of one block: the same for both arms, others for other blocks and launch pairs."""
        return [
            self._request(workload, seed, pair, block, number)
            for number in range(workload.requests_per_block)
        ]

    def warmup(self, workload: Workload, seed: int) -> list[GenerationRequest]:
        """Requests that are sent before the first block and not kept."""
        return [
            self._request(workload, seed, WARM_UP, WARM_UP, number)
            for number in range(workload.requests_before)
        ]

    def documents(self, workload: Workload, part: int = 0) -> list[ScoringDocument]:
        """Refused: raises `Infeasible`, kind `unsupported`."""
        raise Infeasible("unsupported", NO_QUALITY)

    def tasks(self, workload: Workload, part: int = 0) -> list[ScoringTask]:
        """Refused: raises `Infeasible`, kind `unsupported`."""
        raise Infeasible("unsupported", NO_QUALITY)

    def drafting_prompts(self, workload: Workload) -> list[GenerationRequest]:
        """Refused: raises `Infeasible`, kind `unsupported`."""
        raise Infeasible("unsupported", NO_QUALITY)

    def identity(self, workload: Workload, part: int = 0) -> Mapping[str, Json]:
        """Refused: raises `Infeasible`, kind `unsupported`."""
        raise Infeasible("unsupported", NO_QUALITY)

    def texts(self) -> str:
        """That prompts are random, of so many words: they differ with nothing else."""
        return f"{RANDOM_WORDS} of {len(self._words)}"

    def machine(self) -> Mapping[str, Json]:
        """What does not change while a job runs: `environment.machine_facts`, and what prompts are."""
        return self._facts

    def moment(self) -> Mapping[str, Json]:
        """What changes by the second; see `environment.moment`."""
        return moment(self._device)

    def _request(
        self, workload: Workload, seed: int, pair: int, block: int, number: int
    ) -> GenerationRequest:
        draw = random.Random(f"{seed}/{pair}/{block}/{number}")
        tokens = draw.choices(self._words, k=workload.prompt_tokens)
        return GenerationRequest(
            f"{pair}.{block}.{number} {RANDOM_WORDS}", tuple(tokens), workload.new_tokens, seed
        )
