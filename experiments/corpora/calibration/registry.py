"""The sources of calibration text, found by what a spec begins with."""

from __future__ import annotations

from configs.validation import nearest
from experiments.corpora.calibration import blend, hub, instruct, raw, self_written, user_file
from experiments.corpora.calibration.source import CorpusSource, SourceKind
from experiments.engines.port import Infeasible

KINDS: tuple[SourceKind, ...] = (
    raw.KIND,
    instruct.KIND,
    blend.KIND,
    self_written.KIND,
    user_file.KIND,
    hub.KIND,
)
"""Every source, in the order in which they are listed."""


def corpus_source(spec: str) -> CorpusSource:
    """The source of a spec such as `blend:0.5`; looks at no file and no network.

    Raises:
        Infeasible: kind `illegal`, with the nearest source for one that is not known.
    """
    prefix, colon, argument = spec.partition(":")
    for kind in KINDS:
        if kind.prefix == prefix:
            return kind.parse(argument if colon else None)
    known = [kind.prefix for kind in KINDS]
    hint = nearest(prefix, known, otherwise="The corpora are")
    raise Infeasible("illegal", f"There is no calibration corpus {spec!r}. {hint}")


def list_sources() -> tuple[tuple[str, str], ...]:
    """How each source is written, with a line of help."""
    return tuple((kind.form, kind.help) for kind in KINDS)
