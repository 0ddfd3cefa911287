"""What a language model was asked for a campaign, and what it answered."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import DIGEST_LENGTH, NAME_LENGTH, Base, JsonObject


class ModelAnswer(Base):
    """One question to a language model and its answer, secrets masked.

    `prompt` is what was sent; `prompt_digest` the fingerprint of the knowledge in it; `counted_tokens` what
    the prompt counts as here, `prompt_tokens` and `answer_tokens` what the endpoint counted (empty where it
    told nothing), of all attempts together; `untold_tokens` the most that attempts may have used beside those
    and told no count of, empty in rows from before that was counted. `usd` and `untold_usd` are the same by
    the campaign's prices, empty where it gives none. `failure` says why there is no answer. `outcome` lists
    what was `proposed`, as changes in words, and what was `refused`, each with `what` and `reason`; what
    waited for room and is refused later, because something else was proposed meanwhile, is in both. A row is
    written before its question is sent, `under_way` in its `outcome`, and `untold_tokens` is then the most
    that all its attempts may use; who takes the campaign up after a kill settles it so.
    """

    __tablename__ = "model_answer"

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"), index=True)
    base_url: Mapped[str] = mapped_column(Text)
    model: Mapped[str] = mapped_column(String(NAME_LENGTH))
    form: Mapped[str] = mapped_column(String(NAME_LENGTH))
    prompt: Mapped[str] = mapped_column(Text)
    prompt_digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH))
    answer: Mapped[str] = mapped_column(Text)
    failure: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int]
    counted_tokens: Mapped[int]
    prompt_tokens: Mapped[int | None]
    answer_tokens: Mapped[int | None]
    usd: Mapped[float | None]
    untold_tokens: Mapped[int | None]
    untold_usd: Mapped[float | None]
    wall_s: Mapped[float]
    outcome: Mapped[JsonObject]
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
