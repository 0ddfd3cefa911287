"""A finding's claim apart from the scope that stands at its end."""

from __future__ import annotations

import re

BESIDE = re.compile(r" \(beside [^()]*\)")
"""What the control held beside the change, as it stands in a claim."""

TOLD = "R0-told"
"""The rule of findings that a person wrote: their claim is theirs, and has no scope at its end."""


def claim_and_scope(claim: str, rule: str | None) -> tuple[str, str]:
    """What a claim says, and its scope in words, such as `model M, target T`; the whole claim and nothing for
    one that a person wrote, and for one without a scope."""
    if rule == TOLD:
        return claim, ""
    said, _, scope = claim.rstrip(".").partition(" on model ")
    return (said.removesuffix(";"), f"model {scope}") if scope else (claim, "")


def claim_in_short(claim: str, rule: str | None) -> str:
    """What a claim says as a sentence, without its scope and what the control held beside the change; the
    whole claim of one that a person wrote."""
    said, scope = claim_and_scope(claim, rule)
    return f"{BESIDE.sub('', said)}." if scope else said
