"""The Now page's view: its sentence, the best and how it came about, what runs, and the digest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from configs.campaign import DUMMY
from configs.errors import UsageError
from configs.moments import format_day
from dashboard.page import Request
from dashboard.pages.now import PAGE, NowFilters, NowShown
from dashboard.rendering.figures import NARROW
from db import campaign_lease, events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Verdict
from db.noise import SERIES_NAME
from db.states import Arm, CampaignState, ExperimentKind, VerdictOutcome
from knowledge.queries.present.now import NowView, Standing, now_view
from knowledge.queries.view import EffectView
from tests.history.campaign_history import BASE, History, a_full_history
from tests.new_database import new_database

LONG_AGO, LATER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2220, 1, 1, tzinfo=UTC)
OF_BITS = EffectView(relative=-0.009, low=-0.014, high=-0.003, metric="bits_per_byte")
BASELINE = {"configuration": dict(BASE), "tpot_ms": 10.0, "bits_per_byte": 1.0}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    yield found
    found.close()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[History]:
    found = a_full_history(tmp_path)
    yield found
    found.close()


def view(history: History, since: int | None = None, label: str | None = None) -> NowView:
    with history.database.read() as session:
        return now_view(session, label, since, LONG_AGO)


def shown(history: History, since: int | None = None) -> tuple[NowShown, str]:
    request = Request({}, NowFilters(since=since))
    with history.database.read() as session:
        found = PAGE.read(session, request, None)  # type: ignore[arg-type]
    return found, PAGE.live(found, request)


def tell(history: History, kind: EventKind, data: dict[str, object] | None = None) -> int:
    with history.database.write() as session:
        return events.append(session, kind, "Told.", campaign_id=history.campaign_id, data=data)


def measure_baseline(history: History) -> None:
    tell(history, EventKind.CAMPAIGN_BASELINE, {"baseline": BASELINE, "naive": {"tpot_ms": 12.0}})


def best_is(history: History, experiment_id: int, speedup: float, basis: str | None = None) -> None:
    label = format_label(Noun.EXPERIMENT, experiment_id)
    data = {
        "configuration": {**BASE, "serving.threads": 1},
        "tpot_ms": 9.9 / speedup,
        "control_tpot_ms": 9.9,
        "speedup": speedup,
        "speedup_interval": None if basis else [speedup - 0.1, speedup + 0.1],
        "speedup_basis": basis or label,
        "note": None,
        "experiment": label,
    }
    tell(history, EventKind.CAMPAIGN_BEST, data)


def put(history: History, state: CampaignState) -> None:
    with history.database.write() as session:
        session.get_one(Campaign, history.campaign_id).state = state


def test_without_a_campaign_the_page_says_what_to_type(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    try:
        with database.read() as session:
            request = Request({}, NowFilters())
            found = PAGE.read(session, request, None)  # type: ignore[arg-type]
        assert found.campaign is None
        assert "autoinfer run" in PAGE.live(found, request)
    finally:
        database.close()


def test_before_the_baseline_nothing_is_claimed(history: History) -> None:
    running = history.start_testing(history.propose({"serving.threads": 1}))
    with history.database.write() as session:
        baseline = session.get_one(Experiment, running)
        baseline.kind, baseline.hypothesis_id = ExperimentKind.BASELINE, None
    found, html = shown(history)
    assert found.campaign is not None
    assert found.campaign.standing is Standing.BASELINE
    assert (found.best, found.lead, found.rest) == (
        None,
        "Measuring the baseline.",
        "Nothing is decided yet.",
    )
    assert "No baseline yet" in html


def test_the_budget_is_told_by_the_clock_and_what_it_cost_machines_apart(full: History) -> None:
    with full.database.write() as session:
        campaign = session.get_one(Campaign, full.campaign_id)
        campaign.budget = {"wall_s": 600.0, "spent_s": 100.0}

    def told() -> str:
        return re.sub(r"<[^>]+>", "", shown(full)[1])

    took = f"4 experiments took 2{NARROW}min 48{NARROW}s of machines"
    assert f"By the clock. {took}, beside 1 that has not ended." in told()
    with full.database.write() as session:
        campaign = session.get_one(Campaign, full.campaign_id)
        campaign.spec = {**campaign.spec, "target": "modal:H100!"}
    assert f"{took}, beside 1 that has not ended; rented ones cost $0.00." in told()


def test_the_sentence_names_what_is_tested_and_counts_what_was_decided(full: History) -> None:
    measure_baseline(full)
    found, html = shown(full)
    assert found.lead == "Testing: Compiling is faster."
    assert found.rest == "One supported, two ruled out, one left open."
    assert [row.claim for row in found.next] == [
        "Eight threads [really] are faster.",
        "One layer less is faster.",
    ]
    assert found.next[0].moved_from == 3
    (run,) = found.runs
    assert run.text == "block 3 of 8"
    assert [step.name for step in run.steps if step.now] == ["Quick look"]
    assert "Nothing beats the baseline yet" in html


def test_what_was_settled_is_told_apart_by_its_outcome(full: History) -> None:
    found = view(full)
    assert [row.claim for row in found.validated] == ["One thread is faster."]
    assert {row.state.value for row in found.settled} == {"refuted", "infeasible", "inconclusive"}
    assert found.are_todays(found.validated)
    assert not found.model_copy(update={"today": LATER}).are_todays(found.validated)
    assert not found.are_todays(())


def test_what_stands_beside_settled_claims_is_called_a_time_only_where_all_of_it_is(full: History) -> None:
    found, html = shown(full)
    assert ">speed-up<" in html
    assert ">change in latency<" in html
    bits = [row.model_copy(update={"measured": OF_BITS}) for row in found.validated]
    html = PAGE.live(found.model_copy(update={"validated": bits}), Request({}, NowFilters()))
    assert ">speed-up<" not in html
    assert "change of what was asked" in html


def test_the_day_stands_at_the_first_event_of_each(full: History) -> None:
    found, html = shown(full)
    days = re.findall(r'<span class="day">([^<]*) </span>', html)
    assert days == list(dict.fromkeys(format_day(event.at) for event in found.events))
    assert len(days) < len(found.events)


def test_hostile_claims_are_text(history: History) -> None:
    history.start_testing(
        history.propose({"serving.threads": 1}, claim="<script>alert(1)</script> is faster.")
    )
    _, html = shown(history)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("state", "standing", "act"),
    [
        (CampaignState.PAUSED, Standing.PAUSED, "autoinfer campaign resume C-1"),
        (CampaignState.RUNNING, Standing.INTERRUPTED, "autoinfer run --resume C-1"),
    ],
)
def test_a_campaign_that_waits_for_a_person_says_so(
    history: History, state: CampaignState, standing: Standing, act: str
) -> None:
    put(history, state)
    found, html = shown(history)
    assert found.campaign is not None
    assert found.campaign.standing is standing
    assert "Waits for you" in html
    assert act in html


def test_a_campaign_that_ended_without_a_find_says_so(full: History) -> None:
    measure_baseline(full)
    put(full, CampaignState.STOPPED)
    with full.database.write() as session:
        session.query(Experiment).filter(Experiment.state == "running").delete()
    found, html = shown(full)
    assert found.lead == "Ended: nothing beat the baseline."
    assert "Nothing to deploy: the baseline stands" in html


@pytest.mark.parametrize(
    ("because", "command", "own"),
    [
        ("the budget of 9m is spent", "autoinfer run --resume C-1 --budget 1h<", False),
        ("stopped by the user", "autoinfer run --resume C-1<", False),
        ("nothing left is worth its price: the best of 12, H-023, is expected to save 0.44 %", None, True),
        ("nothing is left in the queue", None, True),
        ("the baseline could not be measured: no GPU", None, False),
    ],
)
def test_more_time_is_offered_only_where_it_would_change_the_end_and_never_less(
    history: History, because: str, command: str | None, own: bool
) -> None:
    """A budget that is given replaces what is left of the campaign's."""
    measure_baseline(history)
    put(history, CampaignState.STOPPED)
    with history.database.write() as session:
        session.get_one(Campaign, history.campaign_id).stopped_because = because
    html = shown(history)[1]
    assert ("autoinfer run --resume" in html) is (command is not None)
    assert command is None or command in html
    assert ('href="/enqueue?campaign=C-1"' in html) is own


