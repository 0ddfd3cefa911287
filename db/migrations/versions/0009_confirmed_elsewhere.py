"""What is to be confirmed on another target stands in the queue: the same comparison, on that target."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

STANDS = sa.text("question IS NULL AND state NOT IN ('withdrawn', 'inconclusive')")


def upgrade() -> None:
    op.add_column("hypothesis", sa.Column("target", sa.String(200), nullable=False, server_default=""))
    op.add_column("hypothesis", sa.Column("confirms_experiment_id", sa.Integer()))
    op.drop_index("uq_hypothesis_comparison", "hypothesis")
    op.create_index(
        "uq_hypothesis_comparison",
        "hypothesis",
        [
            "campaign_id",
            "candidate_configuration_id",
            "control_configuration_id",
            "metric",
            "drafter_content",
            "target",
        ],
        unique=True,
        sqlite_where=STANDS,
        postgresql_where=STANDS,
    )
