"""A comparison whose hypothesis was withdrawn, or whose test broke, may be asked again."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STANDS = sa.text("question IS NULL AND state NOT IN ('withdrawn', 'inconclusive')")


def upgrade() -> None:
    op.drop_index("uq_hypothesis_comparison", "hypothesis")
    op.create_index(
        "uq_hypothesis_comparison",
        "hypothesis",
        ["campaign_id", "candidate_configuration_id", "control_configuration_id", "metric"],
        unique=True,
        sqlite_where=STANDS,
        postgresql_where=STANDS,
    )
