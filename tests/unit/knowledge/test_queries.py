from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun
from db.models import Campaign, Event, Finding, Hypothesis
from db.states import Arm, CampaignState, ExperimentState, FindingStatus, HypothesisState, VerdictOutcome
from experiments.space.configuration import Configuration
from knowledge.graph.building import build_graph
from knowledge.queries.artifacts import artifact_detail
from knowledge.queries.campaigns import campaign_detail, list_campaigns
from knowledge.queries.claims.hypotheses import list_hypotheses
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from knowledge.queries.facts import campaign_facts
from knowledge.queries.found.finding_detail import finding_detail
from knowledge.queries.found.findings import list_findings
from knowledge.queries.lookup import campaign_of, existing, labelled
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.experiments import list_experiments
from knowledge.queries.measured.resolved import resolved_differences
from knowledge.queries.measured.spread import spread
from knowledge.queries.order.queue import queue_page
from tests.history.campaign_history import BASE, SPACE, TPOT_MS, History

PAGES: dict[str, Callable[[Session], object]] = {
    "hypotheses": lambda session: list_hypotheses(session, limit=500),
    "hypothesis": lambda session: hypothesis_detail(session, 1),
    "queue": lambda session: queue_page(session, 1, limit=500),
    "experiments": lambda session: list_experiments(session, limit=500),
    "experiment": lambda session: experiment_detail(session, 1, samples=True),
    "findings": lambda session: list_findings(session, limit=500),
    "finding": lambda session: finding_detail(session, 1),
    "campaigns": lambda session: list_campaigns(session, limit=500),
    "campaign": lambda session: campaign_detail(session, 1),
    "facts": lambda session: campaign_facts(session, 1),
    "graph": build_graph,
}


@contextmanager
def counted(history: History) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *more: object) -> None:
        statements.append(statement)

    event.listen(history.database._reader, "before_cursor_execute", note)
    yield statements
    event.remove(history.database._reader, "before_cursor_execute", note)


def grow(history: History, points: list[Configuration]) -> None:
    for point in points:
        history.propose(dict(point), claim="One of many.")
    for number, _ in enumerate(points):
        if number % 2:
            history.judge(number + 1, VerdictOutcome.SUPPORTED)


@pytest.fixture(scope="module")
def small_and_large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[History, History]]:
    """Two campaigns, the one ten times as large; only read."""
    points = [point for point in SPACE.points() if point != BASE]
    histories = []
    for size in (4, 40):
        history = History(tmp_path_factory.mktemp(str(size)))
        grow(history, points[:size])
        history.judge(1, VerdictOutcome.SUPPORTED)
        histories.append(history)
    small, large = histories
    yield small, large
    small.close()
    large.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_takes_the_same_number_of_statements_however_much_there_is(
    page: str, small_and_large: tuple[History, History]
) -> None:
    found = []
    for history in small_and_large:
        with counted(history) as statements, history.database.read() as session:
            if page == "experiment":
                experiment_detail(session, 1)
            PAGES[page](session)
        found.append(len(statements))
    assert found[0] == found[1] > 0


@pytest.mark.parametrize("target", ["cuda:0", "cuda:0,cuda:1"])
def test_a_list_of_campaigns_on_gpus_takes_as_many_statements_for_many_as_for_one(
    target: str, history: History
) -> None:
    found = []
    for more in (0, 20):
        for _ in range(more):
            history.start()
        with history.database.write() as session:
            for each in session.scalars(select(Campaign)):
                each.spec = {**each.spec, "target": target}
        with counted(history) as statements, history.database.read() as session:
            list_campaigns(session, limit=500)
        found.append(len(statements))
    assert found[0] == found[1] > 0


