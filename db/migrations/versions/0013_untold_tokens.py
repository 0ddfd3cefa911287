"""What requests to a language model may have used and told no count of."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("model_answer", sa.Column("untold_tokens", sa.Integer()))
    op.add_column("model_answer", sa.Column("untold_usd", sa.Double()))
