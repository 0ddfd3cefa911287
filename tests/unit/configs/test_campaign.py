from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from agent.judge.drafting import FEWEST_PROMPTS
from agent.judge.noninferiority import MIN_DOCUMENTS
from configs.campaign import (
    FEWEST_DOCUMENTS,
    FEWEST_DRAFTING_PROMPTS,
    BaselineSpec,
    CampaignSpec,
    load_campaign,
)
from configs.campaign_plan import MarginsSpec, PlanSpec, WorkloadSpec
from configs.catalog import Kind, packaged_names, read_document
from configs.errors import UsageError
from configs.questions import LatencyMetric
from experiments.job.spec import BaselineJob
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Margins, Prediction, StoppingPlan, Workload
from experiments.space.loading import load_space


@pytest.mark.parametrize("name", packaged_names(Kind.CAMPAIGNS))
def test_every_packaged_campaign_is_sound(name: str) -> None:
    spec = load_campaign(name)
    assert spec.name == name
    space = load_space(spec.space)
    assert len(space.crossing(space.configuration({}), spec.baseline.sweep)) > 1


def test_the_default_campaign_has_the_promised_limits() -> None:
    spec = load_campaign("default")
    assert (spec.model, spec.target, spec.space, spec.seed) == ("reference", "cpu", "reference", 7)
    assert spec.budget.wall_s < 10 * 60
    assert (spec.plan.metric, spec.plan.workload.concurrency) == ("tpot_ms", 1)
    assert (spec.plan.min_effect, spec.plan.alpha) == (0.03, 0.05)
    assert (spec.plan.margins.bits_per_byte, spec.plan.margins.task_points) == (0.01, 2.0)
    assert spec.proposers == ("rules", "optuna")


@pytest.mark.parametrize(
    ("ours", "theirs", "theirs_alone"),
    [
        (WorkloadSpec, Workload, set()),
        (MarginsSpec, Margins, set()),
        (PlanSpec, StoppingPlan, {"prediction", "support_alpha", "latency_only"}),
    ],
)
def test_the_plan_has_the_fields_of_the_stopping_plan(
    ours: type[BaseModel], theirs: type[BaseModel], theirs_alone: set[str]
) -> None:
    assert set(theirs.model_fields) - set(ours.model_fields) == theirs_alone
    assert set(ours.model_fields) <= set(theirs.model_fields)


def test_the_default_plan_is_the_default_stopping_plan() -> None:
    prediction = Prediction(log_ratio_mean=-0.1, log_ratio_sd=0.1)
    planned = StoppingPlan(prediction=prediction, **load_campaign("default").plan.model_dump())
    assert planned.margins.kl_nats == 1.0, "a plan that was stored without this margin has none"
    margins = planned.margins.model_copy(update={"kl_nats": None})
    assert planned.model_copy(update={"margins": margins}) == StoppingPlan(prediction=prediction)


def test_fewer_prompts_than_a_check_of_drafting_needs_are_refused_at_load(tmp_path: Path) -> None:
    """With fewer, no test whose arms draft could ever be supported."""
    assert FEWEST_DRAFTING_PROMPTS == FEWEST_PROMPTS
    name = "plan.workload.drafting_prompts"
    assert load_campaign("default", {name: FEWEST_PROMPTS}).plan.workload.drafting_prompts == FEWEST_PROMPTS
    said = "at least 4 prompts of each class of content"
    with pytest.raises(UsageError, match=said) as given:
        load_campaign("default", {name: 3})
    assert given.value.message.startswith(f"{name} 3: ")
    document = read_document(Kind.CAMPAIGNS, "default").data
    assert isinstance(document, dict)
    document["plan"]["workload"]["drafting_prompts"] = 1
    (tmp_path / "mine.yaml").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=said):
        load_campaign(tmp_path / "mine.yaml")


def test_fewer_documents_than_quality_is_judged_by_are_refused_at_load() -> None:
    """A campaign of seven minutes with four of them could support nothing, and said so of each test alone."""
    assert FEWEST_DOCUMENTS == MIN_DOCUMENTS
    name = "plan.workload.evaluation_documents"
    with pytest.raises(UsageError, match="at least 8 held-out documents") as given:
        load_campaign("default", {name: 7})
    assert given.value.message.startswith(f"{name} 7: ")
    assert load_campaign("default", {name: 8}).plan.workload.evaluation_documents == 8
    made_up = load_campaign("shape", {name: 7})
    assert made_up.latency_only, "what is never asked of made-up weights may be left as few"


def test_the_baselines_length_is_that_of_the_baseline_job() -> None:
    shared = set(BaselineSpec.model_fields) - {"sweep", "start", "time_kernels"}  # from where, over what
    assert shared <= set(BaselineJob.model_fields)
    baseline = load_campaign("default").baseline
    assert {name: getattr(baseline, name) for name in shared} == {
        name: BaselineJob.model_fields[name].default for name in shared
    }