def test_each_campaign_of_a_list_shows_its_own_devices_left_out_and_at_rest(history: History) -> None:
    others = [history.start() for _ in range(4)]
    with history.database.write() as session:
        for each in session.scalars(select(Campaign)):
            each.spec = {**each.spec, "target": "cuda:0,cuda:1,cuda:2"}
        one, two, three, four = others
        told = (
            (EventKind.CAMPAIGN_DEVICE_OUT, one, "cuda:2"),
            (EventKind.CAMPAIGN_DEVICE_RESTS, one, "cuda:2"),
            (EventKind.CAMPAIGN_DEVICE_RESTS, one, "cuda:1"),
            (EventKind.CAMPAIGN_DEVICE_RESTS, two, "cuda:0"),
            (EventKind.CAMPAIGN_DEVICE_RESTS, two, "cuda:1"),
            (EventKind.CAMPAIGN_DEVICE_BACK, two, "cuda:0"),
            (EventKind.CAMPAIGN_DEVICE_OUT, three, "cuda:0"),
            (EventKind.CAMPAIGN_RESUMED, three, None),
            (EventKind.CAMPAIGN_DEVICE_OUT, four, "cuda:1"),
            (EventKind.CAMPAIGN_DEVICE_RESTS, four, "cuda:0"),
        )
        for kind, number, device in told:
            events.append(session, kind, "Told.", None, number, {"device": device})
        session.get_one(Campaign, four).state = CampaignState.STOPPED
    with history.database.read() as session:
        items = list_campaigns(session, limit=9).items
    shown = [(each.devices_out, tuple(rest.device for rest in each.devices_at_rest)) for each in items]
    assert shown == [
        (("cuda:1",), ()),  # it has ended
        ((), ()),
        ((), ("cuda:1",)),
        (("cuda:2",), ("cuda:1",)),
        ((), ()),
    ]


def test_pages_cover_a_list_without_gap_or_overlap(full_history: History) -> None:
    with full_history.database.read() as session:
        whole = list_hypotheses(session, limit=100)
        pages = [list_hypotheses(session, limit=3, offset=offset) for offset in (0, 3, 6)]
    assert whole.total == len(whole.items) == 7
    assert [page.total for page in pages] == [7, 7, 7]
    assert [row.id for page in pages for row in page.items] == [row.id for row in whole.items]


def test_hypotheses_under_test_stand_first_then_the_queue_in_its_order(full_history: History) -> None:
    with full_history.database.read() as session:
        rows = list_hypotheses(session, limit=100).items
    assert [row.id for row in rows[:3]] == ["H-005", "H-006", "H-007"]
    assert {row.state for row in rows[3:]} == {"supported", "refuted", "infeasible", "inconclusive"}


def test_hypotheses_are_filtered_by_state_lever_and_campaign(full_history: History) -> None:
    with full_history.database.read() as session:
        refuted = list_hypotheses(session, states=[HypothesisState.REFUTED], limit=9)
        threads = list_hypotheses(session, lever="threads", limit=9)
        nothing = list_hypotheses(session, campaign_id=99, limit=9)
        part_of_a_name = list_hypotheses(session, lever="thread", limit=9)
    assert [row.id for row in refuted.items] == ["H-002"]
    assert {row.id for row in threads.items} == {"H-001", "H-004", "H-006"}
    assert nothing.total == part_of_a_name.total == 0


def test_a_change_of_two_levers_is_found_by_either(history: History) -> None:
    history.propose({"serving.threads": 1, "serving.compile": "default"})
    with history.database.read() as session:
        assert [list_hypotheses(session, lever=each, limit=9).total for each in ("threads", "compile")] == [
            1,
            1,
        ]


def test_a_hypothesis_shows_its_prediction_as_an_80_percent_interval(full_history: History) -> None:
    with full_history.database.read() as session:
        found = hypothesis_detail(session, 1)
    assert found.predicted is not None
    assert found.predicted.relative == pytest.approx(-0.10)
    assert found.predicted.low == pytest.approx(-0.1558, abs=1e-4)
    assert found.predicted.high == pytest.approx(-0.0404, abs=1e-4)
    assert found.measured is not None
    assert found.measured.low == pytest.approx(-0.12)
    assert (found.children, found.experiment) == (("H-002",), "E-0001")