@pytest.mark.parametrize(
    ("naive_ms", "told"),
    [(12.0, "the engine's own default took 1.20× as long"), (10.0, "it is that of the engine's own default")],
)
def test_a_baseline_is_told_beside_the_engine_s_own_default(
    history: History, naive_ms: float, told: str
) -> None:
    data = {"baseline": BASELINE, "naive": {"tpot_ms": naive_ms}}
    tell(history, EventKind.CAMPAIGN_BASELINE, data)
    html = shown(history)[1]
    assert told in html
    assert "1.00× as long" not in html


def test_the_best_is_told_beside_the_baseline_of_its_own_experiment(history: History) -> None:
    measure_baseline(history)
    first = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    best_is(history, first.experiment_id, 1.2)
    found, html = shown(history)
    best = found.best
    assert best is not None
    assert (best.baseline_ms, best.best_ms) == pytest.approx((9.9, 8.25))
    assert (best.low_ms, best.high_ms) == pytest.approx((9.9 / 1.3, 9.9 / 1.1))
    assert best.changed == {"serving.threads": 1}
    assert "E-0001" in html
    assert "1.20 times as fast" in html
    text = re.sub(r"<[^>]+>", "", html).replace(NARROW, " ")
    assert "8.25 ms per token, from 9.90 ms side by side" in text, (
        "the interval is that of the speed-up alone"
    )


