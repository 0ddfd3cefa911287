"""A finding's claim apart from the scope that stands at its end."""

from __future__ import annotations

TOLD = "R0-told"
"""The rule of findings that a person wrote: their claim is theirs, and has no scope at its end."""


def claim_and_scope(claim: str, rule: str | None) -> tuple[str, str]:
    """What a claim says, and its scope in words, such as `model M, target T`; the whole claim and nothing for
    one that a person wrote, and for one without a scope."""
    if rule == TOLD:
        return claim, ""
    said, _, scope = claim.rstrip(".").partition(" on model ")
    return (said.removesuffix(";"), f"model {scope}") if scope else (claim, "")
