"""Findings that reruns of one campaign alone bore out are reproduced, not replicated."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

FINDING = sa.table(
    "finding", sa.column("id", sa.Integer), sa.column("rule", sa.String), sa.column("strength", sa.String)
)
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


def upgrade() -> None:
    here = (
        sa.select(EVIDENCE.c.finding_id, EXPERIMENT.c.campaign_id)
        .join_from(EVIDENCE, VERDICT, VERDICT.c.id == EVIDENCE.c.verdict_id)
        .join(EXPERIMENT, EXPERIMENT.c.id == VERDICT.c.experiment_id)
        .where(EVIDENCE.c.relation.in_(SAYING_SO))
    )
    elsewhere = (
        sa.select(IMPORTED_EVIDENCE.c.finding_id, IMPORTED.c.origin, IMPORTED.c.told)
        .join_from(IMPORTED_EVIDENCE, IMPORTED, IMPORTED.c.id == IMPORTED_EVIDENCE.c.imported_verdict_id)
        .where(IMPORTED_EVIDENCE.c.relation.in_(SAYING_SO))
    )
    bind = op.get_bind()
    campaigns: dict[int, set[tuple[str, str]]] = {}
    for finding, campaign in bind.execute(here):
        campaigns.setdefault(finding, set()).add(("", str(campaign)))
    for finding, origin, told in bind.execute(elsewhere):
        campaigns.setdefault(finding, set()).add((origin, str(told["campaign"])))
    replicated = bind.execute(sa.select(FINDING.c.id).where(FINDING.c.strength == "replicated")).scalars()
    of_one = [{"finding": each} for each in replicated if len(campaigns.get(each, ())) < 2]
    if of_one:
        wanted = sa.update(FINDING).where(FINDING.c.id == sa.bindparam("finding"))
        bind.execute(wanted.values(strength="reproduced"), of_one)
    op.execute("UPDATE finding SET rule = 'R5-agreed' WHERE rule = 'R5-replicated'")
