"""Where a campaign's language model is asked, from its file, the settings and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from configs.language_model import KEY_VARIABLE, PROPOSER, Endpoint, endpoint_of

if TYPE_CHECKING:
    from cli.running.asked import Asked
    from configs.campaign import CampaignSpec
    from configs.settings import Settings


def endpoint_there(spec: CampaignSpec, settings: Settings, environment: Mapping[str, str]) -> Endpoint | None:
    """The endpoint; None where the campaign asks none, or nobody says where.

    Raises `UsageError` for an address that is none, one without a model, and a key that may not be sent.
    """
    if not spec.asks_a_model:
        return None
    key = environment.get(KEY_VARIABLE)
    return endpoint_of(spec.language_model, settings.llm_base_url, settings.llm_model, key)


def with_language_model(asked: Asked, share: str | None) -> Asked:
    """The campaign with a language model as one more proposer, where a share was given for it; raises
    `UsageError` for what is no share."""
    from dataclasses import replace

    from configs.errors import UsageError
    from configs.language_model import LanguageModelSpec
    from configs.quantities import parse_percent

    if share is None:
        return asked
    value = parse_percent(share)
    if not 0 < value < 1:
        raise UsageError(
            f"--language-model {share} is no share of the tests.",
            "Give one between 0 and 100 %, such as 30%.",
        )
    spec = asked.spec
    others = tuple(each for each in spec.proposers if each != PROPOSER)
    model = LanguageModelSpec.model_validate({**spec.language_model.model_dump(), "share": value})
    changed = spec.model_copy(update={"proposers": (*others, PROPOSER), "language_model": model})
    return replace(asked, spec=changed)
