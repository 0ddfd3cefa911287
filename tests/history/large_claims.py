"""Rows of what a long campaign claims and found: configurations, hypotheses, findings, the queue's moves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import product
from math import exp

from db.states import EvidenceRelation, FindingStatus, HypothesisState
from experiments.space.configuration import Configuration as Point
from tests.history.campaign_history import TARGET, VERSIONS
from tests.history.large_story import Row, Story

HYPOTHESES_A_FINDING = 10


def points(story: Story) -> list[Point]:
    """The baseline, then one configuration for each hypothesis."""
    found = [_point(0, "off", "float32", 1, 0)]
    for layers, compiled, dtype, tokens, threads in product(
        range(5), ("off", "default", "cpp_wrapper"), ("float32", "bfloat16"), range(5), range(1, 200)
    ):
        if len(found) > story.size.hypotheses:
            break
        point = _point(layers, compiled, dtype, threads, tokens)
        if point != found[0]:
            found.append(point)
    return found


def configurations(points: list[Point]) -> Iterator[Row]:
    for number, point in enumerate(points, start=1):
        yield {"id": number, "digest": point.digest, "knobs": dict(point)}


def hypotheses(story: Story, points: list[Point]) -> Iterator[Row]:
    for number in range(story.size.hypotheses):
        tested = number < story.size.experiments - 1
        outcome = story.outcomes[number + 1] if tested else None
        changes = points[0].changes_to(points[number + 1])
        lever = "+".join(
            sorted({each.knob.split(".")[0 if "serving" not in each.knob else 1] for each in changes})
        )
        predicted = story.drawn.gauss(-0.08, 0.03)
        rank = None if tested else number - story.size.experiments + 2
        yield {
            "id": number + 1,
            "campaign_id": story.campaign_id,
            "claim": f"Changing {lever} makes a token at least 3 % faster, idea {number + 1}.",
            "control_configuration_id": 1,
            "candidate_configuration_id": number + 2,
            "change": {
                "changes": [
                    {"knob": each.knob, "before": each.before, "after": each.after} for each in changes
                ]
            },
            "change_digest": hashlib.sha256(str(number).encode()).hexdigest(),
            "metric": "tpot_ms",
            "question": None,
            "prediction": {"log_ratio_mean": predicted, "log_ratio_sd": 0.05},
            "min_effect": 0.03,
            "refuted_if": "The whole interval of the effect lies above −3 %.",
            "rationale": "Fewer bytes move, so that a step takes less time; the profile says how much.",
            "proposer": ("rules", "optuna", "user")[number % 3],
            "lever": lever,
            "state": HypothesisState.QUEUED if outcome is None else HypothesisState(outcome.value),
            "pinned": False,
            "rank": rank,
            "score": {
                "score": 1.0 / (number + 1),
                "gain": -predicted,
                "p_quality": 0.9,
                "p_feasible": 0.95,
                "cost_s": 60.0 + number % 90,
                "place": rank,
            },
            "rank_reason": None if tested else "could save 8 % [2, 14], quality held with P 0.90, 60 s",
            "preregistration_digest": "d" * 64 if tested else None,
            "state_reason": story.reason(number + 1) if tested else None,
            "created_at": story.at(number),
            "state_changed_at": story.at(number + 1),
        }


def edges(story: Story) -> Iterator[Row]:
    for number, parent in enumerate(story.parents):
        if parent is not None:
            yield {"hypothesis_id": number + 1, "parent_id": parent + 1}


def findings(story: Story) -> Iterator[Row]:
    for number in range(story.size.experiments // HYPOTHESES_A_FINDING - 1):
        effect = story.effects[number * HYPOTHESES_A_FINDING + 1]
        yield {
            "id": number + 1,
            "campaign_id": story.campaign_id,
            "key": f"tpot_ms: the {number + 1}th change",
            "claim": f"Change {number + 1} lowers TPOT by {100 * (1 - exp(effect)):.1f} %.",
            "scope": {
                "model": "reference",
                "target": TARGET,
                "engine": "reference",
                "versions": VERSIONS,
            },
            "effect_log": effect,
            "interval_low_log": effect - 0.02,
            "interval_high_log": effect + 0.02,
            "strength": ("single", "reproduced")[number % 2],
            "status": FindingStatus.HOLDS if number % 7 else FindingStatus.CONTRADICTED,
            "rule": "single",
            "created_at": story.at(number),
            "updated_at": story.at(number),
        }


def evidence(story: Story) -> Iterator[Row]:
    for number in range(story.size.experiments // HYPOTHESES_A_FINDING - 1):
        for offset in range(3):
            yield {
                "finding_id": number + 1,
                "verdict_id": number * HYPOTHESES_A_FINDING + offset + 1,
                "relation": EvidenceRelation.REPRODUCES if offset else EvidenceRelation.SUPPORTS,
            }


def moves(story: Story) -> Iterator[Row]:
    ranked = range(story.first_event + 6, story.size.events, 7)
    for place, event_id in enumerate(ranked):
        if place >= story.size.experiments:
            return
        yield {
            "event_id": event_id - 1,
            "ranking_event_id": event_id,
            "hypothesis_id": story.size.hypotheses - place % story.size.queued,
            "from_rank": 3 + place % 4,
            "to_rank": 1 + place % 4,
            "reason": "rose, because what stood ahead was refuted",
        }


def _point(layers: int, compiled: str, dtype: str, threads: int, tokens: int) -> Point:
    knobs: dict[str, str | int] = {
        "drafting.method": "mtp" if tokens else "none",
        "pruning.method": "depth" if layers else "none",
        "serving.compile": compiled,
        "serving.dtype": dtype,
        "serving.threads": threads,
    }
    if tokens:
        knobs["drafting.draft_tokens"] = tokens
    if layers:
        knobs |= {
            "pruning.layers_removed": layers,
            "pruning.criterion": "block_influence",
            "pruning.restrict": "any",
        }
    return Point.of(knobs)
