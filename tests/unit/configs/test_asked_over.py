"""How an engine is asked: what nobody says, what a file says, what is stored without it."""

from pathlib import Path

import pytest

from configs.asked_over import HTTP, IN_ENGINE, asked_over_words
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from experiments.engines.port import Engine
from experiments.engines.reference.engine import ReferenceEngine
from experiments.engines.vllm.engine import VllmEngine
from experiments.job.named import asked_in_the_way, engine_for
from experiments.measurement.noise import noise_key
from experiments.measurement.plan import Prediction, StoppingPlan, Workload
from experiments.space.configuration import Configuration
from knowledge.scope import Scope, workload_words

WAY = "plan.workload.asked_over"


def test_vllm_is_asked_over_http_where_nobody_says_and_the_reference_engine_never() -> None:
    assert load_campaign("shape").plan.workload.asked_over == HTTP
    assert load_campaign("default").plan.workload.asked_over == IN_ENGINE
    on_a_gpu = load_campaign("default", {"engine": "vllm", "space": "vllm", "baseline.sweep": []})
    assert on_a_gpu.plan.workload.asked_over == HTTP


def test_a_file_and_an_option_say_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("like: shape\nname: own\nplan: {workload: {asked_over: engine}}\n", encoding="utf-8")
    assert load_campaign(file).plan.workload.asked_over == IN_ENGINE
    assert load_campaign("shape", {WAY: IN_ENGINE}).plan.workload.asked_over == IN_ENGINE
    with pytest.raises(UsageError, match="asked_over"):
        load_campaign("shape", {WAY: "telephone"})


def test_a_stored_campaign_that_does_not_say_was_asked_in_the_engine() -> None:
    stored = load_campaign("shape").model_dump(mode="json")
    del stored["plan"]["workload"]["asked_over"]
    assert CampaignSpec.model_validate(stored).plan.workload.asked_over == IN_ENGINE


def test_the_plan_s_hash_tells_the_ways_apart_and_stays_what_it_was_in_the_engine() -> None:
    nothing = Prediction(log_ratio_mean=0.0, log_ratio_sd=1.0)
    in_engine, over_http = (
        StoppingPlan(prediction=nothing, workload=Workload(asked_over=way)).digest("a", "b")
        for way in (IN_ENGINE, HTTP)
    )
    assert in_engine == StoppingPlan(prediction=nothing).digest("a", "b")
    assert in_engine == "edaebc726f9742be976164e2256f44bd8b7df853e10443cc89fe7e805cc2f7d0"
    assert over_http != in_engine


def test_noise_and_findings_of_the_two_ways_are_of_two_kinds() -> None:
    assert noise_key("cuda:H200", in_turn=False) == "cuda:H200"
    assert noise_key("cuda:H200", in_turn=True, asked_over=HTTP) == "cuda:H200, in turn, over HTTP"
    old, in_engine, over_http = (
        Scope.of(
            model="m",
            model_fingerprint="f",
            target="t",
            engine="vllm",
            versions={},
            workload={"concurrency": 1, **more},
            control=Configuration.of({}),
        )
        for more in ({}, {"asked_over": IN_ENGINE}, {"asked_over": HTTP})
    )
    assert old.lineage_digest == in_engine.lineage_digest != over_http.lineage_digest
    assert over_http.sentence().endswith("concurrency 1, over HTTP")
    assert workload_words(dict(in_engine.workload)) == "concurrency 1"


def test_an_engine_without_a_server_refuses_http_and_one_with_it_loads_a_tokenizer() -> None:
    reference: Engine = ReferenceEngine()
    with pytest.raises(UsageError, match="has no HTTP server") as refused:
        engine_for(reference, None, Workload(asked_over=HTTP))
    assert "asked_over: engine" in str(refused.value.hint)
    assert asked_in_the_way(reference, IN_ENGINE) is reference
    assert asked_over_words(None) == asked_over_words(IN_ENGINE) != asked_over_words(HTTP)
    assert VllmEngine().serves_http
