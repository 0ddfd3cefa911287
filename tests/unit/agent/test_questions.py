"""From questions to hypotheses: refused before the campaign begins, queued, or infeasible with the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import save_file
from sqlalchemy import select

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.decision.desk import Desk
from agent.campaign.decision.leaving import QUESTIONS
from agent.campaign.known.facts import Facts
from agent.campaign.known.measured import Baseline
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue.questions import check_questions, pose_questions
from agent.ground.legal import legal_here
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from configs.questions import FEWEST, KnobSetting, Question
from db.models import Hypothesis
from db.session import Database
from db.states import HypothesisState
from experiments.space.loading import load_space
from tests.new_database import new_database
from tests.simulated.campaign import write_whole_checkpoint

Knobs = Mapping[str, KnobSetting]
AWQ: Knobs = {"quantization.method": "awq", "quantization.group_size": 128}
DFLASH: Knobs = {"drafting.method": "dflash", "drafting.drafter": "packaged"}
BANDWIDTH = 1e10


def question(name: str, candidate: Knobs, control: Knobs | None = None, metric: str = "nll_bits") -> Question:
    return Question.model_validate(
        {
            "id": name,
            "asks": "What does it do?",
            "claim": "It is better.",
            "control": dict(control or {}),
            "candidate": dict(candidate),
            "metric": metric,
            "min_effect": 0.01,
            "why": "Nobody knows.",
        }
    )


def asking(*questions: Question, model: str = "reference", budget: object = None) -> CampaignSpec:
    spec = load_campaign("default", {"space": "levers", "model": model, "parameter_budget": budget})
    return spec.model_copy(update={"questions": questions})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = new_database(tmp_path)
    yield found
    found.close()


def desk_of(facts: Facts) -> Desk:
    """The desk of a campaign whose baseline is the engine's own default."""
    legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
    baseline = legal.space.configuration({})
    measured = Baseline({baseline.digest: 8.0}, {baseline.digest: 40.0}, (), 1.0, BANDWIDTH)
    return Desk(replace(facts, baseline=baseline), legal, measured, ())


def posed(database: Database, spec: CampaignSpec) -> dict[str, Hypothesis]:
    """The hypotheses that the questions became, by question."""
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
        pose_questions(session, desk_of(read_facts(session, campaign_id)))
    with database.read() as session:
        rows = session.scalars(select(Hypothesis)).all()
        session.expunge_all()
    return {row.question or "": row for row in rows}


def plain_checkpoint(folder: Path, **changes: object) -> str:
    """A whole checkpoint of the right type that is not the packaged one, without an MTP head."""
    folder.mkdir()
    write_whole_checkpoint(folder, **changes)
    return str(folder)


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        ({"quantization.group": 32}, "There is no knob 'quantization.group'"),
        ({**AWQ, "quantization.group_size": "32"}, 'quantization.group_size cannot be "32"'),
        ({**AWQ, "quantization.group_size": 32.0}, "quantization.group_size cannot be 32.0"),
        ({**AWQ, "quantization.symmetric": 1}, "quantization.symmetric cannot be 1"),
        ({**AWQ, "quantization.corpus": 3}, "quantization.corpus cannot be 3"),
        ({"quantization.group_size": 32}, "only means something when quantization.method is awq or rtn"),
    ],
)
def test_an_unknown_knob_a_value_of_another_type_and_a_knob_that_means_nothing_are_refused_at_once(
    candidate: Knobs, said: str
) -> None:
    spec = asking(question("fine", AWQ), question("wrong", candidate))
    with pytest.raises(UsageError) as caught:
        check_questions(spec, load_space("levers"), "The file mine.yaml")
    assert caught.value.message.startswith(
        "The file mine.yaml: questions.1.candidate of the question wrong: "
    )
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("candidate", "cause"),
    [
        (
            {**AWQ, "quantization.group_size": 96},
            "quantization.group_size cannot be 96. It can be 32, 64 or 128.",
        ),
        (
            {"pruning.method": "depth", "pruning.layers_removed": 12},
            "pruning.layers_removed cannot be 12. It can be 1, 2, 3, 4, 5, 6, 7 or 8.",
        ),
        (
            {**AWQ, "quantization.corpus": "internet"},
            "quantization.corpus cannot be internet. It can be raw, ",
        ),
        ({"quantization.method": "gptq", "quantization.bits": 4}, "quantization.method cannot be gptq. "),
        ({"drafting.method": "mtp", "drafting.draft_tokens": 0}, "drafting.draft_tokens cannot be 0. "),
    ],
)
@pytest.mark.parametrize("arm", ["candidate", "control"])
def test_a_value_outside_the_space_makes_its_question_infeasible_and_leaves_the_others(
    database: Database, candidate: Knobs, cause: str, arm: str
) -> None:
    outside = question("out", candidate) if arm == "candidate" else question("out", AWQ, candidate)
    rows = posed(database, asking(outside, question("bits", AWQ)))
    assert rows["out"].state is HypothesisState.INFEASIBLE
    assert (rows["out"].state_reason or "").startswith(cause)
    assert rows["bits"].state is HypothesisState.QUEUED


