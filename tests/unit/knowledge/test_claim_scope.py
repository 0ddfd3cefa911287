"""A derived claim is told apart from its scope; what a person wrote is left as it is."""

import pytest

from knowledge.claim_scope import TOLD, claim_and_scope
from knowledge.findings.rules import Rule


@pytest.mark.parametrize(
    ("claim", "rule", "said", "scope"),
    [
        ("It helps on model m, target t.", "R1", "It helps", "model m, target t"),
        ("It does not help; on model m.", "R1", "It does not help", "model m"),
        ("It helps.", "R1", "It helps.", ""),
        ("It was slow on model m, I think.", TOLD, "It was slow on model m, I think.", ""),
    ],
)
def test_what_is_said_and_where(claim: str, rule: str, said: str, scope: str) -> None:
    assert claim_and_scope(claim, rule) == (said, scope)


def test_the_rule_of_what_a_person_wrote_is_the_findings_own() -> None:
    assert TOLD == Rule.TOLD
