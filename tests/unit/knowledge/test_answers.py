"""The page of answers: every number from the database, every question accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select, update

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.outcome import campaign_outcome
from db.models import Campaign, Launch, Measurement, Verdict
from db.samples import Sample, insert_samples
from db.states import Arm, HypothesisState, VerdictOutcome
from experiments.space.configuration import KnobValue
from knowledge.queries.answered.answers import campaign_answers
from knowledge.queries.answered.answers_view import AnswersView
from knowledge.queries.facts import campaign_facts
from knowledge.queries.lookup import asking_campaign
from knowledge.queries.measured.drafting import drafting_of
from knowledge.telling.answers import answers_markdown
from knowledge.telling.answers_sentence import instead_of
from knowledge.telling.summary import summarize
from tests.history.asking_history import CARRIES, LOSES, AskingHistory, an_asking_history
from tests.history.campaign_history import History
from tests.unit.knowledge.contrasts import another_draw


def view_of(asking: AskingHistory) -> AnswersView:
    with asking.database.read() as session:
        return campaign_answers(session, asking.campaign_id)


def test_contrasts_are_grouped_by_what_they_ask_in_the_order_of_the_file(asking: AskingHistory) -> None:
    view = view_of(asking)
    assert [answer.asks for answer in view.answers] == [LOSES, CARRIES, "Does drafting pay?"]
    assert [each.id for each in view.contrasts] == ["g32_bits", "g32_items", "ranked", "mtp"]
    assert [each.state for each in view.contrasts] == [
        HypothesisState.SUPPORTED,
        HypothesisState.REFUTED,
        HypothesisState.INCONCLUSIVE,
        HypothesisState.INFEASIBLE,
    ]


def test_a_contrast_has_what_was_found_of_both_arms(asking: AskingHistory) -> None:
    bits, items, *_ = view_of(asking).contrasts
    assert bits.control.knobs["quantization.group_size"] == 128
    assert "serving.threads" not in bits.control.knobs  # it is the baseline's
    assert (bits.control.bits_per_weight, bits.candidate.bits_per_weight) == (4.156, 4.625)
    assert (bits.control.value, bits.candidate.value) == (1.01, 1.0)
    assert (items.control.value, items.candidate.value) == (0.5, 1.0)
    assert bits.reproductions == (("E-0002", VerdictOutcome.SUPPORTED),)
    assert bits.experiment == "E-0001"


def test_the_page_tells_effects_in_the_metrics_own_scale(asking: AskingHistory) -> None:
    page = answers_markdown(view_of(asking))
    assert "| supported | −3.0 % [−3.9, −2.0] | not known | 2 launches, 1 document | E-0001 |" in page
    assert "| refuted | +1.3 points [−0.4, +2.9] | not known |" in page


def test_the_page_says_which_campaign_and_model_it_was_made_of(asking: AskingHistory) -> None:
    view = view_of(asking)
    assert view.started_at is not None
    page = answers_markdown(view)
    line = page.split("\n\n")[1]
    assert line.startswith("Written by `autoinfer answers C-1` from its database")
    assert f"campaign `default`, begun {view.started_at:%Y-%m-%d %H:%M:%S} UTC, seed {view.seed}, " in line
    assert f"model `reference` with the fingerprint `{'f' * 64}`" in line


def test_each_question_opens_with_its_answer(asking: AskingHistory) -> None:
    page = answers_markdown(view_of(asking))
    answer = page.split(f"## 1. {LOSES}\n\n")[1].split("\n")[0]
    assert answer.startswith("**Answer.** With these calibration samples: ")
    assert "“g32_bits is better” is supported (`g32_bits`: −3.0 % [−3.9, −2.0], while no other draw" in answer
    assert "“g32_items is better” is refuted (`g32_items`: +1.3 points [−0.4, +2.9], while" in answer
    assert page.split(f"## 2. {CARRIES}\n\n")[1].startswith("**Open:** “ranked is better” (")


def test_a_confounded_contrast_waits_for_what_makes_its_claim_anew_and_is_answered_by_it(
    tmp_path: Path,
) -> None:
    asking = AskingHistory(tmp_path)
    try:
        first = asking.ask(0)
        confounded, _ = asking.judge(first, VerdictOutcome.CONFOUNDED, (-0.03, -0.04, -0.02))
        threads: dict[str, KnobValue] = {"serving.threads": 2}
        other = asking.anew(first, confounded, threads)
        assert "g32_bits" in open_questions(asking)
        waiting = view_of(asking).contrasts[0]
        assert (waiting.outcome, waiting.experiment) == (VerdictOutcome.CONFOUNDED, "E-0001")
        page = answers_markdown(view_of(asking))
        assert (
            "- `g32_bits` (confounded): The interval says so. H-002, which makes the claim anew, has no "
            "verdict: it waits in the queue." in page
        )
        asking.judge(other, VerdictOutcome.SUPPORTED, (-0.02, -0.03, -0.01))
        assert "g32_bits" not in open_questions(asking)
        answered = view_of(asking).contrasts[0]
        assert (answered.outcome, answered.experiment) == (VerdictOutcome.SUPPORTED, "E-0002")
        page = answers_markdown(view_of(asking))
        assert "is supported, with serving.threads at 2 in both arms (`g32_bits`: −2.0 % [" in page
        assert "| E-0002 for E-0001 |" in page
        told = "for E-0001, which was confounded; with serving.threads at 2 in both arms"
        assert instead_of(answered) == told
        assert instead_of(waiting) == ""
        assert (
            "- This is of H-002, which makes the claim anew, with serving.threads at 2 in both arms. As it "
            "was asked (H-001, E-0001) it was confounded: The interval says so." in page
        )
        second = asking.ask(1)
        confounded, _ = asking.judge(second, VerdictOutcome.CONFOUNDED, None)
        asking.judge(asking.anew(second, confounded, threads), VerdictOutcome.CONFOUNDED, None)
        items = view_of(asking).contrasts[1]
        assert (items.experiment, items.outcome) == ("E-0003", VerdictOutcome.CONFOUNDED)
        assert (
            items.why_open == "H-004, which makes the claim anew, is confounded itself: the interval says so"
        )
        assert "g32_items" not in open_questions(asking)
    finally:
        asking.close()


def open_questions(asking: AskingHistory) -> tuple[str, ...]:
    with asking.database.read() as session:
        return read_facts(session, asking.campaign_id).open_questions


def test_contrasts_of_noise_stand_in_a_table_of_their_own_and_effects_are_read_against_them(
    asking: AskingHistory,
) -> None:
    view = view_of(asking)
    first, *others = view.answers
    draw = another_draw((0.02, -0.01, 0.05))
    first = first.model_copy(update={"contrasts": (*first.contrasts, draw)})
    page = answers_markdown(view.model_copy(update={"answers": (first, *others)}))
    assert "2 contrasts: 1 supported and 1 refuted." in page  # the draw is none of them
    assert "| refuted | +1.3 points [−0.4, +2.9] | no |" in page
    noise = page.split("Nothing but a draw at random differs")[1].split("###")[0]
    assert "| `another_draw` | tasks solved | −2.0 points [−5.0, +1.0] | — | — |" in noise
    assert "g32_items" not in noise


def test_a_campaign_of_an_earlier_version_whose_questions_have_no_role_is_answered(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        new = ("role", "if_supported", "if_refuted")
        questions = [{k: v for k, v in each.items() if k not in new} for each in campaign.spec["questions"]]
        campaign.spec = {**campaign.spec, "questions": questions}
    view = view_of(history)
    history.close()
    assert {each.role for each in view.contrasts} == {"decides"}


@pytest.mark.parametrize(
    "part",
    [
        f"## 1. {LOSES}",
        "2 contrasts: 1 supported and 1 refuted.",
        "on model reference, target Example CPU (2 cores), engine reference (python 3.11.9, torch 2.13.0)",
        "say nothing of other models, machines or versions",
        "Times are those of prompts of code, the decode step run eagerly",
        "another draw of calibration text gives another checkpoint",
        "4.625 bits a weight; a step reads 1.5 KiB (mlp 1.0 KiB, lm_head 512 B); "
        "calibrated on Running text, fingerprint `c0ffeec0ffee`",
        "| 1.0000 on 1 document |",
        "| 50.0 % of 2 items |",
        "autoinfer reproduce E-0001`; done so: E-0002 supported",
        "Spearman's ρ +0.64 [+0.41, +0.79]",
        "| block_influence | the quantized model | 12 | 24 | +0.64 [+0.41, +0.79] | +0.52 [+0.30, +0.64] |",
        "Conditional on these layers of this model.",
        "- `ranked` (inconclusive): The interval says so.",
        "- `mtp` (infeasible): This checkpoint has no MTP head.",
        "It ended: the budget of 1 h is spent.",
        "autoinfer run default --space levers\nautoinfer answers --out FILE",
    ],
)
def test_the_page_says(asking: AskingHistory, part: str) -> None:
    assert part in answers_markdown(view_of(asking))


def test_a_document_that_went_through_the_timed_path_once_more_does_not_count_twice(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    scored = [("nll_bits", 1000.0), ("text_bytes", 1000.0)]
    experiment, _ = history.judge(
        history.ask(0), VerdictOutcome.INCONCLUSIVE, (0.0, -0.1, 0.1), arms=dict.fromkeys(Arm, scored)
    )
    with history.database.write() as session:
        for launch in session.scalars(select(Launch).where(Launch.experiment_id == experiment)).all():
            again = [Sample(0, 9, "decode:item 0", 9, name, "1", 900.0) for name, _ in scored]
            insert_samples(session, launch.id, again)
    control = view_of(history).contrasts[0].control
    history.close()
    assert (control.count, control.value) == (1, 1.0)


def test_drafting_of_both_arms_is_told_with_acceptance_step_time_and_parameters(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    timed = [("ttft_ms", 10.0), ("e2el_ms", 40.0), *[("step_tokens", 2.0)] * 10]
    experiment, verdict = history.judge(
        history.ask(0), VerdictOutcome.SUPPORTED, (-0.1, -0.2, -0.05), arms={Arm.CANDIDATE: timed}
    )
    report = {
        "acceptance_length": 1.62,
        "acceptance_by_position": [0.62],
        "acceptance_length_by_class": {"text": 1.54, "code": 1.7},
        "acceptance_by_class_and_position": {"text": [0.54], "code": [0.7]},
        "draws_level_acceptance_length": 1.31,
        "break_even_acceptance_length": 1.31,
    }
    with history.database.write() as session:
        session.get_one(Verdict, verdict).quality = {
            "drafting": report,
            "control_drafting": {
                **report,
                "acceptance_length": 2.5,
                "break_even_acceptance_length": None,
                "draws_level_acceptance_length": None,
            },
        }
        for launch in session.scalars(select(Launch).where(Launch.experiment_id == experiment)).all():
            launch.resolved = {
                **launch.resolved,
                "parameters": 4000,
                "drafting": {"drafter": {"parameters": 500}},
            }
            session.execute(
                update(Measurement).where(Measurement.launch_id == launch.id).values(item="request")
            )
    page = answers_markdown(view_of(history))
    history.close()
    assert (
        "- Drafting of the candidate: 1.62 tokens a step (code 1.70, text 1.54); drafts stood by "
        "position 62 % (code 70 %; text 54 %); breaks even at 1.31; a step takes 3.00 ms; "
        "4,000 parameters in the target, 500 in what drafts."
    ) in page
    assert "- Drafting of the control: 2.50 tokens a step" in page
    assert page.count("breaks even at") == 1
    assert "draws level" not in page


def test_a_change_of_more_than_drafting_tells_when_it_draws_level_and_no_break_even() -> None:
    told = drafting_of(
        {"drafting": {"acceptance_length": 1.7, "draws_level_acceptance_length": 2.1}}, "candidate"
    )
    assert told is not None
    assert told.sentence() == "1.70 tokens a step; draws level with the control at 2.10"


def test_the_command_to_do_it_again_gives_what_was_not_as_in_the_file(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.spec = {**campaign.spec, "seed": 12}
        campaign.budget = {**campaign.budget, "wall_s": 2399.24}
    page = answers_markdown(view_of(history))
    history.close()
    assert "autoinfer run default --space levers --budget 2400s --seed 12\n" in page


@pytest.mark.parametrize(
    ("served", "options"),
    [
        ({"engine": "vllm", "space": "vllm"}, " --engine vllm"),
        ({"engine": "vllm", "space": "vllm", "target": "cuda:0,cuda:1"}, " --target cuda:0,cuda:1"),
        ({"engine": "vllm", "space": "mine.yaml"}, " --engine vllm --space mine.yaml"),
    ],
)
def test_the_command_to_do_it_again_names_the_engine_and_what_else_the_file_does_not_take_of_itself(
    tmp_path: Path, served: dict[str, str], options: str
) -> None:
    history = AskingHistory(tmp_path)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.spec = {**campaign.spec, **served}
    page = answers_markdown(view_of(history))
    history.close()
    assert f"autoinfer run default{options}\n" in page


def test_how_a_step_runs_is_told_where_the_baseline_says_it(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    view = view_of(history)
    history.close()
    eagerly = "Times are those of prompts of code, the decode step run eagerly unless"
    assert eagerly in answers_markdown(view)
    graphs = view.model_copy(update={"baseline": {"serving.graph_mode": "auto"}})
    assert "Times are those of prompts of code.\n" in answers_markdown(graphs)


def test_a_reason_that_begins_with_a_name_is_written_as_it_is(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    history.ask(3, impossible="vLLM 0.32 aborts when it drafts so")
    page = answers_markdown(view_of(history))
    history.close()
    assert "- `mtp` (infeasible): vLLM 0.32 aborts when it drafts so." in page


def test_after_nothing_but_what_is_infeasible_a_campaign_says_how_it_goes_on(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    history.ask(3, impossible="This checkpoint has no MTP head.")
    history.stop("the budget of 1 h is nearly spent: 20 s are left, and none of 3 queued hypotheses fits")
    with history.database.read() as session:
        outcome = campaign_outcome(session, history.campaign_id)
        told = summarize(campaign_facts(session, history.campaign_id))
    history.close()
    assert outcome["hypotheses"]["infeasible"] == 1
    said = "Nothing was judged; go on with: autoinfer run --resume C-1 --budget 30m"
    assert outcome["go_on"] == told.go_on == said


def test_equal_databases_give_equal_pages(asking: AskingHistory) -> None:
    assert answers_markdown(view_of(asking)) == answers_markdown(view_of(asking))


def test_what_was_never_asked_is_told_with_why_the_campaign_ended(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    history.stop("stopped by the user; 4 questions of 4 left open")
    page = answers_markdown(view_of(history))
    history.close()
    assert page.count("(not asked): The campaign ended before it was tested.") == 4
    assert page.count("It ended: stopped by the user; 4 questions of 4 left open.") == 1
    assert "g32_bits" in page


def test_an_experiment_that_runs_leaves_its_question_open(tmp_path: Path) -> None:
    history = AskingHistory(tmp_path)
    history.ask(0)
    assert "- `g32_bits` (open): It waits in the queue." in answers_markdown(view_of(history))
    history.close()


def test_the_newest_campaign_that_asks_is_meant(tmp_path: Path) -> None:
    history = an_asking_history(tmp_path)
    history.close()
    other = History(tmp_path)  # a second campaign, which asks nothing
    with other.database.read() as session:
        assert asking_campaign(session, None) == 1
        assert asking_campaign(session, "C-2") == 2
    other.close()


def test_a_ranking_that_took_out_one_layer_and_two_has_one_correlation(asking: AskingHistory) -> None:
    """Two artifacts of one ranking: its correlation is told once, with both experiments."""
    view = view_of(asking)
    ranked = next(each for each in view.contrasts if any(r.rank_correlation for r in each.reports))
    once = next(report for report in ranked.reports if report.rank_correlation is not None)
    again = ranked.model_copy(
        update={"experiment": "E-0009", "reports": (once.model_copy(update={"artifact": "f" * 64}),)}
    )
    *others, last = view.answers
    last = last.model_copy(update={"contrasts": (*last.contrasts, again)})
    page = answers_markdown(view.model_copy(update={"answers": (*others, last)}))
    [row] = [line for line in page.split("\n") if line.startswith("| block_influence | ")]
    assert row.endswith(f"| {ranked.experiment}, E-0009 |")
