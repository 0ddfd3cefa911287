"""What the dashboard's pages order and count by is in an index, so that no table is read as a whole."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_hypothesis_campaign_id_state_rank", "hypothesis")
    for table, columns in (
        ("hypothesis", ["campaign_id", "state", "rank", "state_changed_at"]),
        ("hypothesis", ["campaign_id", "state", "lever", "proposer"]),
        ("verdict", ["outcome"]),
        ("experiment", ["campaign_id", "kind"]),
    ):
        op.create_index("_".join(["ix", table, *columns]), table, columns)
