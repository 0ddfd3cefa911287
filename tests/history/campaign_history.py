"""A campaign's history written into a real database through the models, as the loop and the worker leave
it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from pathlib import Path

from sqlalchemy.orm import Session

from agent.campaign.beginning.create import create_campaign
from agent.campaign.queue.accept import accept
from agent.plan.ground import Ground
from agent.proposers.port import Draft
from agent.surrogate.levers import joined
from configs.campaign import load_campaign
from db import events
from db.clock import now
from db.content import put_environment
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import (
    Artifact,
    Campaign,
    Experiment,
    ExperimentArtifact,
    Hypothesis,
    Launch,
    Move,
    StageRun,
    Verdict,
)
from db.models.base import JsonObject
from db.samples import Sample, insert_samples
from db.session import Database
from db.states import (
    Arm,
    ExperimentKind,
    ExperimentState,
    HypothesisState,
    StageOutcome,
    VerdictOutcome,
)
from experiments.measurement.plan import Prediction, StoppingPlan
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from knowledge.findings.keeping import update_findings
from tests.new_database import database_url, new_database

TARGET = "cpu:Example CPU:2 cores"
VERSIONS = {"python": "3.11.9", "torch": "2.13.0", "autoinfer": "0.1.0"}
SPACE = load_space("reference")
BASE = SPACE.configuration({})
TPOT_MS = 10.0


@dataclass(frozen=True)
class Judged:
    """What one judged experiment left: ids of the rows."""

    hypothesis_id: int
    experiment_id: int
    verdict_id: int


def the_ground(fingerprint: str = "f" * 64) -> Ground:
    """A reference model of four layers on the example machine."""
    return Ground(
        checkpoint=Path("/models/reference"),
        fingerprint=fingerprint,
        target_key=TARGET,
        cores=2,
        model_layers=("linear_attention",) * 3 + ("full_attention",),
    )


def add_experiment(
    session: Session,
    hypothesis: Hypothesis,
    plan: StoppingPlan,
    *,
    target: str = TARGET,
    reproduces: int | None = None,
    failure: tuple[str, str] | None = None,
) -> Experiment:
    """Write down an experiment that has ended, or the rerun of one."""
    experiment = Experiment(
        campaign_id=hypothesis.campaign_id,
        hypothesis_id=hypothesis.id,
        kind=ExperimentKind.TEST if reproduces is None else ExperimentKind.REPRODUCE,
        target=target,
        control_configuration_id=hypothesis.control_configuration_id,
        candidate_configuration_id=hypothesis.candidate_configuration_id,
        state=ExperimentState.DONE,
        plan=plan.model_dump(mode="json"),
        preregistration_digest="d" * 64,
        reproduces_experiment_id=reproduces,
        failure_kind=failure[0] if failure else None,
        failure=failure[1] if failure else None,
        started_at=now(),
        finished_at=now(),
        wall_s=42.0,
    )
    session.add(experiment)
    session.flush()
    return experiment


def add_launch(
    session: Session,
    experiment: Experiment,
    arm: Arm,
    stage: str,
    resolved: JsonObject,
    samples: Sequence[Sample],
    environment: JsonObject,
    attempt: int = 1,
) -> None:
    """Write down a launch of an arm with what it resolved to and its samples."""
    text = json.dumps(environment, sort_keys=True)
    digest = put_environment(session, hashlib.sha256(text.encode()).hexdigest(), environment)
    launch = Launch(
        experiment_id=experiment.id,
        attempt=attempt,
        arm=arm,
        index=0,
        stage=stage,
        configuration_id=experiment.control_configuration_id
        if arm is Arm.CONTROL
        else experiment.candidate_configuration_id,
        resolved=resolved,
        environment_digest=digest,
        load_s=1.5,
    )
    session.add(launch)
    session.flush()
    insert_samples(session, launch.id, samples)


class History:
    """Writes a campaign step by step; every method is one transaction."""

    def __init__(self, folder: Path, database: Database | None = None) -> None:
        """Begin a campaign in a new database, or go on with the first one of `database`."""
        self.url = database_url(folder)
        self.database: Database = database or new_database(folder)
        self.campaign_id = 1 if database else self.start()

    def close(self) -> None:
        self.database.close()

    def start(self, name: str = "default", fingerprint: str = "f" * 64) -> int:
        spec = load_campaign("default")
        with self.database.write() as session:
            campaign_id = create_campaign(session, spec, the_ground(fingerprint))
            session.get_one(Campaign, campaign_id).name = name
        return campaign_id

    def propose(
        self,
        change: Mapping[str, KnobValue],
        *,
        claim: str = "It is faster.",
        predicted: float = -0.10,
        sd_log: float = 0.05,
        min_effect: float = 0.03,
        control: Configuration = BASE,
        parents: Sequence[int] = (),
        campaign_id: int | None = None,
        rank: int | None = None,
        rank_reason: str | None = None,
        proposer: str = "rules",
    ) -> int:
        draft = self.draft(change, claim, predicted, sd_log, min_effect, control, parents, proposer)
        with self.database.write() as session:
            accepted = accept(session, campaign_id or self.campaign_id, draft, "tpot_ms", SPACE)
            row = session.get_one(Hypothesis, accepted.hypothesis_id)
            row.rank, row.rank_reason = rank, rank_reason
        return accepted.hypothesis_id

    def draft(
        self,
        change: Mapping[str, KnobValue],
        claim: str = "It is faster.",
        predicted: float = -0.10,
        sd_log: float = 0.05,
        min_effect: float = 0.03,
        control: Configuration = BASE,
        parents: Sequence[int] = (),
        proposer: str = "rules",
    ) -> Draft:
        candidate = SPACE.with_change(control, change)
        return Draft(
            claim=claim,
            control=control,
            candidate=candidate,
            lever=joined(SPACE.levers_between(control, candidate)),
            prediction=Prediction(log_ratio_mean=log1p(predicted), log_ratio_sd=sd_log),
            min_effect=min_effect,
            refuted_if="TPOT does not fall by 3 %.",
            rationale="Fewer bytes move.",
            proposer=proposer,
            parents=tuple(parents),
        )

    def move(self, hypothesis_id: int, from_rank: int | None, to_rank: int | None, reason: str) -> None:
        with self.database.write() as session:
            cause = events.append(session, EventKind.EXPERIMENT_JUDGED, "Something was judged.")
            ranked = events.append(session, EventKind.QUEUE_RANKED, "The queue was ranked.")
            session.add(
                Move(
                    event_id=cause,
                    ranking_event_id=ranked,
                    hypothesis_id=hypothesis_id,
                    from_rank=from_rank,
                    to_rank=to_rank,
                    reason=reason,
                )
            )

    def judge(
        self,
        hypothesis_id: int,
        outcome: VerdictOutcome,
        *,
        effect: tuple[float, float, float] | None = (-0.10, -0.12, -0.08),
        quality: str = "held",
        reason: str = "The interval says so.",
        min_effect: float | None = None,
        reproduces: int | None = None,
        versions: Mapping[str, str] = VERSIONS,
        target: str = TARGET,
        samples: int = 4,
        failure: tuple[str, str] | None = None,
        would_run_with: Mapping[str, str] | None = None,
        learn: bool = True,
    ) -> Judged:
        """Run and judge an experiment; `effect` holds relative changes (−0.10 is 10 % faster). One that
        failed told at most which packages it `would_run_with`."""
        with self.database.write() as session:
            hypothesis = session.get_one(Hypothesis, hypothesis_id)
            plan = StoppingPlan(
                prediction=Prediction.model_validate(hypothesis.prediction),
                min_effect=hypothesis.min_effect if min_effect is None else min_effect,
            )
            experiment = add_experiment(
                session, hypothesis, plan, target=target, reproduces=reproduces, failure=failure
            )
            experiment.versions = None if would_run_with is None else dict(would_run_with)
            if failure is None:
                for arm in Arm:
                    self._launch(session, experiment, arm, versions, samples)
            session.add(
                StageRun(
                    experiment_id=experiment.id,
                    attempt=1,
                    stage="full",
                    wall_s=30.0,
                    outcome=StageOutcome.DONE if failure is None else StageOutcome.FAILED,
                    log_path="/logs/full.log",
                )
            )
            logs = None if effect is None else [log1p(each) for each in effect]
            verdict = Verdict(
                experiment_id=experiment.id,
                hypothesis_id=hypothesis_id,
                outcome=outcome,
                effect_log=logs[0] if logs else None,
                interval_low_log=logs[1] if logs else None,
                interval_high_log=logs[2] if logs else None,
                launches=4,
                samples=2 * samples,
                quality={"state": quality},
                reason=reason,
                judge={"name": "launch-interval", "version": "1", "details": {}},
            )
            session.add(verdict)
            if reproduces is None:
                hypothesis.state = HypothesisState(outcome.value)
                hypothesis.state_reason = reason
                hypothesis.rank = None
            session.flush()
            label = format_label(Noun.EXPERIMENT, experiment.id)
            events.append(
                session,
                EventKind.EXPERIMENT_JUDGED,
                reason,
                subject=label,
                campaign_id=hypothesis.campaign_id,
            )
            if learn:
                update_findings(session, verdict.id)
            return Judged(hypothesis_id, experiment.id, verdict.id)

    def start_testing(self, hypothesis_id: int) -> int:
        with self.database.write() as session:
            hypothesis = session.get_one(Hypothesis, hypothesis_id)
            hypothesis.state, hypothesis.rank = HypothesisState.TESTING, None
            experiment = Experiment(
                campaign_id=hypothesis.campaign_id,
                hypothesis_id=hypothesis_id,
                kind=ExperimentKind.TEST,
                target=TARGET,
                control_configuration_id=hypothesis.control_configuration_id,
                candidate_configuration_id=hypothesis.candidate_configuration_id,
                state=ExperimentState.RUNNING,
                stage="quick",
                progress={"text": "block 3 of 8"},
                plan={"metric": "tpot_ms"},
                started_at=now(),
            )
            session.add(experiment)
            session.flush()
            return experiment.id

    def artifact(self, experiment_id: int, digest: str) -> None:
        with self.database.write() as session:
            session.add(
                Artifact(
                    digest=digest,
                    kind="pruned-checkpoint",
                    inputs={"layers_removed": 1},
                    tool_versions={"torch": "2.13.0"},
                    path=f"/artifacts/{digest}",
                    bytes=9_000_000,
                    build_s=2.5,
                )
            )
            session.flush()
            session.add(ExperimentArtifact(experiment_id=experiment_id, artifact_digest=digest))

    def _launch(
        self, session: Session, experiment: Experiment, arm: Arm, versions: Mapping[str, str], samples: int
    ) -> None:
        is_control = arm is Arm.CONTROL
        knobs = {"arm": arm.value, "pid": experiment.id * 100 + len(arm.value)}
        factor = 1.0 if is_control else 0.9
        add_launch(
            session,
            experiment,
            arm,
            "full",
            {"threads": 2 if is_control else 1, "versions": dict(versions), **knobs},
            [
                Sample(0, 0, f"prompt-{number}", number, "tpot_ms", "ms", TPOT_MS * factor + 0.1 * number)
                for number in range(samples)
            ]
            + [Sample(0, 0, "prompt-0", samples, "itl_ms", "ms", TPOT_MS)],
            {"cpu": {"name": "Example CPU", "cores": 2}, "steal_s": 0.0},
        )


def a_full_history(folder: Path) -> History:
    """One campaign with something of everything: four verdicts, a queue, one under test, findings."""
    history = History(folder)
    faster = history.propose({"serving.threads": 1}, claim="One thread is faster.")
    first = history.judge(faster, VerdictOutcome.SUPPORTED)
    history.artifact(first.experiment_id, "3fa9" + "0" * 60)
    slower = history.propose({"serving.dtype": "bfloat16"}, claim="bfloat16 is faster.", parents=[faster])
    history.judge(
        slower, VerdictOutcome.REFUTED, effect=(0.20, 0.15, 0.25), reason="It is 20 % slower instead."
    )
    broken = history.propose({"serving.compile": "cpp_wrapper"}, claim="The C++ wrapper is faster.")
    history.judge(
        broken,
        VerdictOutcome.INFEASIBLE,
        effect=None,
        reason="The candidate did not start: no C++ compiler.",
        failure=("build_failed", "no C++ compiler was found"),
    )
    unclear = history.propose({"serving.threads": 4}, claim="Four threads are faster.")
    history.judge(
        unclear, VerdictOutcome.INCONCLUSIVE, effect=(-0.02, -0.06, 0.02), reason="The interval holds 3 %."
    )
    testing = history.propose({"serving.compile": "default"}, claim="Compiling is faster.")
    history.start_testing(testing)
    waiting = history.propose(
        {"serving.threads": 8},
        claim="Eight threads [really] are faster.",
        rank=1,
        rank_reason="It pays most.",
    )
    history.move(waiting, 3, 1, "Threads turned out to matter.")
    history.propose(
        {"pruning.method": "depth", "pruning.layers_removed": 1},
        claim="One layer less is faster.",
        rank=2,
        rank_reason="It costs an artifact.",
    )
    return history
