"""A hypothesis may answer a question of its campaign, and a comparison may be tested on several metrics."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NOT_ASKED = sa.text("question IS NULL")


def upgrade() -> None:
    with op.batch_alter_table("hypothesis") as batch:
        batch.add_column(sa.Column("question", sa.String(200)))
        batch.drop_constraint("uq_hypothesis_comparison", type_="unique")
        batch.create_unique_constraint("uq_hypothesis_question", ["campaign_id", "question"])
    op.create_index(
        "uq_hypothesis_comparison",
        "hypothesis",
        ["campaign_id", "candidate_configuration_id", "control_configuration_id", "metric"],
        unique=True,
        sqlite_where=NOT_ASKED,
        postgresql_where=NOT_ASKED,
    )
