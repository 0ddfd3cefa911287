"""The language model that proposes: where it is asked, how much of a campaign is its, and what that may cost.

The address and the name of the model stand in the campaign's file or in the settings `llm_base_url` and
`llm_model`; the key stands in the environment alone, because it is a secret and is written to no file.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from configs.addresses import without_secrets
from configs.errors import UsageError
from configs.fields import Fraction, Seconds

PROPOSER = "language-model"
"""The proposer's name, in a campaign's list and with each hypothesis."""

KEY_VARIABLE = "AUTOINFER_LLM_KEY"
"""The environment variable with the endpoint's key."""

SHARE = 0.3
"""Share of the tests that may be a language model's: hybrids of search with one on at most 30 % of the trials
did best (arXiv 2603.24647)."""

LONGEST_NAME, LONGEST_URL = 200, 500
"""Characters of a model's name and of an address."""

HERE_WAITS_S = 20.0
"""Seconds that a campaign waits for a model on this machine, which must be silent while something is
measured."""


def checked_url(url: str) -> str:
    """An address without a slash at its end.

    Raises `ValueError` for one that is none of HTTP's, and for one that carries a name, a password, a query
    or a fragment: those would be written down with every answer.
    """
    told = f"{without_secrets(url)[:60]!r} is no address of an endpoint"
    if len(url) > LONGEST_URL or not url.isascii() or any(not " " < each < "\x7f" for each in url):
        raise ValueError(f"{told}: write one such as http://127.0.0.1:8000/v1")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"{told}: write one such as http://127.0.0.1:8000/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{told}: write one such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"an address carries no name, password or query; the key stands in {KEY_VARIABLE}")
    return url.rstrip("/")


class LanguageModelSpec(BaseModel):
    """How a campaign asks a language model for hypotheses; every field has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    base_url: str | None = None
    """Where it is asked, up to `/chat/completions`; the setting `llm_base_url` where it is left out."""
    model: str | None = Field(default=None, min_length=1, max_length=LONGEST_NAME)
    """What it is called there; the setting `llm_model` where it is left out."""
    share: Fraction = Field(default=SHARE, gt=0, lt=1)
    """The share of all tests that may be its, at any time."""
    prompt_tokens: int = Field(default=6_000, ge=500, le=200_000)
    """Tokens that a question may have, counted as `agent.language_model.digest` does."""
    answer_tokens: int = Field(default=2_000, ge=100, le=100_000)
    """Tokens that an answer may have, what a model thinks before it included."""
    timeout: Seconds = Field(default=120.0, gt=0, le=3_600)
    """Seconds for a question, all attempts together."""
    wait: Seconds | None = Field(default=None, ge=0, le=3_600)
    """Seconds that the campaign waits for an answer between two tests; 0: it is asked beside them. Where it
    is left out: 20 for a model on this machine, 0 for any other."""
    budget_tokens: int = Field(default=200_000, ge=1)
    """Tokens of questions and answers together, after which it is asked no more."""
    budget_usd: float | None = Field(default=None, gt=0)
    """Dollars after which it is asked no more; it needs both prices."""
    usd_per_million_prompt_tokens: float | None = Field(default=None, ge=0)
    """What a million tokens of questions cost; the cost is not known where it is left out."""
    usd_per_million_answer_tokens: float | None = Field(default=None, ge=0)
    """What a million tokens of answers cost."""

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return None if value is None else checked_url(value)

    @field_validator("model")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not (value.isprintable() and value.strip()):
            raise ValueError("the name of a model is printable text")
        return value

    @model_validator(mode="after")
    def _a_budget_has_prices(self) -> Self:
        if (self.usd_per_million_prompt_tokens is None) != (self.usd_per_million_answer_tokens is None):
            raise ValueError("the prices of questions and of answers are given together")
        if self.budget_usd is not None and self.usd_per_million_prompt_tokens is None:
            raise ValueError(
                "a budget in dollars needs both prices, usd_per_million_prompt_tokens and …answer…"
            )
        return self

    def usd(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        """What so many tokens cost; None where the prices are not known."""
        asked, answered = self.usd_per_million_prompt_tokens, self.usd_per_million_answer_tokens
        if asked is None or answered is None:
            return None
        return (prompt_tokens * asked + answer_tokens * answered) / 1e6

    def wait_s(self, base_url: str) -> float:
        """Seconds that the campaign waits for an answer of this endpoint between two tests."""
        if self.wait is not None:
            return self.wait
        return HERE_WAITS_S if is_here(base_url) else 0.0


@dataclass(frozen=True)
class Endpoint:
    """Where a language model is asked, checked; the key is shown nowhere."""

    base_url: str
    model: str
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.key and not (self.key.isascii() and self.key.isprintable() and " " not in self.key):
            raise UsageError(
                f"{KEY_VARIABLE} holds something that can't be a key.", "Set it to the endpoint's key alone."
            )
        if self.key and urlsplit(self.base_url).scheme != "https" and not is_here(self.base_url):
            raise UsageError(
                f"{self.base_url} is not encrypted, and {KEY_VARIABLE} is not sent there.",
                "Write the address with https://, or unset the key.",
            )


def is_here(base_url: str) -> bool:
    """Whether an address names this machine by its loopback."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def endpoint_of(
    spec: LanguageModelSpec, base_url: str | None, model: str | None, key: str | None
) -> Endpoint | None:
    """Where a campaign's language model is asked: what its file says, else the settings; None where neither
    names an address. Raises `UsageError` for an address without a model, and for one that is none."""
    url, name = spec.base_url or base_url, spec.model or model
    if not url:
        return None
    if not name:
        raise UsageError(
            f"No model is named to ask at {without_secrets(url)[:LONGEST_URL]}.",
            "Name it as language_model.model in the campaign's file, or set AUTOINFER_LLM_MODEL.",
        )
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise UsageError("AUTOINFER_LLM_MODEL holds no name of a model.", "Set it to the model's name alone.")
    try:
        return Endpoint(checked_url(url), name, key or "")
    except ValueError as error:
        raise UsageError(f"AUTOINFER_LLM_BASE_URL: {error}.", "Correct it, or unset it.") from None