def test_every_metric_of_a_campaign_is_one_that_is_measured() -> None:
    assert set(get_args(LatencyMetric)) <= {metric.value for metric in Metric}


def test_overrides_are_written_as_a_user_writes_them() -> None:
    plan = {"plan.min_effect": "2%", "plan.margins.task_points": 1}
    spec = load_campaign("default", {"budget": "30m", "seed": "11", "target": None, **plan})
    assert (spec.budget.wall_s, spec.seed, spec.plan.min_effect) == (1800, 11, 0.02)
    assert (spec.plan.margins.task_points, spec.target) == (1, "cpu")
    assert load_campaign("default").budget.wall_s == 580


def test_a_file_may_say_only_in_what_it_differs_from_a_packaged_campaign(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "like: levers\nname: mine\nbudget: 8h\nquestions: []\nplan: {workload: {new_tokens: 64}}\n"
    )
    other, spec = load_campaign("levers"), load_campaign(file)
    workload = other.plan.workload.model_copy(update={"new_tokens": 64})
    assert spec == other.model_copy(
        update={
            "name": "mine",
            "budget": spec.budget,
            "questions": (),
            "plan": other.plan.model_copy(update={"workload": workload}),
        }
    )
    assert spec.budget.wall_s == 8 * 3600
    assert load_campaign(file, {"seed": 4}).seed == 4


@pytest.mark.parametrize("like", ["shape", "levers"])
@pytest.mark.parametrize("metric", ["tpot_ms", "itl_ms", "ttft_ms", "e2el_ms"])
def test_a_file_about_first_tokens_begins_from_no_less_than_a_plain_server_captures(
    tmp_path: Path, like: str, metric: str
) -> None:
    file = tmp_path / "mine.yaml"
    text = f"like: {like}\nname: mine\ntarget: cuda:0\nplan: {{metric: {metric}}}\n"
    prefill = {"serving.gdn_prefill_backend": ("auto", "triton")}
    graphs = {"serving.max_graph_tokens": ("auto", 512)} if metric in ("ttft_ms", "e2el_ms") else {}
    file.write_text(text)
    assert load_campaign(file).baseline.sweep == {**prefill, **graphs}
    file.write_text(f"{text}baseline: {{sweep: []}}\n")
    assert load_campaign(file).baseline.sweep == (), "the file's own word holds"


def test_the_objective_brings_its_sweep_without_a_target_too_and_none_to_a_processor(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("like: shape\nname: mine\nplan: {metric: ttft_ms}\n")
    sweep = load_campaign(file).baseline.sweep
    assert isinstance(sweep, dict)
    assert sweep["serving.max_graph_tokens"] == ("auto", 512)
    file.write_text("like: shape\nname: mine\n")
    assert load_campaign(file, {"plan.metric": "e2el_ms"}).baseline.sweep == sweep
    file.write_text("like: shape\nname: mine\nspace: levers\nplan: {metric: ttft_ms}\n")
    assert "serving.max_graph_tokens" not in load_campaign(file).baseline.sweep, "which may have no such knob"
    for more in ("", "engine: vllm\n"):
        file.write_text(f"like: default\nname: mine\n{more}plan: {{metric: ttft_ms}}\n")
        assert "serving.max_graph_tokens" not in load_campaign(file).baseline.sweep


def test_what_goes_with_an_engine_is_taken_with_it_where_the_file_gives_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("like: default\nname: mine\ntarget: cuda:0\n")
    spec = load_campaign(file)
    assert (spec.target, spec.engine, spec.space) == ("cuda:0", "vllm", "vllm")
    assert spec.baseline.sweep == {"serving.gdn_prefill_backend": ("auto", "triton")}
    assert spec.baseline.sweep_blocks == load_campaign("default").baseline.sweep_blocks
    file.write_text("like: default\nname: mine\nengine: vllm\nspace: levers\nbaseline: {sweep: []}\n")
    spec = load_campaign(file)
    assert (spec.target, spec.engine, spec.space, spec.baseline.sweep) == ("cpu", "vllm", "levers", ())
    sweep = "{serving.dtype: [bfloat16, float16]}"
    file.write_text(f"like: default\nname: mine\ntarget: cuda:0\nbaseline: {{sweep: {sweep}}}\n")
    assert load_campaign(file).baseline.sweep == {"serving.dtype": ("bfloat16", "float16")}
    file.write_text(f"like: shape\nname: mine\nbaseline: {{sweep: {sweep}}}\n")
    assert load_campaign(file).baseline.sweep == {"serving.dtype": ("bfloat16", "float16")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("like: lever\nname: mine\n", "like is 'lever', which is no packaged campaign. Did you mean levers?"),
        ("like: 7\nname: mine\n", "like is 7, which is no packaged campaign. Those packaged are controls, "),
        ("like: levers\n", "the field name is missing"),
        ("like: levers\nname: mine\nbudgt: 3h\n", "budgt"),
        ("like: levers\nname: mine\ntarget: gpu7\n", "gpu7"),
        ("like: levers\nname: mine\ntarget: 7\n", "target is 7"),
    ],
)
def test_a_file_that_is_like_another_and_wrong_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError) as refused:
        load_campaign(tmp_path / "mine.yaml")
    assert said in str(refused.value)