def test_questions_are_queued_with_their_own_arms_metric_and_least_effect(database: Database) -> None:
    finer = {**AWQ, "quantization.group_size": 32}
    rows = posed(
        database,
        asking(
            question("bits", finer, AWQ, "nll_bits"),
            question("items", finer, AWQ, "task_correct"),
            question("time", {"drafting.method": "mtp"}, metric="tpot_ms"),
        ),
    )
    assert {row.proposer for row in rows.values()} == {QUESTIONS}
    assert {row.state for row in rows.values()} == {HypothesisState.QUEUED}
    assert [(name, row.metric, row.min_effect) for name, row in rows.items()] == [
        ("bits", "nll_bits", 0.01),
        ("items", "task_correct", 0.01),
        ("time", "tpot_ms", 0.01),
    ]
    assert rows["bits"].candidate_configuration_id == rows["items"].candidate_configuration_id
    assert rows["bits"].change["changes"] == [{"knob": "quantization.group_size", "before": 128, "after": 32}]
    assert "in bits" in rows["bits"].refuted_if
    assert rows["items"].refuted_if.endswith("lies below 1 point.")


def test_questions_are_posed_once(database: Database) -> None:
    spec = asking(question("bits", AWQ))
    posed(database, spec)
    with database.write() as session:
        pose_questions(session, desk_of(read_facts(session, 1)))
    with database.read() as session:
        facts = read_facts(session, 1)
    assert facts.asked == (("bits", HypothesisState.QUEUED),)
    assert facts.open_questions == ("bits",)
    assert facts.unasked == ()


def test_a_model_without_an_mtp_head_makes_its_questions_infeasible(
    database: Database, tmp_path: Path
) -> None:
    model = plain_checkpoint(tmp_path / "model")
    mtp = {"drafting.method": "mtp"}
    rows = posed(
        database, asking(question("as_candidate", mtp), question("as_control", AWQ, mtp), model=model)
    )
    assert {row.state for row in rows.values()} == {HypothesisState.INFEASIBLE}
    assert rows["as_candidate"].state_reason == "This checkpoint has no MTP head."
    assert rows["as_control"].state_reason == "This checkpoint has no MTP head."


def test_a_model_without_a_drafter_makes_its_question_infeasible(database: Database, tmp_path: Path) -> None:
    rows = posed(database, asking(question("drafter", DFLASH), model=plain_checkpoint(tmp_path / "model")))
    assert rows["drafter"].state is HypothesisState.INFEASIBLE
    assert "No drafter is packaged" in (rows["drafter"].state_reason or "")


def test_a_group_size_that_does_not_divide_makes_its_question_infeasible(
    database: Database, tmp_path: Path
) -> None:
    model = plain_checkpoint(tmp_path / "model", intermediate_size=96)
    rows = posed(database, asking(question("coarse", {**AWQ, "quantization.group_size": 128}), model=model))
    assert rows["coarse"].state is HypothesisState.INFEASIBLE
    assert rows["coarse"].state_reason == "Groups of 128 do not divide the 96 inputs of mlp.down_proj."


def test_arms_that_are_the_same_on_this_baseline_say_nothing(database: Database) -> None:
    rows = posed(database, asking(question("same", {"serving.compile": "off"})))
    assert rows["same"].state is HypothesisState.INFEASIBLE
    assert rows["same"].state_reason == "Both arms are the same on this baseline."


def test_an_infeasible_question_is_not_open(database: Database, tmp_path: Path) -> None:
    spec = asking(
        question("mtp", {"drafting.method": "mtp"}), question("bits", AWQ),
        model=plain_checkpoint(tmp_path / "model"),
    )  # fmt: skip
    posed(database, spec)
    with database.read() as session:
        assert read_facts(session, 1).open_questions == ("bits",)


def drafter_folder(folder: Path, parameters: int) -> str:
    import numpy as np

    folder.mkdir()
    save_file({"fc.weight": np.zeros(parameters, dtype=np.float16)}, folder / "model.safetensors")
    return str(folder)


def test_under_a_parameter_budget_fewest_takes_the_layers_that_pay(
    database: Database, tmp_path: Path
) -> None:
    profile_layers = legal_here(asking(), survey(asking()).checkpoint, 2)
    assert profile_layers.refused(profile_layers.space.configuration({})) is None
    drafter = {"drafting.method": "dflash", "drafting.drafter": drafter_folder(tmp_path / "drafter", 400_000)}
    paid = {**drafter, "pruning.method": "depth", "pruning.layers_removed": FEWEST}
    rows = posed(
        database,
        asking(
            question("unpaid", drafter, metric="tpot_ms"),
            question("paid", paid, metric="tpot_ms"),
            budget="baseline",
        ),
    )
    assert rows["unpaid"].state is HypothesisState.INFEASIBLE
    assert "must be pruned" in (rows["unpaid"].state_reason or "")
    assert rows["paid"].state is HypothesisState.QUEUED
    removed = {change["knob"]: change["after"] for change in rows["paid"].change["changes"]}
    assert removed["pruning.layers_removed"] == 2


def test_a_budget_that_nothing_pays_for_is_an_infeasible_question(database: Database, tmp_path: Path) -> None:
    huge = {
        "drafting.method": "dflash",
        "drafting.drafter": drafter_folder(tmp_path / "drafter", 5_000_000),
        "pruning.method": "depth",
        "pruning.layers_removed": FEWEST,
    }
    rows = posed(database, asking(question("huge", huge, metric="tpot_ms"), budget="baseline"))
    assert rows["huge"].state is HypothesisState.INFEASIBLE
    assert "must be pruned" in (rows["huge"].state_reason or "")


def test_a_budget_below_the_smallest_target_is_refused_before_the_campaign() -> None:
    with pytest.raises(UsageError, match=r"A parameter budget of 1,000 is below"):
        survey(asking(budget=1000))
