"""A campaign that asks, written into a real database through the models: answered, infeasible and open."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.orm import Session

from agent.campaign.beginning.create import create_campaign
from agent.campaign.known import store
from agent.campaign.queue.accept import put_down
from agent.proposers.claims import refuted_if, unpredicted
from agent.proposers.port import Draft
from agent.surrogate.levers import joined
from configs.campaign import CampaignSpec, load_campaign
from configs.questions import Question
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, StageRun, Verdict
from db.samples import Sample
from db.session import Database
from db.states import (
    Arm,
    CampaignState,
    HypothesisState,
    StageOutcome,
    VerdictOutcome,
)
from experiments.measurement.evidence import Json, Metric
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import KnobValue
from experiments.space.loading import load_space
from knowledge.stored import HELD, STANDS_FOR
from tests.history.campaign_history import VERSIONS, add_experiment, add_launch, the_ground
from tests.new_database import database_url, new_database

SPACE = load_space("levers")
BASELINE = SPACE.configuration({"serving.threads": 1})
G128 = {"quantization.method": "awq", "quantization.group_size": 128}
G32 = {**G128, "quantization.group_size": 32}
PRUNED = {**G128, "pruning.method": "depth", "pruning.ranked_on": "quantized"}
ARTIFACT = "3fa9" + "0" * 60

RANKS: dict[str, Json] = {
    "spearman": {"value": 0.6434, "low": 0.41, "high": 0.79},
    "kendall": {"value": 0.5152, "low": 0.3, "high": 0.64},
    "layers": 12,
    "documents": 24,
    "confidence": 0.95,
    "conditional_on": "these layers of this model",
}


def question(name: str, asks: str, control: object, candidate: object, metric: str) -> dict[str, object]:
    return {
        "id": name,
        "asks": asks,
        "claim": f"{name} is better.",
        "control": control,
        "candidate": candidate,
        "metric": metric,
        "min_effect": "2%",
        "why": "Nobody measured it.",
    }


LOSES = "Does g128 lose against g32?"
CARRIES = "Does the ranking carry over?"
QUESTIONS = [
    question("g32_bits", LOSES, G128, G32, "nll_bits"),
    question("g32_items", LOSES, G128, G32, "task_correct"),
    question("ranked", CARRIES, G128, PRUNED, "nll_bits"),
    question("mtp", "Does drafting pay?", {}, {"drafting.method": "mtp"}, "tpot_ms"),
]


class AskingHistory:
    """Writes what loop, worker and judge would; every method is one transaction."""

    def __init__(self, folder: Path) -> None:
        self.url = database_url(folder)
        self.database: Database = new_database(folder)
        self.spec: CampaignSpec = load_campaign("default", {"space": "levers", "questions": QUESTIONS})
        with self.database.write() as session:
            self.campaign_id = create_campaign(session, self.spec, the_ground())
            campaign = session.get_one(Campaign, self.campaign_id)
            campaign.baseline_configuration_id = store.configuration_id(session, BASELINE)

    def close(self) -> None:
        self.database.close()

    def ask(self, number: int, impossible: str | None = None) -> int:
        asked: Question = self.spec.questions[number]
        control = SPACE.with_change(BASELINE, asked.control)
        candidate = SPACE.with_change(BASELINE, asked.candidate)
        metric = Metric(asked.metric)
        draft = Draft(
            claim=asked.claim,
            control=control,
            candidate=candidate,
            lever=joined(SPACE.levers_between(control, candidate)),
            prediction=unpredicted(metric, asked.min_effect),
            min_effect=asked.min_effect,
            refuted_if=refuted_if(metric, asked.min_effect),
            rationale=asked.why,
            proposer="questions",
        )
        with self.database.write() as session:
            return put_down(
                session, self.campaign_id, draft, asked.metric, question=asked.id, impossible=impossible
            ).hypothesis_id

    def anew(self, hypothesis_id: int, experiment_id: int, held: dict[str, KnobValue]) -> int:
        """What makes the claim of a confounded hypothesis anew, with these knobs in both arms."""
        with self.database.write() as session:
            first = session.get_one(Hypothesis, hypothesis_id)
            metric = Metric(first.metric)
            arms = (first.control_configuration_id, first.candidate_configuration_id)
            known = store.configurations(session, arms)
            control, candidate = (SPACE.with_change(known[each], held) for each in arms)
            draft = Draft(
                claim=f"{first.claim} Anew.",
                control=control,
                candidate=candidate,
                lever=first.lever,
                prediction=unpredicted(metric, first.min_effect),
                min_effect=first.min_effect,
                refuted_if=refuted_if(metric, first.min_effect),
                rationale="It separates the causes.",
                proposer="separation",
            )
            label = format_label(Noun.EXPERIMENT, experiment_id)
            separates = {"experiment": label, STANDS_FOR: hypothesis_id, HELD: dict(held)}
            return put_down(session, self.campaign_id, draft, first.metric, separates=separates).hypothesis_id

    def judge(
        self,
        hypothesis_id: int,
        outcome: VerdictOutcome,
        effect: tuple[float, float, float] | None,
        *,
        reports: dict[str, dict[str, Json]] | None = None,
        arms: dict[Arm, list[tuple[str, float]]] | None = None,
        reproduces: int | None = None,
    ) -> tuple[int, int]:
        """Write experiment, launches, stages and verdict; returns the ids of experiment and verdict."""
        with self.database.write() as session:
            hypothesis = session.get_one(Hypothesis, hypothesis_id)
            plan = StoppingPlan(
                metric=Metric(hypothesis.metric),
                prediction=unpredicted(Metric(hypothesis.metric), hypothesis.min_effect),
                min_effect=hypothesis.min_effect,
            )
            experiment = add_experiment(session, hypothesis, plan, reproduces=reproduces)
            for stage, report in (reports or {}).items():
                session.add(
                    StageRun(
                        experiment_id=experiment.id,
                        attempt=1,
                        stage=stage,
                        outcome=StageOutcome.DONE,
                        detail={"artifact": ARTIFACT[: -len(stage)] + stage, "report": report},
                    )
                )
            for arm in Arm:
                self._launch(session, experiment, arm, (arms or {}).get(arm, []))
            verdict = Verdict(
                experiment_id=experiment.id,
                hypothesis_id=hypothesis_id,
                outcome=outcome,
                effect_log=effect[0] if effect else None,
                interval_low_log=effect[1] if effect else None,
                interval_high_log=effect[2] if effect else None,
                launches=2,
                samples=64,
                quality={},
                reason="the interval says so",
                judge={"name": "launch-interval", "version": "1", "details": {}, "acceptance_length": 1.62},
            )
            session.add(verdict)
            if reproduces is None:
                hypothesis.state = HypothesisState(outcome.value)
                hypothesis.state_reason = verdict.reason
            session.flush()
            return experiment.id, verdict.id

    def stop(self, reason: str) -> None:
        with self.database.write() as session:
            campaign = session.get_one(Campaign, self.campaign_id)
            campaign.state = CampaignState.STOPPED
            campaign.stopped_because = reason

    def _launch(
        self, session: Session, experiment: Experiment, arm: Arm, samples: list[tuple[str, float]]
    ) -> None:
        control = arm is Arm.CONTROL
        add_launch(
            session,
            experiment,
            arm,
            "evaluate",
            {
                "weights": {"bits_per_weight": 4.156 if control else 4.625, "stored": "pack-quantized W4"},
                "step_weight_bytes": 1_000_000 if control else 1_100_000,
                "versions": dict(VERSIONS),
            },
            [Sample(0, 0, f"item {n}", n, metric, "1", value) for n, (metric, value) in enumerate(samples)],
            {},
        )


def an_asking_history(folder: Path) -> AskingHistory:
    """One answer each: supported, refuted, inconclusive; one question infeasible; the campaign has ended."""
    history = AskingHistory(folder)
    quantize: dict[str, Json] = {
        "recipe": {"method": "awq", "group_size": 32},
        "bits_per_weight": 4.625,
        "step_bytes_by_part": {"before": {"mlp": 4096}, "after": {"mlp": 1024, "lm_head": 512}},
        "corpus": {"described": "Running text.", "fingerprint": "c0ffee" * 8},
    }
    evaluated = {
        Arm.CONTROL: [("nll_bits", 1010.0), ("text_bytes", 1000.0)],
        Arm.CANDIDATE: [("nll_bits", 1000.0), ("text_bytes", 1000.0)],
    }
    first, _ = history.judge(
        history.ask(0),
        VerdictOutcome.SUPPORTED,
        (-0.03, -0.04, -0.02),
        reports={"quantize": quantize},
        arms=evaluated,
    )
    history.judge(1, VerdictOutcome.SUPPORTED, (-0.03, -0.03, -0.03), reproduces=first)
    solved = {
        Arm.CONTROL: [("task_correct", 1.0), ("task_correct", 0.0)],
        Arm.CANDIDATE: [("task_correct", 1.0), ("task_correct", 1.0)],
    }
    history.judge(history.ask(1), VerdictOutcome.REFUTED, (-0.013, -0.029, 0.004), arms=solved)
    prune: dict[str, Json] = {
        "criterion": "block_influence",
        "ranked_on": "quantized",
        "removed": [3],
        "rank_correlation": RANKS,
    }
    history.judge(history.ask(2), VerdictOutcome.INCONCLUSIVE, (0.0, -0.1, 0.1), reports={"prune": prune})
    history.ask(3, impossible="This checkpoint has no MTP head.")
    history.stop("the budget of 1 h is spent")
    return history
