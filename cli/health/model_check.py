"""Whether a language model can be asked for hypotheses, as `autoinfer doctor` tells it."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from cli.health.check_result import Check, Verdict

if TYPE_CHECKING:
    from configs.settings import Settings

NAME = "language model"

LOOK_S = 3.0
"""Seconds for its answer to which models it serves."""


def check_language_model(settings: Settings) -> Check:
    """Ask the endpoint of the settings, where there is one, which models it serves."""
    from agent.language_model.exchange import Line, Unreachable, exchange
    from configs.errors import UsageError
    from configs.language_model import KEY_VARIABLE, LanguageModelSpec, endpoint_of

    try:
        endpoint = endpoint_of(
            LanguageModelSpec(), settings.llm_base_url, settings.llm_model, os.environ.get(KEY_VARIABLE)
        )
    except UsageError as error:
        return Check(NAME, Verdict.WARN, error.message, error.hint)
    if endpoint is None:
        return Check(NAME, Verdict.OK, "none is asked: AUTOINFER_LLM_BASE_URL is not set, and need not be")
    where = f"{endpoint.model} at {endpoint.base_url}"
    advice = "Campaigns go on without it. Start its server, or correct AUTOINFER_LLM_BASE_URL."
    deadline = time.monotonic() + LOOK_S
    try:
        found = exchange(
            f"{endpoint.base_url}/models", None, key=endpoint.key, deadline=deadline, line=Line()
        )
    except Unreachable as error:
        return Check(NAME, Verdict.WARN, f"{where}: {error.message}", error.hint or advice)
    if found.status in (401, 403):
        return Check(
            NAME, Verdict.WARN, f"{where}: it answered {found.status}", f"Put its key into {KEY_VARIABLE}."
        )
    if found.status != 200:
        return Check(NAME, Verdict.WARN, f"{where}: it answered {found.status}", advice)
    served = _served(found.body)
    if served and endpoint.model not in served:
        from agent.language_model.quoting import plain

        names = plain(", ".join(served))
        return Check(NAME, Verdict.WARN, f"{where}: it serves {names}", "Correct AUTOINFER_LLM_MODEL.")
    return Check(NAME, Verdict.OK, where)


def _served(body: bytes) -> list[str]:
    """The names of the models in a list of OpenAI's form; none where it is another."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return []
    data = told.get("data") if isinstance(told, dict) else None
    entries = data if isinstance(data, list) else []
    return [str(each["id"]) for each in entries if isinstance(each, dict) and "id" in each]
