"""A report of a campaign: whole and sensible whatever became of it, and the same each time."""

import re
from pathlib import Path

import pytest
from sqlalchemy import update

from agent.campaign.beginning.create import create_campaign
from configs.campaign import load_campaign
from configs.errors import UsageError
from configs.quantities import format_duration
from dashboard.rendering.figures import NARROW
from dashboard.report.document import Figure
from dashboard.report.html import as_html
from dashboard.report.markdown import as_markdown
from dashboard.report.results import best_speedup, waterfall
from dashboard.report.whole import document
from db import campaign_lease, events
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Finding
from db.noise import SERIES_NAME
from db.states import CampaignState, FindingStatus, VerdictOutcome
from knowledge.machines import machines_named
from knowledge.queries.claims.model_answers import AskedView
from knowledge.queries.found.verification import Standing
from knowledge.queries.present.now_best import BestView, StepView
from knowledge.queries.present.now_floor import FloorView
from knowledge.queries.view import EffectView
from knowledge.report.evidence import revision_command
from knowledge.report.gathering import report
from knowledge.report.view import MachineView
from tests.history.asking_history import AskingHistory
from tests.history.campaign_history import History, the_ground
from tests.recorded.levers_on_four import levers_on_four
from tests.unit.knowledge.reports import MADE, SECTIONS, Page, read
from tests.unit.knowledge.stories import baseline, best


def test_the_best_of_a_chain_has_the_interval_of_its_tests_together(full_history: History) -> None:
    view = read(full_history)
    best = BestView.model_construct(
        experiment="E-0001", chained=True, speedup=4.0, speedup_low=None, speedup_high=None
    )

    def told(over: EffectView | None) -> str:
        first = view.trials[0].model_copy(update={"over_baseline": over})
        assert first.experiment == "E-0001"
        return best_speedup(view.model_copy(update={"trials": (first, *view.trials[1:])}), best)

    assert told(EffectView(relative=-0.75, low=-0.875, high=-0.5)) == "4.00× [2.00, 8.00]"
    assert told(None) == "4.00×"
    direct = best.model_copy(update={"chained": False, "speedup_low": 3.5, "speedup_high": 4.5})
    assert best_speedup(view, direct) == "4.00× [3.50, 4.50]"


@pytest.mark.parametrize(("best_ms", "said"), [(2.5, False), (2.0, True)])
def test_a_best_that_lies_below_its_floor_is_told_with_what_is_wrong_with_the_floor(
    full_history: History, best_ms: float, said: bool
) -> None:
    floor = FloorView(ms=2.1, step_bytes=18_000_000, bandwidth_bytes_per_s=8e9, tokens=1.0)
    step = StepView(
        experiment="E-0001",
        hypothesis="H-001",
        claim="It is.",
        change=(),
        effect=None,
        pairs=3,
        together=False,
        earlier=0,
        before_ms=10.0,
        after_ms=best_ms,
        won_ms=10.0 - best_ms,
    )
    best = BestView.model_construct(
        experiment="E-0001",
        chained=False,
        baseline_ms=10.0,
        best_ms=best_ms,
        steps=(step,),
        floor=floor,
        best_floor=floor,
        overhead=(),
    )
    figure, _ = waterfall(read(full_history).model_copy(update={"best": best})).blocks
    assert isinstance(figure, Figure)
    assert "The pale part is the floor by physics, 2.10" in figure.caption
    assert ("The best lies below it, so the floor is too high" in figure.caption) is said


def test_a_reader_who_knows_nothing_is_told_what_is_measured_and_of_what(full_history: History) -> None:
    found = read(full_history)
    text = as_markdown(found)
    assert text.startswith(
        "# How much faster does the packaged reference model answer on Example CPU (2 cores)?"
    )
    assert "TPOT is the time per output token of a request after its first" in text
    assert "Bits per byte are the model's loss on held-out text" in text
    made_up = found.model_copy(update={"campaign": found.campaign.model_copy(update={"latency_only": True})})
    assert "Bits per byte are" not in as_markdown(made_up)
    assert any("python" in each.packages for each in found.machines)
    assert "`python==" not in text


