"""Verdicts that say again what their own campaign said reproduce a finding, and do not replicate it."""

from collections.abc import Iterable

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

EVIDENCE = sa.table(
    "finding_evidence",
    sa.column("finding_id", sa.Integer),
    sa.column("verdict_id", sa.Integer),
    sa.column("relation", sa.String),
)
VERDICT = sa.table("verdict", sa.column("id", sa.Integer), sa.column("experiment_id", sa.Integer))
EXPERIMENT = sa.table("experiment", sa.column("id", sa.Integer), sa.column("campaign_id", sa.Integer))
IMPORTED_EVIDENCE = sa.table(
    "imported_evidence",
    sa.column("finding_id", sa.Integer),
    sa.column("imported_verdict_id", sa.Integer),
    sa.column("relation", sa.String),
)
IMPORTED = sa.table(
    "imported_verdict",
    sa.column("id", sa.Integer),
    sa.column("origin", sa.String),
    sa.column("told", sa.JSON),
)
SAYING_SO = ("supports", "replicates")
AGAIN, ELSEWHERE = "reproduces", "replicates"

Row = tuple[int, int, str, str]
"""A finding, a verdict of it, the name of that verdict's campaign, and the relation."""


def upgrade() -> None:
    """Keep `replicates` for the first verdict of each campaign but the one that supports."""
    here = (
        sa.select(EVIDENCE.c.finding_id, EVIDENCE.c.verdict_id, EXPERIMENT.c.campaign_id, EVIDENCE.c.relation)
        .join_from(EVIDENCE, VERDICT, VERDICT.c.id == EVIDENCE.c.verdict_id)
        .join(EXPERIMENT, EXPERIMENT.c.id == VERDICT.c.experiment_id)
        .where(EVIDENCE.c.relation.in_(SAYING_SO))
        .order_by(EVIDENCE.c.finding_id, EVIDENCE.c.verdict_id)
    )
    elsewhere = (
        sa.select(
            IMPORTED_EVIDENCE.c.finding_id,
            IMPORTED_EVIDENCE.c.imported_verdict_id,
            IMPORTED.c.origin,
            IMPORTED.c.told,
            IMPORTED_EVIDENCE.c.relation,
        )
        .join_from(IMPORTED_EVIDENCE, IMPORTED, IMPORTED.c.id == IMPORTED_EVIDENCE.c.imported_verdict_id)
        .where(IMPORTED_EVIDENCE.c.relation.in_(SAYING_SO))
        .order_by(IMPORTED_EVIDENCE.c.finding_id, IMPORTED_EVIDENCE.c.imported_verdict_id)
    )
    bind = op.get_bind()
    said_in: set[tuple[int, str]] = set()
    own = [
        (finding, verdict, str(campaign), relation)
        for finding, verdict, campaign, relation in bind.execute(here)
    ]
    imported = [
        (finding, verdict, f"{told['campaign']} of {origin}", relation)
        for finding, verdict, origin, told, relation in bind.execute(elsewhere)
    ]
    # Those of this database come first, as the rules of findings have them.
    _set_again(EVIDENCE, EVIDENCE.c.verdict_id, _again(own, said_in))
    _set_again(IMPORTED_EVIDENCE, IMPORTED_EVIDENCE.c.imported_verdict_id, _again(imported, said_in))


def downgrade() -> None:
    """Call every verdict that says a finding again `replicates`, as it was."""
    for table in (EVIDENCE, IMPORTED_EVIDENCE):
        op.execute(sa.update(table).where(table.c.relation == AGAIN).values(relation=ELSEWHERE))


def _again(rows: Iterable[Row], said_in: set[tuple[int, str]]) -> list[dict[str, int]]:
    """The evidence whose campaign had said it before; `said_in` holds which campaign said which finding."""
    found = []
    for finding, verdict, campaign, relation in rows:
        if relation == ELSEWHERE and (finding, campaign) in said_in:
            found.append({"finding": finding, "verdict": verdict})
        said_in.add((finding, campaign))
    return found


def _set_again(table: sa.TableClause, verdict: sa.ColumnElement[int], rows: list[dict[str, int]]) -> None:
    if rows:
        which = (table.c.finding_id == sa.bindparam("finding"), verdict == sa.bindparam("verdict"))
        op.get_bind().execute(sa.update(table).where(*which).values(relation=AGAIN), rows)
