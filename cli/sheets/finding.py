"""The sheet of a finding: the claim, its scope, its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.output import console, fields, state, table, when
from cli.sheets.elsewhere import findings_elsewhere
from cli.words import configuration_words, effect_words
from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY

if TYPE_CHECKING:
    from knowledge.queries.findings import FindingView


def print_finding(finding: FindingView) -> None:
    """Print everything about a finding."""
    out = console()
    out.print(finding.id, state(finding.status.value), finding.strength, sep="  ")
    out.print(finding.claim)
    out.print()
    scope = finding.scope
    versions = ", ".join(f"{name} {version}" for name, version in sorted(scope.get("versions", {}).items()))
    out.print(
        fields(
            [
                ("status", finding.status_reason),
                ("effect", None if finding.effect is None else effect_words(finding.effect)),
                ("rule", finding.rule),
                ("speaks of", f"{LATENCY_ONLY}; {UNKNOWN_QUALITY}" if scope.get("latency_only") else None),
                ("model", scope.get("model")),
                ("fingerprint", scope.get("model_fingerprint")),
                ("target", scope.get("target")),
                ("engine", scope.get("engine")),
                ("versions", versions),
                ("workload", configuration_words(scope.get("workload"))),
                ("control", configuration_words(scope.get("control"))),
                ("superseded by", finding.superseded_by),
                ("found", when(finding.created_at)),
                ("changed", when(finding.updated_at)),
            ]
        )
    )
    if finding.evidence:
        rows = [
            (
                each.experiment,
                each.hypothesis or "—",
                state(each.outcome.value),
                each.relation.value,
                effect_words(each.effect),
            )
            for each in finding.evidence
        ]
        out.print()
        out.print(table(("experiment", "hypothesis", "verdict", "relation", "effect"), rows))
    if finding.elsewhere:
        out.print()
        out.print(findings_elsewhere(finding.elsewhere))