def test_the_scope_that_all_findings_share_is_told_once(full_history: History) -> None:
    found = read(full_history)
    assert len(found.findings) > 1
    scopes = {each.claim.rstrip(".").partition(" on model ")[2] for each in found.findings}
    assert len(scopes) == 1
    text = as_markdown(found)
    assert text.count(" on model ") == 0
    assert text.count(f"workload alone, here of model {machines_named(scopes.pop())}. ") == 1
    assert "target cpu:Example CPU" not in text
    first, *rest = found.findings
    other = first.model_copy(update={"claim": first.claim.replace("torch 2.13.0", "torch 2.14.0")})
    apart = as_markdown(found.model_copy(update={"findings": (other, *rest)}))
    assert apart.count(" on model ") == 0
    assert "workload alone. " in apart
    (here,) = (line for line in apart.splitlines() if line.startswith("- Scope 1: model "))
    (there,) = (line for line in apart.splitlines() if line.startswith("- Scope 2: model "))
    assert here.replace("torch 2.14.0", "torch 2.13.0").replace("1", "2", 1) == there
    told = re.findall(r"^\| (F-\d+) \|.*\| (\d) \|$", apart, re.MULTILINE)
    assert told == [(first.id, "1"), *((each.id, "2") for each in rest)]


def test_a_scope_that_says_more_than_the_first_is_told_by_what_it_says_more(full_history: History) -> None:
    found = read(full_history)
    *rest, last = found.findings
    drawn = last.claim.rstrip(".") + ", with the calibration samples that were drawn."
    more = last.model_copy(update={"claim": drawn})
    text = as_markdown(found.model_copy(update={"findings": (*rest, more)}))
    assert "\n- Scope 2: as scope 1, with the calibration samples that were drawn.\n" in text


def test_the_specification_has_the_time_that_was_added_since(full_history: History) -> None:
    with full_history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.budget = {**campaign.budget, "wall_s": 1266.0}
    assert read(full_history).spec["budget"] == {"wall_s": 1266.0}


def test_tests_stand_in_their_order_with_what_became_of_each(full_history: History) -> None:
    found = read(full_history)
    assert [each.number for each in found.trials] == list(range(1, 6))
    assert [each.outcome for each in found.trials] == [
        VerdictOutcome.SUPPORTED,
        VerdictOutcome.REFUTED,
        VerdictOutcome.INFEASIBLE,
        VerdictOutcome.INCONCLUSIVE,
        None,
    ]
    text = as_html(read(full_history))
    assert f"It is 20{NARROW}% slower instead." in text
    assert "no C++ compiler" in text
    assert "Left open: inconclusive" in text
    (running,) = [line for line in as_markdown(found).splitlines() if line.startswith("| E-0005 |")][:1]
    assert running.split(" | ")[6] == "no verdict yet", "who measures it now is not of the database"
    assert f"3fa9{'0' * 4}" in text.replace("<wbr>", ""), "the artifact's digest"


def verify_again(history: History) -> None:
    with history.database.write() as session:
        data = {"after_experiment": 5}
        events.append(session, EventKind.CAMPAIGN_VERIFYING, "It begins.", campaign_id=1, data=data)
    history.judge(1, VerdictOutcome.SUPPORTED, effect=(-0.11, -0.13, -0.09), reproduces=1)


def test_what_fresh_runs_said_of_each_supported_verdict_is_told(full_history: History) -> None:
    assert "The supported verdict was not verified yet" in as_markdown(read(full_history))
    verify_again(full_history)
    found = read(full_history)
    (row,) = found.verification.verdicts
    assert (row.experiment, row.standing, row.fresh and row.fresh.experiment) == (
        "E-0001",
        Standing.AGREES,
        "E-0006",
    )
    assert "The supported verdict agreed in a fresh run." in document(found).abstract
    lines = as_markdown(found).splitlines()
    (line,) = [each for each in lines if each.startswith("| E-0001 | H-001 | −10.0")]
    assert "| E-0006 | −11.0" in line
    assert "| agrees |" in line


