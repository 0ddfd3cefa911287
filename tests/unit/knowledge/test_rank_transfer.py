"""A rank correlation that a pruning stage reports is a finding of its own, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from db.event_kinds import EventKind
from db.models import Artifact, Event, Finding, FindingEvidence
from db.states import EvidenceRelation, FindingStatus, VerdictOutcome
from experiments.measurement.evidence import Json
from knowledge.acts.notes import add_note
from knowledge.queries.found.finding_detail import finding_detail
from knowledge.rank_transfer import update_rank_transfer
from tests.history.asking_history import ARTIFACT, RANKS, AskingHistory

QUANTIZED = "9" * 64


@pytest.fixture
def history(tmp_path: Path) -> Iterator[AskingHistory]:
    found = AskingHistory(tmp_path)
    yield found
    found.close()


def pruned(history: AskingHistory, number: int, ranks: Json, criterion: str = "block_influence") -> int:
    """Judge an experiment that pruned by a ranking of the quantized model; returns its verdict."""
    report: dict[str, Json] = {
        "criterion": criterion,
        "ranked_on": "quantized",
        "removed": [3],
        "rank_correlation": ranks,
    }
    _, verdict_id = history.judge(
        history.ask(number), VerdictOutcome.INCONCLUSIVE, None, reports={"prune": report}
    )
    return verdict_id


def keep_artifacts(history: AskingHistory) -> None:
    inputs = {
        ARTIFACT[: -len("prune")] + "prune": {"stage": "prune", "parents": [QUANTIZED]},
        QUANTIZED: {"stage": "quantize", "recipe": {"method": "awq", "group_size": 128}},
    }
    fixed = {"kind": "checkpoint", "tool_versions": {}, "path": "", "bytes": 1, "build_s": 1.0}
    with history.database.write() as session:
        session.add_all(Artifact(digest=digest, inputs=told, **fixed) for digest, told in inputs.items())


def test_it_says_how_far_the_rankings_agree_and_where(history: AskingHistory) -> None:
    keep_artifacts(history)
    verdict_id = pruned(history, 2, RANKS)
    with history.database.write() as session:
        (finding_id,) = update_rank_transfer(session, verdict_id)
        finding = finding_detail(session, finding_id)
        told = session.scalars(select(Event).where(Event.kind == EventKind.FINDING_ADDED)).all()
    assert finding.claim.startswith(
        "The block_influence rankings of 12 layers on the original and on the quantized model agree with "
        "Spearman's ρ +0.64 [+0.41, +0.79] and Kendall's τ +0.52 [+0.30, +0.64] (method=awq, group_size=128) "
        "on model reference, target Example CPU (2 cores)"
    )
    assert finding.rule == "R7-rank-transfer"
    assert finding.effect is None
    assert [each.relation for each in finding.evidence] == [EvidenceRelation.INFORMS]
    assert [event.subject for event in told] == [finding.id]


def test_the_same_rankings_in_another_experiment_are_the_same_finding(history: AskingHistory) -> None:
    keep_artifacts(history)
    first, second = pruned(history, 1, RANKS), pruned(history, 2, RANKS)
    with history.database.write() as session:
        assert len(update_rank_transfer(session, first)) == 1
        assert update_rank_transfer(session, first) == ()
        assert update_rank_transfer(session, second) == ()
        assert session.scalars(select(Finding.id)).all() == [1]
        assert len(session.scalars(select(FindingEvidence.verdict_id)).all()) == 2


def test_another_criterion_is_another_finding(history: AskingHistory) -> None:
    first, second = pruned(history, 1, RANKS), pruned(history, 2, RANKS, "leave_one_out_kl")
    with history.database.write() as session:
        update_rank_transfer(session, first)
        assert len(update_rank_transfer(session, second)) == 1


@pytest.mark.parametrize("ranks", [None, {**RANKS, "spearman": {"value": None, "low": None, "high": None}}])
def test_no_correlation_is_no_finding(history: AskingHistory, ranks: Json) -> None:
    verdict_id = pruned(history, 2, ranks)
    with history.database.write() as session:
        assert update_rank_transfer(session, verdict_id) == ()


def test_a_note_can_make_it_stale(history: AskingHistory) -> None:
    verdict_id = pruned(history, 2, RANKS)
    with history.database.write() as session:
        update_rank_transfer(session, verdict_id)
        add_note(session, "Another text to rank on.", stale="pruning.criterion")
        assert session.get_one(Finding, 1).status is FindingStatus.STALE
