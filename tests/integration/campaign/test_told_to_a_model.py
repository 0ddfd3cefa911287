"""What a language model is told of the baseline: the value of what the campaign is about, by its name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agent.campaign.asked_model.told_to_model import known
from agent.campaign.decision.desk import Desk
from agent.campaign.desk_reading import DeskReader
from agent.language_model.digest import Known
from agent.surrogate.lone_prompt import LonePrompt
from experiments.engines.port import PartTime
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import start

TPOT_MS, TTFT_MS, E2EL_MS, NEW_TOKENS = 10.0, 20.0, 91.0, 8
CLOSE = 1e-3
PROFILE = (PartTime("layers.0", "gdn", 8.0, 1_000), PartTime("lm_head", "lm_head", 2.0, 1_000))


def told(tmp_path: Path, metric: str, prompt: LonePrompt | None = None) -> Known:
    """What is told by a campaign about this metric, whose baseline's step was profiled, and a lone prompt,
    where it is given."""
    database, campaign_id = start(tmp_path, **{"plan.metric": metric})
    measure_baseline(database, campaign_id, TPOT_MS)
    reader = DeskReader(database, campaign_id)
    desk = reader.desk(reader.facts())
    measured = replace(desk.baseline, profile=PROFILE, lone_prompt=prompt)
    if metric == "e2el_ms":
        measured = replace(measured, own_ms={desk.baseline_configuration.digest: E2EL_MS})
    with database.read() as session:
        found = known(session, Desk(desk.facts, desk.legal, measured, ()), [])
    database.close()
    return found


def baseline(found: Known) -> Mapping[str, float]:
    return cast(Mapping[str, float], found.always["baseline"])


def test_a_campaign_about_tokens_tells_a_tokens_time_as_ever(tmp_path: Path) -> None:
    found = told(tmp_path, "tpot_ms")
    assert found.always["baseline_ms_a_token"] == pytest.approx(TPOT_MS, rel=CLOSE)
    assert "baseline" not in found.always, "the same question as before, which is not put again"
    assert [cast(Any, each)["part"] for each in found.lists["profile"]] == ["gdn", "lm_head"]


def test_a_campaign_about_first_tokens_tells_theirs_and_nothing_of_a_step(tmp_path: Path) -> None:
    found = told(tmp_path, "ttft_ms")
    assert baseline(found) == {"ttft_ms": pytest.approx(TTFT_MS, rel=CLOSE)}
    assert "baseline_ms_a_token" not in found.always
    assert not found.lists["profile"]


@pytest.mark.parametrize(("metric", "tells"), [("ttft_ms", True), ("e2el_ms", True), ("tpot_ms", False)])
def test_a_profiled_prompt_is_told_where_the_first_token_counts(
    tmp_path: Path, metric: str, *, tells: bool
) -> None:
    found = told(tmp_path, metric, LonePrompt(first_token_ms=70.8, outside_ms=57.2, products_ms=9.7))
    prompt = {"first_token_ms": 70.8, "no_kernel_runs_ms": 57.2, "products_ms": 9.7}
    assert cast(Any, found.always.get("baseline", {})).get("lone_prompt") == (prompt if tells else None)


def test_a_campaign_about_requests_tells_what_they_are_made_of(tmp_path: Path) -> None:
    found = told(tmp_path, "e2el_ms")
    share = 100 * TTFT_MS / (TTFT_MS + (NEW_TOKENS - 1) * TPOT_MS)
    assert baseline(found) == {
        "e2el_ms": E2EL_MS,
        "ttft_ms": pytest.approx(TTFT_MS, rel=CLOSE),
        "tpot_ms": pytest.approx(TPOT_MS, rel=CLOSE),
        "first_token_percent": pytest.approx(share, rel=CLOSE),
    }
    assert "baseline_ms_a_token" not in found.always
    assert found.always["profile_is_of"] == "a decode step; a request has one for each token after its first"
    assert found.lists["profile"]
