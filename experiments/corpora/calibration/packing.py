"""Cuts texts into documents of exactly one length. Pure: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.corpora.calibration.source import TokenIds


def pack(
    texts: Iterable[Sequence[int]], samples: int, sample_tokens: int, between: TokenIds, *, carry: bool
) -> list[TokenIds]:
    """At most `samples` documents of exactly `sample_tokens` tokens, fewer when the texts run out.

    Every document, and every text within one, begins with `between`. The text that a document ends in is cut
    there; with `carry` its rest begins the next document, without it the rest is dropped, so that every
    document begins where a text begins. No more texts are read than needed.
    """
    documents: list[TokenIds] = []
    open_document: list[int] = []
    if samples < 1:
        return documents
    for text in texts:
        rest = list(text)
        while rest:
            room = sample_tokens - len(open_document) - len(between)
            if room > 0:
                open_document += [*between, *rest[:room]]
                rest = rest[room:]
            else:  # no room for as much as one token of the text
                open_document += between[: sample_tokens - len(open_document)]
            if len(open_document) >= sample_tokens:
                documents.append(tuple(open_document[:sample_tokens]))
                open_document = []
                if len(documents) == samples:
                    return documents
                if not carry and room > 0:
                    break
    return documents