def test_a_reproduction_does_not_replace_what_a_hypothesis_measured(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, VerdictOutcome.SUPPORTED)
    history.judge(
        hypothesis, VerdictOutcome.REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first.experiment_id
    )
    with history.database.read() as session:
        found = hypothesis_detail(session, hypothesis)
        detail = experiment_detail(session, first.experiment_id)
    assert found.measured is not None
    assert found.measured.relative == pytest.approx(-0.10)
    assert [each.id for each in found.experiments] == ["E-0001", "E-0002"]
    assert detail.reproduced_by == ("E-0002",)


def test_the_queue_shows_the_last_move_and_what_caused_it(full_history: History) -> None:
    full_history.move(6, 1, 1, "It stays.")
    with full_history.database.read() as session:
        page = queue_page(session, 1, limit=10)
        cause = session.get_one(Event, page.items[1].cause_event_id)
    assert [row.id for row in page.items] == ["H-005", "H-006", "H-007"]
    assert page.items[1].move_reason == "It stays."
    assert page.items[1].cause == cause.text == "Something was judged."
    assert page.items[2].cause is None


def test_the_queue_tells_a_prediction_on_its_hypothesis_own_metric(full_history: History) -> None:
    with full_history.database.write() as session:
        waiting = session.get_one(Hypothesis, 6)
        waiting.metric = "task_correct"
        mean = waiting.prediction["log_ratio_mean"]
    with full_history.database.read() as session:
        found = {row.id: row.predicted for row in queue_page(session, 1, limit=10).items}["H-006"]
    assert found is not None
    assert (found.metric, found.relative) == ("task_correct", mean)


def test_experiments_are_newest_first_and_filtered(full_history: History) -> None:
    with full_history.database.read() as session:
        rows = list_experiments(session, limit=10).items
        running = list_experiments(session, states=[ExperimentState.RUNNING], limit=10)
        good = list_experiments(session, outcomes=[VerdictOutcome.SUPPORTED], limit=10)
    assert [row.id for row in rows] == ["E-0005", "E-0004", "E-0003", "E-0002", "E-0001"]
    assert [row.id for row in running.items] == ["E-0005"]
    assert (good.total, good.items[0].id) == (1, "E-0001")


def test_an_experiment_leads_down_to_its_samples(full_history: History) -> None:
    with full_history.database.read() as session:
        detail = experiment_detail(session, 1, samples=True)
        without = experiment_detail(session, 1)
    assert [launch.arm for launch in detail.launches] == [Arm.CONTROL, Arm.CANDIDATE]
    control = {spread.metric: spread for spread in without.launches[0].spreads}
    assert set(control) == {"tpot_ms"}  # one value a token is left to the samples
    assert control["tpot_ms"].count == 4
    assert control["tpot_ms"].median == pytest.approx(TPOT_MS + 0.15)
    assert without.samples is None
    assert detail.samples is not None
    values = [s.value for s in detail.samples if s.arm is Arm.CONTROL and s.metric == "tpot_ms"]
    assert values == pytest.approx([10.0, 10.1, 10.2, 10.3])
    assert detail.reproduce_command == "autoinfer reproduce E-0001"
    with full_history.database.read() as session:
        assert experiment_detail(session, 5).reproduce_command is None, "it has no verdict to be confirmed"
    assert [each.name for each in detail.resolved_differences] == ["arm", "pid", "threads"]
    assert detail.artifacts[0].digest.startswith("3fa9")
    assert detail.stages[0].log_path == "/logs/full.log"


def test_a_failed_experiment_shows_its_cause_and_no_launches(full_history: History) -> None:
    with full_history.database.read() as session:
        detail = experiment_detail(session, 3)
    assert (detail.failure_kind, detail.failure) == ("build_failed", "no C++ compiler was found")
    assert detail.launches == ()
    assert detail.resolved_differences == ()