def test_which_of_the_supported_are_in_doubt_is_told(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    assert "in doubt" not in as_markdown(read(history))
    with history.database.write() as session:
        session.execute(update(Finding).values(status=FindingStatus.STALE))
    assert "\n- E-0001 is in doubt: F-001 is stale.\n" in as_markdown(read(history))


def test_the_check_of_a_recipe_is_told_as_one_and_is_no_fresh_run_of_a_verdict(full_history: History) -> None:
    verify_again(full_history)
    before = read(full_history).verification
    full_history.judge(1, VerdictOutcome.REFUTED, min_effect=0.2, reproduces=1, learn=False)
    found = read(full_history)
    assert [each.is_check for each in found.again] == [False, True]
    assert found.verification == before
    assert "| E-0007 | check | E-0001 |" in as_markdown(found)


def test_who_proposed_what_a_model_was_asked_and_what_was_carried_over_is_told(full_history: History) -> None:
    carried = {
        "weight": 0.62,
        "outcomes": 3,
        "campaigns": {"C-7": 0.62},
        "findings": ["F-001", "F-009"],
        "judged": 4,
    }
    text = as_markdown(read(full_history))
    assert "| rules | 7 | 4 | 1 | 25 % [1, 81] |" in text.replace(NARROW, " ").replace("\\", "")
    assert "Carried over" not in text
    assert "language model" not in text
    with full_history.database.write() as session:
        events.append(session, EventKind.CAMPAIGN_CARRIED, "Carried.", campaign_id=1, data=carried)
    asked = AskedView(
        asked=2,
        failed=1,
        hypotheses=3,
        refused=1,
        tokens=900,
        usd=None,
        untold_tokens=0,
        untold_usd=None,
        wall_s=4.0,
    )
    found = read(full_history)
    assert all(each.chance is None for each in found.proposers), "other campaigns don't change a report"
    text = as_markdown(found.model_copy(update={"asked": asked}))
    assert "3 outcomes of other campaigns began its beliefs, and count 62 % now (C-7 62 %)." in text
    assert "They bear on F-001 and F-009." in text
    assert "The language model was put 2 questions, 1 without an answer; 3 hypotheses came of them" in text


def test_a_campaign_that_runs_says_so_and_does_not_tell_its_age(full_history: History) -> None:
    found = read(full_history)
    assert found.campaign.state is CampaignState.RUNNING
    assert found.campaign.spent.wall_s is None
    assert "The campaign has not ended" in as_html(found)


def test_what_rests_only_as_long_as_the_campaign_is_driven_is_not_told(history: History) -> None:
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.spec = {**campaign.spec, "target": "cuda:1"}
        kind, data = EventKind.CAMPAIGN_DEVICE_RESTS, {"device": "cuda:1", "in_a_row": 1}
        events.append(session, kind, "A notebook is there", "C-1", history.campaign_id, data)
    interrupted = read(history)
    with history.database.write() as session:
        assert campaign_lease.take(session, history.campaign_id, "elsewhere", 60.0)
    assert read(history) == interrupted


def test_a_campaign_in_which_nothing_happened_yet_has_a_whole_report(history: History) -> None:
    text = as_markdown(read(history))
    assert text.count("\n## ") == SECTIONS
    for said in (
        "Trial 0 was not measured",
        "No hypothesis was tested.",
        "Nothing is ruled out.",
        "No change was kept",
        "Nothing was launched",
        "Nothing was spent",
    ):
        assert said in text
    assert Page(as_html(read(history))).asked == []


def test_a_campaign_that_ended_without_a_baseline_says_why(history: History) -> None:
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.state, campaign.stopped_because = CampaignState.STOPPED, "the baseline did not run"
        campaign.ended_at = MADE
    found = read(history)
    assert document(found).abstract[0].endswith("nothing to compare with: the baseline did not run.")
    assert document(found).marks == ()


def test_nothing_found_is_said_with_the_time_to_beat(full_history: History) -> None:
    with full_history.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_BASELINE,
            "The baseline is measured.",
            campaign_id=1,
            data={"baseline": {"configuration": {"serving.threads": 2}, "tpot_ms": 9.5}, "naive": {}},
        )
    text = as_markdown(read(full_history))
    assert "**Nothing that was measured beats the baseline** of 9.50" in text