@pytest.mark.parametrize("state", [CampaignState.STOPPED, CampaignState.PAUSED, CampaignState.RUNNING])
def test_what_to_deploy_is_a_command_wherever_nothing_runs(history: History, state: CampaignState) -> None:
    measure_baseline(history)
    first = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    best_is(history, first.experiment_id, 1.2)
    put(history, state)
    html = shown(history)[1]
    assert html.count("The one thing to deploy") == 1
    written = html.index('data-copy="autoinfer export C-1 --recipe"')
    assert written < html.index('data-copy="autoinfer reproduce E-0001"')


def test_what_to_deploy_stays_while_something_runs_once_more_after_the_end(history: History) -> None:
    measure_baseline(history)
    first = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    best_is(history, first.experiment_id, 1.2)
    again = history.start_testing(history.propose({"serving.compile": "default"}))
    with history.database.write() as session:
        experiment = session.get_one(Experiment, again)
        experiment.kind = ExperimentKind.REPRODUCE
        experiment.reproduces_experiment_id = first.experiment_id
    put(history, CampaignState.STOPPED)
    found, html = shown(history)
    assert found.runs
    assert html.count("The one thing to deploy") == 1
    assert "The one thing to deploy so far" not in html
    assert 'data-copy="autoinfer export C-1 --recipe"' in html


def test_made_up_weights_are_nothing_to_deploy(history: History) -> None:
    measure_baseline(history)
    first = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    best_is(history, first.experiment_id, 1.2)
    put(history, CampaignState.STOPPED)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.spec = {**campaign.spec, "weights": DUMMY}
    html = shown(history)[1]
    assert "autoinfer reproduce E-0001" in html
    assert "autoinfer export" not in html