def test_what_varies_within_an_arm_is_no_difference_between_arms() -> None:
    def told(arm: Arm, pid: int, threads: int) -> tuple[Arm, dict[str, object]]:
        return arm, {"pid": pid, "kernel": {"threads": threads}, "dtype": "float32"}

    launches = [
        told(Arm.CONTROL, 1, 2),
        told(Arm.CONTROL, 3, 2),
        told(Arm.CANDIDATE, 2, 1),
        told(Arm.CANDIDATE, 4, 1),
    ]
    (found,) = resolved_differences(launches)
    assert (found.name, found.control, found.candidate) == ("kernel.threads", 2, 1)


def test_a_spread_holds_the_middle_80_percent() -> None:
    found = spread("tpot_ms", "ms", [float(each) for each in range(11)])
    assert (found.low, found.median, found.high, found.count) == (1.0, 5.0, 9.0, 11)
    one = spread("tpot_ms", "ms", [3.0])
    assert (one.low, one.median, one.high) == (3.0, 3.0, 3.0)


def test_of_items_that_are_right_or_wrong_the_mean_is_the_share_of_right_ones() -> None:
    found = spread("task_correct", "1", [1.0, 1.0, 1.0, 0.0])
    assert (found.mean, found.median) == (0.75, 1.0)


def test_findings_are_filtered_and_carry_their_evidence(full_history: History) -> None:
    with full_history.database.write() as session:
        session.get_one(Finding, 2).status = FindingStatus.STALE
    with full_history.database.read() as session:
        holding = list_findings(session, statuses=[FindingStatus.HOLDS], limit=9)
        elsewhere = list_findings(session, campaign_id=99, limit=9)
        detail = finding_detail(session, 1)
    assert {each.id for each in holding.items} == {"F-001", "F-003"}
    assert elsewhere.total == 0
    assert [(each.experiment, each.relation) for each in detail.evidence] == [("E-0001", "supports")]


def test_a_campaign_that_an_older_version_stored_stands_in_the_list_with_what_it_kept(
    full_history: History,
) -> None:
    kept = {"configuration": {"serving.threads": 2}, "why": "the default does not fit", "told": None}
    old = {"start": kept, "hub": {"repo": "owner/name"}, "gpu": {"name": "Example GPU"}}
    with full_history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "found": old}
    with full_history.database.read() as session:
        (found,) = list_campaigns(session, limit=9).items
    assert found.begins_from is not None
    assert found.begins_from.words == found.begins_from.told == "serving.threads=2"
    assert found.begins_from.why == "the default does not fit"
    assert found.hub is None, "a commit can't be told that was not kept"


def test_a_campaign_counts_its_hypotheses_and_what_it_spent(full_history: History) -> None:
    with full_history.database.read() as session:
        found = campaign_detail(session, 1)
    assert found.hypotheses == {
        "supported": 1,
        "refuted": 1,
        "infeasible": 1,
        "inconclusive": 1,
        "testing": 1,
        "queued": 2,
    }
    assert found.spent.experiments == 5
    assert found.spent.experiment_s == pytest.approx(4 * 42.0)


def test_an_artifact_is_found_by_the_beginning_of_its_digest(full_history: History) -> None:
    full_history.artifact(2, "3fb0" + "1" * 60)
    with full_history.database.read() as session:
        assert artifact_detail(session, "3fa9").experiments == ("E-0001",)
        with pytest.raises(UsageError, match="More than one artifact"):
            artifact_detail(session, "3f")
        with pytest.raises(UsageError, match="No artifact"):
            artifact_detail(session, "beef")


def test_a_label_that_names_nothing_says_what_the_last_one_is(full_history: History) -> None:
    with full_history.database.read() as session:
        assert labelled(session, Noun.HYPOTHESIS, "h-7") == 7
        with pytest.raises(UsageError, match=r"H-099 does not exist; the last is H-007\."):
            labelled(session, Noun.HYPOTHESIS, "H-99")
        with pytest.raises(UsageError, match="D-1 does not exist; there is no directive yet"):
            existing(session, Noun.DIRECTIVE, 1)


def test_without_a_label_the_newest_campaign_is_meant(history: History) -> None:
    second = history.start("second")
    with history.database.read() as session:
        assert campaign_of(session, None) == second
        assert campaign_of(session, "C-1") == 1
