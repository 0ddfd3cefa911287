"""Runs on remote targets, their quotes, and budgets in US dollars."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

OPEN = sa.text("state != 'ended'")


def upgrade() -> None:
    op.create_table(
        "money_budget",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("scope", sa.String(24), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("limit_microusd", sa.BigInteger(), nullable=False),
        sa.Column("approve_above_microusd", sa.BigInteger(), nullable=True),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_money_budget"),
        sa.UniqueConstraint("scope", "name", name="uq_money_budget_scope"),
    )
    op.create_table(
        "job_quote",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("expected_s", sa.Double(), nullable=False),
        sa.Column("bound_s", sa.Double(), nullable=False),
        sa.Column("expected_microusd", sa.BigInteger(), nullable=False),
        sa.Column("bound_microusd", sa.BigInteger(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("quoted_at", sa.BigInteger(), nullable=False),
        sa.Column("waits_because", sa.Text(), nullable=True),
        sa.Column("needs_approval", sa.Boolean(), nullable=False),
        sa.Column("approved_microusd", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_quote_job_id_job"),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_quote"),
    )
    op.create_table(
        "remote_run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=True),
        sa.Column("experiment_id", sa.Integer(), nullable=True),
        sa.Column("executor", sa.String(200), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(200), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("ref", sa.String(200), nullable=True),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("expected_s", sa.Double(), nullable=False),
        sa.Column("expected_microusd", sa.BigInteger(), nullable=False),
        sa.Column("reserved_microusd", sa.BigInteger(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("actual_s", sa.Double(), nullable=True),
        sa.Column("actual_microusd", sa.BigInteger(), nullable=True),
        sa.Column("billed", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.String(200), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_remote_run_job_id_job"),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_remote_run_campaign_id_campaign"),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name="fk_remote_run_experiment_id_experiment"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_remote_run"),
        sa.UniqueConstraint("key", name="uq_remote_run_key"),
    )
    op.create_index("ix_remote_run_job_id", "remote_run", ["job_id"])
    op.create_index("ix_remote_run_experiment_id", "remote_run", ["experiment_id"])
    op.create_index("ix_remote_run_campaign_id", "remote_run", ["campaign_id"])
    op.create_index("ix_remote_run_target_day", "remote_run", ["target", "day"])
    op.create_index("ix_remote_run_day", "remote_run", ["day"])
    op.create_index(
        "uq_remote_run_open_job",
        "remote_run",
        ["job_id"],
        unique=True,
        sqlite_where=OPEN,
        postgresql_where=OPEN,
    )
