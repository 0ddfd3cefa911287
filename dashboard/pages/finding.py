"""A finding: what is said, where alone it holds, how strongly, and the verdicts behind it."""

from __future__ import annotations

from sqlalchemy.orm import Session

from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request
from dashboard.pages.knowledge import KINDS
from db.labels import Noun
from knowledge.queries.finding_detail import FindingDetail, finding_detail
from knowledge.queries.lookup import labelled


class FindingFilters(Filters):
    """Nothing more is asked of a finding."""


def read(session: Session, request: Request[FindingFilters], ground: Ground) -> FindingDetail:
    """Read the finding that the path names."""
    return finding_detail(session, labelled(session, Noun.FINDING, request.path["label"]))


def command(request: Request[FindingFilters]) -> str:
    """The same on the command line."""
    return f"autoinfer show {request.path['label']}"


PAGE = Page(
    name="finding",
    title="Finding",
    path="/knowledge/{label}",
    filters=FindingFilters,
    shows=FindingDetail,
    read=read,
    command=command,
    kinds=KINDS,
    lasts_s=ALWAYS_S,
)
