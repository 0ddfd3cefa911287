"""Rows of what a long campaign ran: experiments with launches, samples and stages, verdicts, jobs, events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from math import exp

from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.states import Arm, ExperimentKind, ExperimentState, JobState, StageOutcome
from tests.history.campaign_history import TARGET, VERSIONS
from tests.history.large_story import BASELINE_MS, BEGAN, PAIRS, Row, Story

ITEMS_A_LAUNCH = 2

METRICS = (("tpot_ms", 1.0), ("itl_ms", 1.0), ("ttft_ms", 6.0), ("e2el_ms", 55.0))
"""Metrics of a launch, and how large each is against a token's time."""


def experiments(story: Story) -> Iterator[Row]:
    """The baseline first, then a test of each hypothesis in turn; the last one still runs."""
    for number in range(story.size.experiments):
        runs = number == story.size.experiments - 1
        yield {
            "id": number + 1,
            "campaign_id": story.campaign_id,
            "hypothesis_id": number or None,
            "kind": ExperimentKind.TEST if number else ExperimentKind.BASELINE,
            "target": TARGET,
            "control_configuration_id": 1,
            "candidate_configuration_id": number + 1 if number else None,
            "state": ExperimentState.RUNNING if runs else ExperimentState.DONE,
            "stage": "full" if runs else None,
            "progress": {"text": "block 3 of 8"} if runs else {"stop_reason": None},
            "plan": {
                "metric": "tpot_ms",
                "min_effect": 0.03,
                "alpha": 0.05,
                "support_alpha": 0.05 / (number + 1),
            },
            "preregistration_digest": "d" * 64 if number else None,
            "failure_kind": "build_failed" if story.is_infeasible(number) else None,
            "failure": "no C++ compiler was found" if story.is_infeasible(number) else None,
            "created_at": story.at(number),
            "started_at": story.at(number),
            "finished_at": None if runs else story.at(number) + timedelta(minutes=5),
            "wall_s": None if runs else 200.0 + number % 100,
            "versions": VERSIONS,
        }


def timed(story: Story) -> Iterator[tuple[int, Arm, int, int]]:
    """Experiment, arm, pair and a running number of every launch."""
    count = 0
    for number in range(story.size.experiments):
        if story.is_infeasible(number):
            continue
        for pair, arm in product(range(PAIRS), Arm):
            if number or arm is Arm.CONTROL:
                count += 1
                yield number, arm, pair, count


def launches(story: Story) -> Iterator[Row]:
    for number, arm, pair, count in timed(story):
        yield {
            "id": count,
            "experiment_id": number + 1,
            "attempt": 1,
            "arm": arm,
            "index": pair,
            "stage": "noise" if number == 0 else "quick" if pair == 0 else "validation",
            "configuration_id": 1 if arm is Arm.CONTROL else number + 1,
            "resolved": {"threads": 1, "dtype": "float32", "versions": VERSIONS},
            "environment_digest": "e" * 64,
            "load_s": 1.5,
            "started_at": story.at(number),
        }


def measurements(story: Story) -> Iterator[Row]:
    for number, arm, pair, count in timed(story):
        token_ms = BASELINE_MS * (exp(story.effects[number]) if arm is Arm.CANDIDATE else 1.0)
        token_ms *= 1 + 0.002 * pair
        for seq, ((metric, factor), item) in enumerate(product(METRICS, range(ITEMS_A_LAUNCH))):
            yield {
                "launch_id": count,
                "block": item,
                "position": item,
                "item": f"prompt-{item}",
                "seq": seq,
                "metric": metric,
                "unit": "ms",
                "value": token_ms * factor * (1 + 0.01 * item),
            }


def stages(story: Story) -> Iterator[Row]:
    for number in range(story.size.experiments):
        for stage in ("static", "quick", "evaluate", "validation"):
            yield {
                "experiment_id": number + 1,
                "attempt": 1,
                "stage": stage,
                "started_at": story.at(number),
                "wall_s": 50.0,
                "outcome": StageOutcome.DONE,
                "detail": {},
                "log_path": f"/logs/{number}/{stage}.log",
            }


