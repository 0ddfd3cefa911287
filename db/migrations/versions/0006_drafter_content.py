"""A drafter may be trained again in its folder: a comparison with what is in it now is another one."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

STANDS = sa.text("question IS NULL AND state NOT IN ('withdrawn', 'inconclusive')")


def upgrade() -> None:
    op.add_column(
        "hypothesis", sa.Column("drafter_content", sa.String(64), nullable=False, server_default="")
    )
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
        ],
        unique=True,
        sqlite_where=STANDS,
        postgresql_where=STANDS,
    )
