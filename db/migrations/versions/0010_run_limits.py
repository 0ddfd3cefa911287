"""The limit of the whole job that a run on a remote target is submitted with."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("remote_run", sa.Column("limit_s", sa.Double()))
