"""The sheet of a finding: the claim, its scope, its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import console, fields, state, table, when
from cli.console.words import about_words, configuration_words, effect_words
from cli.sheets.elsewhere import findings_elsewhere
from cli.sheets.target import target_rows
from knowledge.figures import listed, unit_of
from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY
from knowledge.machines import machines_named

if TYPE_CHECKING:
    from rich.console import RenderableType as Shown

    from knowledge.queries.found.finding_detail import FindingDetail, PooledView


def print_finding(finding: FindingDetail) -> None:
    """Print everything about a finding."""
    out = console()
    out.print(finding.id, state(finding.status.value), finding.strength, sep="  ")
    out.print(machines_named(finding.claim))
    out.print()
    scope = finding.scope
    versions = ", ".join(f"{name} {version}" for name, version in sorted(scope.get("versions", {}).items()))
    out.print(
        fields(
            [
                ("says", finding.says),
                ("change", about_words(finding) or None),
                ("written by", finding.written_by),
                ("status", finding.status_reason and machines_named(finding.status_reason)),
                ("but", finding.doubt),
                ("effect", None if finding.effect is None else effect_words(finding.effect)),
                ("campaigns", _campaigns(finding)),
                ("rule", finding.rule),
                ("speaks of", f"{LATENCY_ONLY}; {UNKNOWN_QUALITY}" if scope.get("latency_only") else None),
                ("model", scope.get("model")),
                ("fingerprint", scope.get("model_fingerprint")),
                *target_rows(scope.get("target")),
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
    if finding.pooled is not None and len(finding.pooled.campaigns) > 1:
        out.print()
        out.print(_pooled(finding.pooled))
        out.print(_heterogeneity(finding.pooled))
    for dispute in finding.disputes:
        out.print()
        out.print(fields([("disputed", dispute.question)]))
        if dispute.hypotheses:
            out.print(fields([("tested by", listed(list(dispute.hypotheses)))]))
        if dispute.answered_by:
            out.print(fields([("answered by", dispute.answered_by)]))
    if finding.evidence:
        rows = [
            (
                each.named,
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


def _campaigns(finding: FindingDetail) -> str | None:
    """How many campaigns say so, where more than one says anything."""
    if finding.says_so + finding.says_not < 2:
        return None
    against = f", {finding.says_not} against" if finding.says_not else ""
    return f"{finding.says_so} for it{against}"


def _pooled(pooled: PooledView) -> Shown:
    """A row a campaign, what all say together, and where another one is expected."""
    rows = [
        (each.id, ", ".join(each.experiments), effect_words(each.effect), f"{100 * each.weight:.0f} %")
        for each in pooled.campaigns
    ]
    rows.append(("together", "", effect_words(pooled.effect), ""))
    if pooled.predicted is not None:
        rows.append(("another campaign", "", effect_words(pooled.predicted), ""))
    return table(("campaign", "experiments", "effect", ">weight"), rows)


def _heterogeneity(pooled: PooledView) -> str:
    unit = unit_of(pooled.effect.metric)
    return (
        f"Between campaigns: τ {100 * (pooled.spread or 0):.1f} {unit} (posterior median), "
        f"I² {100 * (pooled.i_squared or 0):.0f} %."
    )