def test_the_baseline_s_time_leads_to_the_experiment_that_it_is_of(history: History) -> None:
    history.judge(history.propose({"serving.threads": 4}), VerdictOutcome.REFUTED)
    better = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    data = {"baseline": BASELINE, "naive": {"tpot_ms": 12.0}}
    with history.database.write() as session:
        events.append(session, EventKind.CAMPAIGN_BASELINE, "Told.", "E-0001", history.campaign_id, data=data)
    found, html = shown(history)
    assert found.best is not None
    assert found.best.baseline_experiment == "E-0001"
    best = html.partition('id="best"')[2].partition("</section>")[0]
    assert best.count('href="/experiments/E-0001"') == 2, "the time to beat, and its row"
    best_is(history, better.experiment_id, 1.2)
    found, html = shown(history)
    assert found.best is not None
    assert found.best.baseline_experiment == "E-0002", "the control beside the best"
    assert 'href="/experiments/E-0002"' in html.partition('id="wf-base"')[2].partition("</li>")[0]


def test_all_that_was_settled_is_a_link_from_what_is_shown_of_it(full: History) -> None:
    html = shown(full)[1]
    assert 'href="/campaigns/C-1?story=true#ca-s"' in html, "what happened, in its order"
    assert 'href="/hypotheses?campaign=C-1&amp;state=supported"' in html
    assert 'href="/hypotheses?campaign=C-1&amp;state=ruled-out&amp;state=open"' in html


def test_a_chain_is_scaled_to_the_baselines_own_launches(history: History) -> None:
    measure_baseline(history)
    first = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    second = history.judge(history.propose({"serving.compile": "default"}), VerdictOutcome.SUPPORTED)
    best_is(history, first.experiment_id, 1.25)
    best_is(history, second.experiment_id, 2.0, basis="chain")
    best = view(history).best
    assert best is not None
    assert [step.after_ms for step in best.steps] == pytest.approx([8.0, 5.0])
    assert sum(step.won_ms for step in best.steps) == pytest.approx(best.baseline_ms - best.best_ms)
    assert best.speedup_low is None


def test_the_arm_that_runs_is_a_field_of_its_own_while_it_is_one_alone(history: History) -> None:
    measure_baseline(history)
    experiment_id = history.start_testing(history.propose({"serving.threads": 1}))
    assert [run.arm for run in view(history).runs] == [None]
    assert "B candidate" not in shown(history)[1]
    with history.database.write() as session:
        session.get_one(Experiment, experiment_id).progress = {
            "text": "time launch pair 1",
            "arm": "candidate",
        }
    found, html = shown(history)
    assert [run.arm for run in found.runs] == [Arm.CANDIDATE]
    assert '<li class="on" aria-current="true">B candidate</li>' in html
    assert "<li>A control</li>" in html


def test_what_launches_do_that_load_is_said_beside_their_stage_and_no_more_once_they_are_up(
    history: History,
) -> None:
    measure_baseline(history)
    experiment_id = history.start_testing(history.propose({"serving.threads": 1}))
    told = "loading, for 1 min 35 s by now: compiling for 40 s; loading weights (5 of 9 files) for 1 min 35 s"
    stage = {"text": "time launch pair 1", "done": 0, "planned": 4}
    for progress, expected in (({**stage, "loading": told}, told), (stage, None)):
        with history.database.write() as session:
            session.get_one(Experiment, experiment_id).progress = progress
        found, html = shown(history)
        assert [run.loading for run in found.runs] == [expected]
        assert ("Loading, for 1\u202fmin 35\u202fs by now: compiling for 40\u202fs" in html) is (
            expected is not None
        )


def test_a_lost_gpu_is_said_first_until_the_campaign_goes_on(history: History) -> None:
    measure_baseline(history)
    assert view(history).lost_device is None
    tell(history, EventKind.DEVICE_LOST)
    assert "<b>A GPU is lost.</b> Told." in shown(history)[1]
    tell(history, EventKind.CAMPAIGN_RESUMED)
    assert view(history).lost_device is None
    assert "A GPU is lost" not in shown(history)[1]


def test_two_tests_that_run_at_once_have_names_of_their_own_for_a_screen_reader(history: History) -> None:
    measure_baseline(history)
    for threads in (1, 4):
        history.start_testing(history.propose({"serving.threads": threads}))
    html = shown(history)[1]
    sections = re.findall('<section class="run" [^>]*aria-labelledby="([^"]*)"', html)
    named = []
    for ids in sections:
        parts = (re.search(f'id="{each}">(.*?)</(?:h2|a)>', html) for each in ids.split())
        named.append(" ".join(re.sub("<[^>]*>", "", each.group(1)) for each in parts if each))
    assert named == ["Testing now E-0002", "Testing now E-0001"]


