"""What is known of times alone, because the weights are made up: how that is told of what is stored.

See docs/shapes.md. A campaign says so in its spec, an experiment in its plan, a finding in its scope.
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.campaign import DUMMY

LATENCY_ONLY = "latency only"
"""What everything is marked with that rests on made-up weights."""

UNKNOWN_QUALITY = "quality is not known"
"""What stands in the place of a quality."""

FASTEST = f"{LATENCY_ONLY}: weights are made up, so this is the fastest by time alone, and {UNKNOWN_QUALITY}"
"""What a best of such a campaign is: nothing that could be deployed."""


def latency_only(spec: Mapping[str, object]) -> bool:
    """Whether a stored campaign, by its `spec`, has made-up weights."""
    return spec.get("weights") == DUMMY


def plan_is_latency_only(plan: Mapping[str, object]) -> bool:
    """Whether a stored stopping plan is of made-up weights."""
    return plan.get("latency_only") is True


def model_words(model: str, *, made_up: bool) -> str:
    """A model as it is named where it is shown: `qwen3.5-9b (made-up weights, latency only)`."""
    return f"{model} (made-up weights, {LATENCY_ONLY})" if made_up else model
