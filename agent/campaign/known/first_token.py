"""The first token's share of a whole request, as the test that led to a configuration measured it."""

from __future__ import annotations

from statistics import geometric_mean

from sqlalchemy.orm import Session

from agent.judge.pairs import TIMED_STAGES
from agent.surrogate.objective import first_token_share
from experiments.measurement.evidence import Arm, Metric
from experiments.recording import load_launches


def first_token_share_of(session: Session, experiment_id: int, new_tokens: int) -> float | None:
    """Of end-to-end latency of the experiment's candidate, with requests of `new_tokens` each, 0 to 1; None
    where it was not timed. TTFT and TPOT are geometric means over its launches."""
    timed = [
        each
        for each in load_launches(session, experiment_id)
        if each.arm is Arm.CANDIDATE and each.stage in TIMED_STAGES
    ]
    ttft, tpot = (
        [value for launch in timed for value in launch.values(metric) if value > 0]
        for metric in (Metric.TTFT_MS, Metric.TPOT_MS)
    )
    if not ttft or not tpot:
        return None
    return first_token_share(Metric.E2EL_MS, geometric_mean(ttft), geometric_mean(tpot), new_tokens)
