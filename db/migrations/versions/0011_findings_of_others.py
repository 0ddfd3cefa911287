"""Verdicts of other databases bear on findings, and a finding says why it is stale."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("finding", sa.Column("stale_cause", sa.String(200)))
    op.execute("UPDATE finding SET stale_cause = 'note' WHERE status = 'stale'")
    op.create_table(
        "imported_verdict",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("origin", sa.String(200), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("told", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_imported_verdict"),
        sa.UniqueConstraint("digest", name="uq_imported_verdict_digest"),
    )
    op.create_index("ix_imported_verdict_key", "imported_verdict", ["key"])
    op.create_table(
        "imported_evidence",
        sa.Column("finding_id", sa.Integer(), nullable=False),
        sa.Column("imported_verdict_id", sa.Integer(), nullable=False),
        sa.Column("relation", sa.String(24), nullable=False),
        sa.ForeignKeyConstraint(
            ["finding_id"], ["finding.id"], name="fk_imported_evidence_finding_id_finding"
        ),
        sa.ForeignKeyConstraint(
            ["imported_verdict_id"],
            ["imported_verdict.id"],
            name="fk_imported_evidence_imported_verdict_id_imported_verdict",
        ),
        sa.PrimaryKeyConstraint("finding_id", "imported_verdict_id", name="pk_imported_evidence"),
    )
    op.create_index("ix_imported_evidence_imported_verdict_id", "imported_evidence", ["imported_verdict_id"])
