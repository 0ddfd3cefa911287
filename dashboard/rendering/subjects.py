"""Where the page of a labelled thing is."""

from __future__ import annotations

from configs.errors import UsageError
from db.labels import Noun, parse_label

PAGES = {
    Noun.CAMPAIGN: "/campaigns",
    Noun.HYPOTHESIS: "/hypotheses",
    Noun.EXPERIMENT: "/experiments",
    Noun.FINDING: "/knowledge",
}
"""The list that a noun's page lies below."""


def subject_url(label: str | None) -> str | None:
    """The address of the page about a label such as `E-0012`; None for what has no page."""
    if label is None:
        return None
    try:
        noun, _ = parse_label(label)
    except UsageError:
        return None
    return f"{PAGES[noun]}/{label}" if noun in PAGES else None
