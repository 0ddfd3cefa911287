"""A calibration corpus: documents of one length in a checkpoint's tokens, with a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.corpora.calibration.registry import corpus_source
from experiments.corpora.calibration.source import SAMPLE_TOKENS_MIN, Ask, TokenIds
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json

RECIPE_VERSION = 1
"""Part of every identity; raised when the same source would give other tokens."""


@dataclass(frozen=True)
class CalibrationCorpus:
    """`documents` are token ids, all of one length; `spec` is written the one way its source writes it.

    `fingerprint` is the SHA-256 of the token ids, `described` says in a sentence what text it is.
    """

    spec: str
    documents: tuple[TokenIds, ...]
    fingerprint: str
    described: str


def calibration_corpus(
    spec: str, checkpoint: Path, *, samples: int, sample_tokens: int, seed: int, device: str = "cpu"
) -> CalibrationCorpus:
    """Exactly `samples` documents of exactly `sample_tokens` tokens of a checkpoint's tokenizer.

    Equal arguments give equal documents. `device` is where `self` runs the model, in a process of its own.

    Raises:
        Infeasible: kind `illegal` for a spec or a file that won't do, `checkpoint` for a broken one,
            `unsupported` for what this machine lacks, `crashed` and `out_of_memory` where the model runs.
    """
    _check_numbers(samples, sample_tokens)
    source = corpus_source(spec)
    drawn = source.draw(Ask(checkpoint, samples, sample_tokens, seed, device))
    documents = tuple(drawn.documents)
    return CalibrationCorpus(
        spec=source.canonical,
        documents=documents,
        fingerprint=token_fingerprint(documents),
        described=f"{samples} samples of {sample_tokens} tokens: {drawn.described}.",
    )


def calibration_identity(
    spec: str, *, samples: int, sample_tokens: int, seed: int, model_fingerprint: str, device: str = "cpu"
) -> Mapping[str, Json]:
    """What a corpus is before it is made, for the key of an artifact: equal identities give equal corpora.

    Runs no model; reads the file of `user:PATH`, and asks the hub for the revision of `hf:NAME` unless the
    spec pins a commit. `model_fingerprint` stands for tokenizer, chat template and model.

    Raises:
        Infeasible: as `calibration_corpus`, for what shows before the text is made.
    """
    _check_numbers(samples, sample_tokens)
    return {
        **corpus_source(spec).identity(device),
        "recipe": RECIPE_VERSION,
        "samples": samples,
        "sample_tokens": sample_tokens,
        "seed": seed,
        "model": model_fingerprint,
    }


def token_fingerprint(documents: Sequence[Sequence[int]]) -> str:
    """SHA-256 over the documents' lengths and token ids, as hexadecimal."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(len(document).to_bytes(8, "little"))
        digest.update(np.asarray(document, dtype="<u4").tobytes())
    return digest.hexdigest()


def _check_numbers(samples: int, sample_tokens: int) -> None:
    if samples < 1:
        raise Infeasible("illegal", f"A calibration corpus of {samples} samples can't be: ask for 1 or more.")
    if sample_tokens < SAMPLE_TOKENS_MIN:
        raise Infeasible(
            "illegal",
            f"Calibration samples of {sample_tokens} tokens can't be: ask for {SAMPLE_TOKENS_MIN} or more.",
        )
