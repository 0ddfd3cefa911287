"""What devices did, as means of five minutes."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_mean",
        sa.Column("host", sa.String(200), nullable=False),
        sa.Column("device", sa.String(200), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("utilization_percent", sa.Double()),
        sa.Column("memory_used_bytes", sa.Double()),
        sa.Column("power_w", sa.Double()),
        sa.Column("temperature_c", sa.Double()),
        sa.Column("clock_mhz", sa.Double()),
        sa.Column("throttled_share", sa.Double()),
        sa.PrimaryKeyConstraint("host", "device", "started_at", name="pk_device_mean"),
    )
