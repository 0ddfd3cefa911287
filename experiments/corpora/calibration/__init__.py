"""Calibration corpora: text that a quantizer or a pruner looks at, by a spec such as `raw` or `blend:0.5`."""

from experiments.corpora.calibration.corpus import (
    CalibrationCorpus,
    calibration_corpus,
    calibration_identity,
)
from experiments.corpora.calibration.registry import corpus_source, list_sources

__all__ = [
    "CalibrationCorpus",
    "calibration_corpus",
    "calibration_identity",
    "corpus_source",
    "list_sources",
]
