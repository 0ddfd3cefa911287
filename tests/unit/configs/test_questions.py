"""The questions of a campaign's file: what is accepted, and how a fault is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from configs.campaign import load_campaign
from configs.catalog import Kind, read_document
from configs.errors import UsageError
from configs.questions import JudgedMetric, LatencyMetric, is_latency
from experiments.measurement.evidence import Metric

GOOD: dict[str, Any] = {
    "id": "threads",
    "asks": "Are two threads better than one?",
    "claim": "Two threads make a token at least 3 % faster than one.",
    "control": {"serving.threads": 1},
    "candidate": {"serving.threads": 2},
    "metric": "tpot_ms",
    "min_effect": "3%",
    "why": "Dispatch may be all there is.",
}


def campaign_file(folder: Path, *questions: dict[str, Any], **more: object) -> Path:
    data = read_document(Kind.CAMPAIGNS, "default").data
    assert isinstance(data, dict)
    path = folder / "asks.yaml"
    path.write_text(yaml.safe_dump({**data, "name": "asks", "questions": list(questions), **more}))
    return path


def test_a_question_is_read_as_it_is_written(tmp_path: Path) -> None:
    (question,) = load_campaign(campaign_file(tmp_path, GOOD)).questions
    assert question.control == {"serving.threads": 1}
    assert question.min_effect == 0.03
    assert load_campaign("default").questions == ()


def test_the_default_control_is_the_baseline(tmp_path: Path) -> None:
    without = {name: value for name, value in GOOD.items() if name != "control"}
    assert load_campaign(campaign_file(tmp_path, without)).questions[0].control == {}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"metric": "speed"}, "questions.0.metric is 'speed': Input should be 'tpot_ms'"),
        ({"metric": "kl_nats"}, "questions.0.metric is 'kl_nats'"),
        ({"min_effect": "0.03"}, "questions.0.min_effect is '0.03': '0.03' is not a percentage"),
        ({"min_effect": "0%"}, "questions.0.min_effect"),
        ({"id": "two words"}, "questions.0.id is 'two words'"),
        ({"asks": ""}, "questions.0.asks is ''"),
        ({"candidate": {"serving.threads": 1}}, "control and candidate of the question threads are the same"),
        ({"candidate": {"serving.threads": [1, 2]}}, "questions.0.candidate.serving.threads"),
        ({"because": "so"}, "there is no field questions.0.because"),
        ({"role": "key"}, "questions.0.role is 'key': Input should be 'decides', 'adds' or 'noise'"),
        ({"role": "noise", "if_refuted": "it is noise"}, "the question threads decides nothing"),
    ],
)
def test_a_wrong_field_of_a_question_is_named_with_the_file(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_campaign(campaign_file(tmp_path, {**GOOD, **changed}))
    assert "asks.yaml" in caught.value.message
    assert said in caught.value.message


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    without = {name: value for name, value in GOOD.items() if name != "claim"}
    with pytest.raises(UsageError, match=r"the field questions\.0\.claim is missing"):
        load_campaign(campaign_file(tmp_path, without))


def test_a_question_that_stands_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"questions: the question threads stands twice"):
        load_campaign(campaign_file(tmp_path, GOOD, {**GOOD, "metric": "ttft_ms"}))


@pytest.mark.parametrize("budget", ["half", 0, -3, 1.5])
def test_a_parameter_budget_is_the_baselines_or_a_number(tmp_path: Path, budget: object) -> None:
    with pytest.raises(UsageError, match="parameter_budget"):
        load_campaign(campaign_file(tmp_path, parameter_budget=budget))
    assert load_campaign(campaign_file(tmp_path, parameter_budget="baseline")).parameter_budget == "baseline"
    assert load_campaign(campaign_file(tmp_path, parameter_budget=4_000_000)).parameter_budget == 4_000_000


def test_every_metric_of_a_question_is_one_that_is_measured() -> None:
    assert set(get_args(JudgedMetric)) <= {metric.value for metric in Metric}
    assert {metric for metric in get_args(JudgedMetric) if is_latency(metric)} == set(get_args(LatencyMetric))
