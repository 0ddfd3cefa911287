"""For how many seconds the readings of a device's mean stand."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("device_mean", sa.Column("read_s", sa.Double()))


def downgrade() -> None:
    op.drop_column("device_mean", "read_s")
