"""Specs of jobs for the simulated engine: small, and quick unless a test makes them slow."""

from experiments.job.seal import sealed
from experiments.job.spec import BaselineJob, Knobs, NoiseState, TestJob
from experiments.measurement.plan import Prediction, StoppingPlan, Workload

WORKLOAD = Workload(
    prompt_tokens=4,
    new_tokens=4,
    evaluation_documents=10,
    evaluation_tokens_per_document=8,
    evaluation_items=50,
)

PLAN = StoppingPlan(
    prediction=Prediction(log_ratio_mean=-0.2, log_ratio_sd=0.1), workload=WORKLOAD, quick_blocks=2
)

CONTROL: Knobs = {"simulated.tpot_ms": 10.0}
FASTER: Knobs = {"simulated.tpot_ms": 7.0}


def a_test_job(
    candidate: Knobs = FASTER,
    control: Knobs = CONTROL,
    *,
    judge: str = "one-pair",
    seed: int = 0,
    **more: object,
) -> TestJob:
    fields: dict[str, object] = {
        "campaign_id": 1,
        "experiment_id": 1,
        "engine": "simulated",
        "judge": judge,
        "model": "simulated",
        "model_fingerprint": "simulated-fingerprint",
        "device": "cpu",
        "seed": seed,
        "control": control,
        "candidate": candidate,
        "plan": PLAN,
        "preregistration_digest": "",
        "noise": NoiseState(target_key="desk/cpu"),
    }
    return sealed(TestJob.model_validate(fields | more))


def a_baseline_job(sweep: tuple[Knobs, ...], **more: object) -> BaselineJob:
    fields: dict[str, object] = {
        "campaign_id": 1,
        "experiment_id": 1,
        "engine": "simulated",
        "model": "simulated",
        "model_fingerprint": "simulated-fingerprint",
        "device": "cpu",
        "seed": 3,
        "sweep": sweep,
        "naive": sweep[0],
        "workload": WORKLOAD,
        "noise_blocks": 2,
    }
    return BaselineJob.model_validate(fields | more)
