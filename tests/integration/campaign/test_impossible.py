"""What a user asks for and can't be, through stage, job, worker and verdict: told with its real cause.

Stage and check are the real ones; only what an engine would compute is simulated.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.queue.enqueue import enqueue
from db.models import Experiment, Hypothesis, StageRun, Verdict
from db.states import CampaignState, HypothesisState, StageOutcome, VerdictOutcome
from experiments.measurement.evidence import Stage
from knowledge.acts import steering
from tests.simulated.campaign import drive, start
from tests.unit.agent.test_questions import plain_checkpoint

pytestmark = pytest.mark.timeout(600)

SPACE = """
name: impossible
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}
  - {name: quantization.method, lever: quantization, values: [none, awq], default: none, help: Real.}
  - name: quantization.corpus
    lever: quantization
    values: [raw]
    default: raw
    also: 'user:.+'
    also_like: user:PATH
    when: {quantization.method: [awq]}
    help: Real.
  - {name: drafting.method, lever: drafting, values: [none, draft_model], default: none, help: Real.}
  - name: drafting.drafter
    lever: drafting
    values: [packaged]
    default: packaged
    also: '/.+'
    also_like: PATH
    when: {drafting.method: [draft_model]}
    help: Real.
"""


def test_hypotheses_that_can_t_be_are_judged_infeasible_with_their_causes_and_the_next_is_judged(
    tmp_path: Path,
) -> None:
    corpus = tmp_path / "empty.txt"
    corpus.write_text("\n")
    drafter = plain_checkpoint(tmp_path / "drafter", vocab_size=256)
    target = plain_checkpoint(tmp_path / "target")
    changes = {"model": target, "engine": "checked", "baseline.sweep": [], "proposers": ["rules"]}
    database, campaign_id = start(tmp_path, space_text=SPACE, **changes)
    wanted = {
        "on_nothing": ["quantization.method=awq", f"quantization.corpus=user:{corpus}"],
        "other_words": ["drafting.method=draft_model", f"drafting.drafter={drafter}"],
        "fast": ["simulated.tpot_ms=7.0"],
    }
    asked = {
        name: enqueue(database, campaign_id, claim=name, assignments=knobs, pin=True)
        for name, knobs in wanted.items()
    }

    def stop_when_answered() -> None:
        with database.read() as session:
            answered = set(session.scalars(select(Verdict.hypothesis_id)))
            running = session.get_one(steering.Campaign, campaign_id).state == CampaignState.RUNNING
        if set(asked.values()) <= answered and running:
            with database.write() as session:
                steering.stop_campaign(session, campaign_id)

    drive(database, tmp_path, campaign_id, stop_when_answered)
    with database.read() as session:
        rows = {name: session.get_one(Hypothesis, number) for name, number in asked.items()}
        verdicts = {row.hypothesis_id: row for row in session.scalars(select(Verdict))}
        experiments = {row.hypothesis_id: row for row in session.scalars(select(Experiment))}
        failed = session.scalars(select(StageRun).where(StageRun.outcome == StageOutcome.FAILED)).all()
        causes = {
            "on_nothing": f"The corpus {corpus} is empty: give a file with text in it.",
            "other_words": f"The draft model at {drafter} has a vocabulary of 256 tokens and its target one "
            "of 512; a draft model must share the target's vocabulary.",
        }
        for name, cause in causes.items():
            assert rows[name].state is HypothesisState.INFEASIBLE
            verdict = verdicts[asked[name]]
            assert verdict.outcome is VerdictOutcome.INFEASIBLE
            assert cause in verdict.reason
            assert experiments[asked[name]].failure == cause
        assert [(row.stage, (row.detail or {})["cause"]) for row in failed] == [
            (Stage.QUANTIZE.value, causes["on_nothing"]),
            (Stage.STATIC.value, causes["other_words"]),
        ]
        assert rows["fast"].state is HypothesisState.SUPPORTED
        assert experiments[asked["fast"]].id > max(experiments[asked[name]].id for name in causes)
    database.close()