def verdicts(story: Story) -> Iterator[Row]:
    for number in range(1, story.size.experiments - 1):
        effect = None if story.is_infeasible(number) else story.effects[number]
        lost = abs(story.drawn.gauss(0.0, 0.006)) - 0.001 * (effect or 0.0)
        yield {
            "id": number,
            "experiment_id": number + 1,
            "hypothesis_id": number,
            "outcome": story.outcomes[number],
            "effect_log": effect,
            "interval_low_log": None if effect is None else effect - 0.02,
            "interval_high_log": None if effect is None else effect + 0.02,
            "launches": 0 if effect is None else 2 * PAIRS,
            "samples": 0 if effect is None else 2 * PAIRS * ITEMS_A_LAUNCH,
            "quality": None
            if effect is None
            else {
                "state": "held" if lost < 0.01 else "worse",
                "bits_per_byte_relative": {
                    "difference": lost,
                    "low": lost - 0.002,
                    "high": lost + 0.002,
                    "margin": 0.01,
                    "count": 32,
                },
            },
            "reason": story.reason(number),
            "judge": {
                "name": "launch-interval",
                "version": "5",
                "details": {"metric": "tpot_ms", "e_value": 21.0},
            },
            "preregistration_digest": "d" * 64,
            "created_at": story.at(number) + timedelta(minutes=5),
        }


def artifacts(story: Story) -> Iterator[Row]:
    for number in range(story.size.experiments // 20):
        yield {
            "digest": hashlib.sha256(f"artifact {number}".encode()).hexdigest(),
            "kind": "pruned-checkpoint",
            "inputs": {"layers_removed": number},
            "tool_versions": {"torch": "2.13.0"},
            "path": f"/artifacts/{number}",
            "bytes": 9_000_000,
            "build_s": 2.5,
            "created_at": story.at(number),
            "last_used_at": story.at(number),
        }


def artifact_uses(story: Story) -> Iterator[Row]:
    for number in range(story.size.experiments // 20):
        digest = hashlib.sha256(f"artifact {number}".encode()).hexdigest()
        yield {
            "experiment_id": 20 * number + 2 if 20 * number + 2 <= story.size.experiments else 1,
            "artifact_digest": digest,
        }


def jobs(story: Story) -> Iterator[Row]:
    for number in range(story.size.experiments):
        runs = number == story.size.experiments - 1
        yield {
            "id": number + 1,
            "kind": "test" if number else "baseline",
            "campaign_id": story.campaign_id,
            "experiment_id": number + 1,
            "spec": {"experiment_id": number + 1},
            "priority": 0.0,
            "seq": number + 1,
            "device_class": "cpu",
            "state": JobState.RUNNING if runs else JobState.DONE,
            "attempt": 1,
            "max_attempts": 3,
            "owner": "desk/cpu#1",
            "device": "desk/cpu",
            "lease_expires_at": story.at(number) + timedelta(days=3650) if runs else None,
            "cancel_requested": False,
            "created_at": story.at(number),
            "started_at": story.at(number),
            "finished_at": None if runs else story.at(number) + timedelta(minutes=5),
        }


def events(story: Story) -> Iterator[Row]:
    """Events in turn: what a test leaves, over and over, until there are as many as asked for."""
    kinds = (
        EventKind.HYPOTHESIS_PROPOSED,
        EventKind.HYPOTHESIS_PREREGISTERED,
        EventKind.EXPERIMENT_STARTED,
        EventKind.STAGE_STARTED,
        EventKind.STAGE_FINISHED,
        EventKind.EXPERIMENT_JUDGED,
        EventKind.QUEUE_RANKED,
    )
    count = story.size.events - story.first_event + 1
    for place in range(count):
        number = place * story.size.experiments // count
        kind = kinds[place % len(kinds)]
        if place == 0:
            kind = EventKind.CAMPAIGN_BASELINE
        noun = Noun.HYPOTHESIS if kind.value.startswith("hypothesis") else Noun.EXPERIMENT
        label = format_label(noun, max(1, number))
        yield {
            "id": story.first_event + place,
            "at": BEGAN + timedelta(seconds=420 * story.size.experiments * place / count),
            "campaign_id": story.campaign_id,
            "kind": kind.value,
            "subject": None if kind is EventKind.QUEUE_RANKED else label,
            "text": f"{label}: {kind.meaning}",
            "data": {"baseline": {"tpot_ms": BASELINE_MS, "ttft_ms": 80.0, "bits_per_byte": 1.04}}
            if place == 0
            else None,
        }