def test_a_stored_campaign_reads_back() -> None:
    spec = load_campaign("default", {"budget": "1h30m"})
    assert CampaignSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_campaign_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_campaign("default").seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"budget": "30"}, "--budget 30: '30' is not a duration. Write a number and s, m, h or d"),
        ({"budget": "0s"}, "'0s' is not a duration"),
        ({"budget": 0}, "--budget 0: that is no time to spend. Write one such as 90s"),
        ({"approve_above": -5}, "--approve-above -5: that is no time to spend. Write one such as 90s"),
        ({"budget": True}, "--budget True: a time is wanted"),
        ({"budget": []}, "budget: a time is wanted"),
        ({"plan.min_effect": "0.03"}, "'0.03' is not a percentage"),
        ({"plan.min_effect": "150%"}, "--min-effect 150%: it must be below 100%."),
        ({"plan.min_efect": "3%"}, "no field 'plan.min_efect'. Did you mean min_effect?"),
        ({"budgt": "3m"}, "no field 'budgt'. Did you mean budget"),
        ({"seed.value": 3}, "no field 'seed.value'"),
        (
            {"seed": -1},
            "--seed -1: it must be at least 0. Give --seed another value.",
        ),
        (
            {"budget": "5m", "seed": 2**63},
            f"--seed {2**63}: it must be below {2**63}.",
        ),
        ({"plan.workload.concurrency": 0}, "--concurrency 0: it must be at least 1."),
        ({"plan.workload.prompt_tokens": 0}, "--prompt-tokens 0: it must be at least 1."),
        (
            {"plan.workload.prompt_tokens": 64, "plan.workload.new_tokens": 1},
            "--new-tokens 1: it must be at least 2. Give --new-tokens another value.",
        ),
        (
            {"weights": "dummy", "drafter": "./mine"},
            "so a drafter has no use there. Leave --drafter out, or what it does not go with.",
        ),
        ({"proposers": ["rules", "rules"]}, "a proposer stands twice"),
        ({"proposers": []}, "proposers"),
        ({"plan.metric": "speed"}, "plan.metric speed: "),
        ({"plan.alpha": float("nan")}, "plan.alpha nan: "),
    ],
)
def test_a_wrong_field_is_named_with_its_value(overrides: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_campaign("default", overrides)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("budget: 0", "budget is 0: that is no time to spend. Write one such as 90s"),
        ("budget: '0'", "budget is '0': '0' is not a duration. Write a number and s, m, h or d"),
        ("approve_above: 0s", "approve_above is '0s': "),
        ("budget: {wall_s: 0}", "budget.wall_s is 0: "),
        ("budget: {}", "the field budget.wall_s is missing"),
        ("budget: []", "budget: a time is wanted, such as 90s"),
        ("budget:", "budget is None: it has fields of its own"),
        ("plan: 3", "plan is 3: it has fields of its own"),
        ("plan: {min_effect: '200%'}", "plan.min_effect is '200%': it must be below 100%."),
        ("proposers: rules", "proposers is 'rules': it must be a list."),
        ("baseline: {sweep: {serving.dtype: 1}}", "baseline.sweep"),
    ],
)
def test_a_file_is_refused_by_the_fields_that_stand_in_it(tmp_path: Path, line: str, said: str) -> None:
    """None by a field that a short form stands for, by a kind of value or by a class."""
    (tmp_path / "mine.yaml").write_text(f"like: levers\nname: mine\n{line}\n")
    with pytest.raises(UsageError) as refused:
        load_campaign(tmp_path / "mine.yaml")
    assert f"mine.yaml: {said}" in refused.value.message
    assert "Spec" not in refused.value.message
    assert "dict[" not in refused.value.message


def test_a_campaign_of_ones_own_is_read_from_a_path(tmp_path: Path) -> None:
    data = read_document(Kind.CAMPAIGNS, "default").data
    assert isinstance(data, dict)
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({**data, "name": "mine", "budget": "2h"}), encoding="utf-8")
    assert load_campaign(path).budget.wall_s == 7200
    path.write_text(json.dumps({**data, "bugdet": "2h"}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"mine\.yaml: there is no field bugdet\. Did you mean budget"):
        load_campaign(path)
    with pytest.raises(UsageError, match=r"There is no campaign 'defualt'\. Did you mean default\?"):
        load_campaign("defualt")