def test_a_gpu_that_others_use_is_said_until_it_is_back(history: History) -> None:
    measure_baseline(history)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.spec = {**campaign.spec, "target": "cuda:0,cuda:1"}
        label = format_label(Noun.CAMPAIGN, history.campaign_id)
        data = {"device": "cuda:1", "in_a_row": 1}
        words = "process 7 (python3) holds 9.0 GB. cuda:1 rests"
        events.append(session, EventKind.CAMPAIGN_DEVICE_RESTS, words, label, history.campaign_id, data)
    found, html = shown(history)
    assert [(each.device, each.interrupted) for each in found.at_rest] == [("cuda:1", True)]
    assert "<b>cuda:1 rested when C-1 was interrupted, because others used it.</b>" in html
    assert "cuda:1 rests" not in html.partition('id="ask"')[0]
    with history.database.write() as session:
        assert campaign_lease.take(session, history.campaign_id, "elsewhere", 60.0)
    found, html = shown(history)
    assert [(each.device, each.interrupted) for each in found.at_rest] == [("cuda:1", False)]
    assert found.campaign is not None
    assert found.campaign.standing is not Standing.RESTING, "cuda:0 goes on"
    assert "<b>cuda:1 rests since <time" in html
    assert "Told then: process 7 (python3) holds 9.0 GB. cuda:1 rests.</p>" in html
    with history.database.write() as session:
        back = EventKind.CAMPAIGN_DEVICE_BACK
        events.append(session, back, "It is back.", label, history.campaign_id, {"device": "cuda:1"})
    assert "rests since" not in shown(history)[1]


def test_a_digest_counts_from_the_event_that_was_seen(history: History) -> None:
    measure_baseline(history)
    early = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    best_is(history, early.experiment_id, 1.1)
    with history.database.write() as session:
        # the clock has milliseconds, and what comes next has to be later than what was seen
        session.get_one(Experiment, early.experiment_id).finished_at = LONG_AGO
        events_before = events.last_id(session)
        for event in events.read(session):
            event.at = LONG_AGO
        session.get_one(Verdict, early.verdict_id).created_at = LONG_AGO
    late = history.judge(
        history.propose({"serving.threads": 4}, predicted=-0.1, sd_log=0.01),
        VerdictOutcome.REFUTED,
        effect=(0.2, 0.1, 0.3),
    )
    best_is(history, late.experiment_id, 1.3)
    found, html = shown(history, since=events_before)
    digest = found.digest
    assert digest is not None
    assert digest.decided == {"refuted": 1}
    assert [each.experiment for each in digest.decisions] == ["E-0002"]
    assert [each.hypothesis for each in digest.surprises] == ["H-002"]
    assert digest.surprises[0].surprise > 20  # half-widths of the prediction beyond its end
    assert (digest.spent_s, digest.experiments) == (42.0, 1)
    assert (digest.speedup, digest.speedup_before) == (1.3, 1.1)
    assert "Since you last looked" in html
    assert "autoinfer reproduce E-0002" in html
    assert "of machines, 1 experiment<" in html, "and not by the clock, as the budget is"


def test_nothing_new_is_said_in_a_sentence(full: History) -> None:
    with full.database.read() as session:
        last = events.last_id(session)
    found, html = shown(full, since=last)
    assert found.digest is not None
    assert found.digest.events == 0
    assert "Nothing happened in C-1 since event" in html


def test_an_unknown_campaign_and_an_aa_series_are_refused(history: History) -> None:
    with pytest.raises(UsageError, match="C-99 does not exist"):
        view(history, label="C-99")
    history.start(SERIES_NAME, "e" * 64)
    with pytest.raises(UsageError, match="is an A/A series"):
        view(history, label="C-2")