def test_the_engine_s_own_default_is_told_against_the_baseline_as_the_sweep_timed_both(
    full_history: History,
) -> None:
    """A machine whose pace changed since: the default's time of then would look faster than the baseline."""
    told = {"configuration": {"serving.threads": 1}, "tpot_ms": 5.0, "control_tpot_ms": 20.0, "speedup": 4.0}
    with full_history.database.write() as session:
        baseline = {"configuration": {"serving.threads": 2}, "tpot_ms": 10.0}
        data = {"baseline": baseline, "naive": {"configuration": {"serving.threads": 4}, "tpot_ms": 12.5}}
        events.append(session, EventKind.CAMPAIGN_BASELINE, "Measured.", campaign_id=1, data=data)
        best = {**told, "experiment": "E-0001", "speedup_basis": "E-0001", "speedup_interval": [3.5, 4.5]}
        events.append(session, EventKind.CAMPAIGN_BEST, "Better.", campaign_id=1, data=best)
    text = as_markdown(read(full_history)).replace(NARROW, " ")
    assert "| Engine's own default, by the sweep | 25.0 ms | 0.800× | – |" in text
    assert "| Baseline (trial 0) | 20.0 ms | 1 | – |" in text
    assert "| Best (E-0001) | 5.00 ms | 4.00× \\[3.50, 4.50\\] |" in text, "an interval of the speed-up alone"


def test_made_up_weights_are_marked_everywhere_and_quality_is_said_to_be_unknown(
    full_history: History,
) -> None:
    with full_history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
        for each in session.query(Experiment):
            each.plan = {**each.plan, "latency_only": True}
    text = as_html(read(full_history))
    assert 'class="mark">Latency only: the weights are made up' in text
    assert "supported, latency only" in text
    assert "Not shown: the weights are made up, and quality is not known." in text


def test_what_to_deploy_leads_the_commands_where_it_can_be_deployed(full_history: History) -> None:
    deploy = "autoinfer export C-1 --recipe"
    baseline(full_history)
    assert deploy not in as_markdown(read(full_history))
    best(full_history, "E-0001", 1.111)
    view = read(full_history)
    assert view.commands[0].command == deploy
    assert as_markdown(view).partition("## 4")[0].count(f"`{deploy}`") == 1
    with full_history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
    assert deploy not in [each.command for each in read(full_history).commands]


def test_a_revision_that_not_all_launches_ran_is_told_as_that_of_most() -> None:
    def told(*ran: tuple[int, str | None, bool]) -> list[str]:
        machines = [
            MachineView.model_construct(launches=launches, git_revision=revision, git_changed=changed)
            for launches, revision, changed in ran
        ]
        return [f"{each.what}: {each.command}" for each in revision_command(machines)]

    assert told() == told((3, None, False)) == []
    one = "The revision of autoinfer that measured: git checkout aaa"
    assert told((3, "aaa", False), (2, "aaa", False)) == [one]
    some = "The revision of autoinfer that 3 of 5 launches ran, without changes: git checkout aaa"
    assert told((3, "aaa", False), (2, "bbb", False)) == [some]
    assert told((3, "aaa", False), (2, "aaa", True)) == [some]


