"""What a language model was asked for a campaign, and what it answered."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "model_answer",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("form", sa.String(200), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("prompt_digest", sa.String(64), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("failure", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("counted_tokens", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer()),
        sa.Column("answer_tokens", sa.Integer()),
        sa.Column("usd", sa.Double()),
        sa.Column("wall_s", sa.Double(), nullable=False),
        sa.Column("outcome", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name="fk_model_answer_campaign_id_campaign"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_model_answer"),
    )
    op.create_index("ix_model_answer_campaign_id", "model_answer", ["campaign_id"])