def test_what_interrupted_it_is_told_in_its_order_and_nothing_where_nothing_did(history: History) -> None:
    heading = "What kept it from its work, and that it went on"
    assert heading not in as_markdown(read(history))
    with history.database.write() as session:
        events.append(session, EventKind.WORKER_LOST, "desk/cpu stopped answering.", "J-2", 1)
        events.append(session, EventKind.CAMPAIGN_STARTED, "None of it.", "C-1", 1)
        events.append(session, EventKind.CAMPAIGN_RESUMED, "The campaign goes on.", "C-1", 1)
        events.append(session, EventKind.JOB_FAILED, "No space is left.", "J-3", 1)
    view = read(history)
    assert [(each.subject, each.text) for each in view.interruptions] == [
        ("J-2", "desk/cpu stopped answering."),
        ("C-1", "The campaign goes on."),
        ("J-3", "No space is left."),
    ]
    path = as_markdown(view).partition("## 6")[2].partition("## 7")[0]
    assert (
        path.index(heading) < path.index("stopped answering") < path.index("goes on") < path.index("No space")
    )


def test_the_table_of_predictions_has_each_outcome_that_is_counted_those_in_points_too(
    tmp_path: Path,
) -> None:
    database = levers_on_four(tmp_path)
    with database.read() as session:
        view = report(session, 1, MADE)
    database.close()
    text = as_markdown(view)
    rows = re.findall(r"^\| H-\d+ \| E-\d+ \|.*\| (yes|no) \|$", text, re.MULTILINE)
    assert view.calibration.total == len(rows) == view.predictions.total
    assert view.calibration.inside == rows.count("yes") == view.predictions.inside
    assert re.search(r"\| H-002 \| E-0003 \| .*0.0\Wpoints .* \| .*\+5.7\Wpoints .* \| no \|", text)


def test_an_effect_on_another_metric_than_the_campaign_s_own_says_on_which(tmp_path: Path) -> None:
    database = levers_on_four(tmp_path)
    with database.read() as session:
        text = as_markdown(report(session, 1, MADE))
    database.close()
    rows = [line for line in text.splitlines() if line.startswith("| E-0") or "| E-0" in line[:20]]
    told = [line for line in rows if re.search(r"\| E-0003 .*\+5.7\Wpoints", line)]
    assert len(told) == 2, "of the tests and of the predictions"
    assert all("| tasks solved +5.7" in line for line in told)
    assert any("| bits per byte −1.1" in line for line in rows)
    assert any(re.search(r"\| E-0005 .*\| \+14.7", line) for line in rows), (
        "on the campaign's own it does not"
    )


def test_a_campaign_that_asks_answers_in_its_report(asking: AskingHistory) -> None:
    with asking.database.read() as session:
        found = report(session, 1, MADE)
    assert found.questions
    assert all(each.answer for each in found.questions)
    assert found.questions[0].asks.split("`")[0].strip() in as_markdown(found).replace("\\", "")


def test_an_a_a_series_has_no_report(history: History) -> None:
    with history.database.write() as session:
        other = create_campaign(session, load_campaign("default"), the_ground("e" * 64))
        session.get_one(Campaign, other).name = SERIES_NAME
    with pytest.raises(UsageError, match="A/A series"):
        read(history, campaign_id=other)


def test_the_report_says_how_many_pairs_the_budget_paid_for_and_what_ran_once_more(
    full_history: History,
) -> None:
    whole = read(full_history)
    assert "the budget paid for" not in as_markdown(whole), "its tests had the pairs of the plan"
    full_history.judge(1, VerdictOutcome.SUPPORTED, reproduces=1)
    with full_history.database.write() as session:
        test = session.get_one(Experiment, 1)
        test.plan = {**test.plan, "full_pairs": 4}
    text = as_markdown(read(full_history))
    assert "at most 16 exploratory pairs of launches" in text
    assert "to validate; the budget paid for 4 to 16 of the 16 in a test" in text
    again = f", {format_duration(42.0)} of it for 1 run once more on request"
    assert f"{again}, but for 1 experiment that has not ended." in text
    assert "A verdict counts fewer: the samples of its own metric" in text
