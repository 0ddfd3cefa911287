"""A campaign is taken up again after its space got another rule: what it has queued is held against that."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.asking.why_not import what_rules_out
from agent.campaign.desk_reading import DeskReader
from agent.campaign.known import store
from agent.campaign.known.stored_ground import read_legal
from agent.campaign.queue.held_to_today import NOT_ADMITTED, hold_to_today
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis
from db.session import Database
from db.states import CampaignState, ExperimentKind, HypothesisState
from experiments.space.configuration import Configuration, KnobValue
from knowledge.acts.steering import stop_campaign
from knowledge.graph.building import build_graph
from knowledge.stored import HELD, SEPARATES
from tests.integration.campaign.sealed import dispatch, propose_change
from tests.recorded.levers_on_four import levers_on_four
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import drive, start

CACHE, DRAFTS, AHEAD = "simulated.cache", "simulated.drafts", "simulated.ahead"

THEN = f"""
name: simulated
knobs:
  - {{name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}}
  - {{name: simulated.threads, lever: threads, values: [1, 2], default: 1, help: Changes nothing.}}
  - {{name: {CACHE}, lever: cache, values: [auto, fp8, e5m2], default: auto, help: Changes nothing.}}
  - {{name: {DRAFTS}, lever: drafting, values: [none, mtp, ngram], default: none, help: Changes nothing.}}
  - {{name: {AHEAD}, lever: scheduling, values: [auto, 'on', 'off'], default: auto, help: Changes nothing.}}
"""

NOW = THEN.replace(f"name: {AHEAD},", f"name: {AHEAD}, when: {{{DRAFTS}: [none, mtp]}},").replace(
    ", e5m2", ""
)


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = start(tmp_path, space_text=THEN, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    yield database, campaign_id
    database.close()


def change_space(folder: Path, text: str = NOW) -> None:
    (folder / "space.yaml").write_text(text)


def queue(
    campaign: tuple[Database, int],
    change: Mapping[str, KnobValue],
    on: Mapping[str, KnobValue] | None = None,
    held: Mapping[str, KnobValue] | None = None,
) -> int:
    database, campaign_id = campaign
    number = propose_change(database, campaign_id, change, on, proposer="user")
    if held:
        with database.write() as session:
            row = session.get_one(Hypothesis, number)
            row.change = {**row.change, SEPARATES: {"experiment": "E-0002", HELD: dict(held)}}
    return number


def take_up(campaign: tuple[Database, int]) -> int:
    database, campaign_id = campaign
    reader = DeskReader(database, campaign_id)
    desk = reader.desk(reader.facts())
    with database.write() as session:
        return hold_to_today(session, desk)


def state_of(database: Database, number: int) -> tuple[HypothesisState, str]:
    with database.read() as session:
        row = session.get_one(Hypothesis, number)
        return row.state, row.state_reason or ""


def arms_of(database: Database, number: int) -> tuple[Configuration, Configuration]:
    with database.read() as session:
        row = session.get_one(Hypothesis, number)
        ids = (row.control_configuration_id, row.candidate_configuration_id)
        found = store.configurations(session, ids)
        return found[ids[0]], found[ids[1]]


def told(database: Database, kind: EventKind) -> list[str]:
    with database.read() as session:
        return [each.text for each in events.read(session, kinds=[kind])]


def test_the_loop_tests_the_same_claim_in_todays_form_and_withdraws_what_is_another(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, campaign_id = campaign
    same = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram", AHEAD: "on"})
    another = queue(campaign, {DRAFTS: "ngram", AHEAD: "on"})
    change_space(tmp_path)

    def stop_once_it_was_tested() -> None:
        with database.write() as session:
            judged = session.get_one(Hypothesis, same).state
            runs = session.get_one(Campaign, campaign_id).state is CampaignState.RUNNING
            if runs and judged not in (HypothesisState.QUEUED, HypothesisState.TESTING):
                stop_campaign(session, campaign_id)

    drive(database, tmp_path, campaign_id, stop_once_it_was_tested)
    with database.read() as session:
        tested = session.scalars(
            select(Experiment.hypothesis_id).where(Experiment.kind == ExperimentKind.TEST)
        ).all()
        experiment = session.scalars(select(Experiment).where(Experiment.hypothesis_id == same)).first()
        assert experiment is not None
        ran = (experiment.control_configuration_id, experiment.candidate_configuration_id)
        row = session.get_one(Hypothesis, same)
        assert ran == (row.control_configuration_id, row.candidate_configuration_id)
    assert another not in tested
    assert state_of(database, same)[0] is not HypothesisState.WITHDRAWN
    assert all(AHEAD not in arm for arm in arms_of(database, same))
    state, why = state_of(database, another)
    assert state is HypothesisState.WITHDRAWN
    assert why.startswith(f"{NOT_ADMITTED}: {AHEAD} is set, but it only means something when {DRAFTS} is ")
    (restated,) = told(database, EventKind.HYPOTHESIS_RESTATED)
    assert restated.endswith(f"without {AHEAD}=on in both arms, where it means nothing")


def test_what_todays_space_writes_as_it_is_stays_and_nothing_is_told(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, _ = campaign
    number = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "mtp", AHEAD: "on"})
    before = arms_of(database, number)
    change_space(tmp_path)
    assert take_up(campaign) == 0
    assert arms_of(database, number) == before
    assert state_of(database, number) == (HypothesisState.QUEUED, "")


def test_one_that_waits_is_of_the_levers_that_are_told_apart_today(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, _ = campaign
    change_space(tmp_path)
    number = queue(campaign, {DRAFTS: "ngram"})
    with database.write() as session:
        session.get_one(Hypothesis, number).lever = "drafting+scheduling"
    assert take_up(campaign) == 0
    with database.read() as session:
        assert session.get_one(Hypothesis, number).lever == "drafting"


def test_of_two_that_are_one_in_todays_form_the_later_is_withdrawn_and_names_the_first(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, _ = campaign
    first = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram", AHEAD: "on"})
    later = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram", AHEAD: "off"})
    change_space(tmp_path)
    assert take_up(campaign) == 2
    assert state_of(database, first)[0] is HypothesisState.QUEUED
    assert state_of(database, later) == (
        HypothesisState.WITHDRAWN,
        f"{NOT_ADMITTED}: In its form of today it is the same as H-{first:03}.",
    )


def test_what_was_compared_already_in_a_form_that_ran_alike_is_not_compared_again(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, campaign_id = campaign
    tested = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram"})
    dispatch(database, campaign_id, tested)
    waits = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram", AHEAD: "off"})
    change_space(tmp_path)
    assert take_up(campaign) == 1
    assert state_of(database, waits)[1].endswith(f"it is the same as H-{tested:03}.")


def test_it_is_said_to_be_ruled_out_until_the_campaign_is_taken_up(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, _ = campaign
    number = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram", AHEAD: "on"})
    label = format_label(Noun.HYPOTHESIS, number)

    def against() -> str:
        with database.read() as session:
            answer = what_rules_out(session, build_graph(session), [label], None, read_legal)
        return str(answer)

    change_space(tmp_path)
    means_nothing = f"{AHEAD} is set, but it only means something"
    assert means_nothing in against()
    take_up(campaign)
    assert means_nothing not in against()


def test_a_value_that_the_space_lost_is_named(tmp_path: Path, campaign: tuple[Database, int]) -> None:
    database, _ = campaign
    number = queue(campaign, {CACHE: "e5m2"})
    change_space(tmp_path)
    assert take_up(campaign) == 1
    state, why = state_of(database, number)
    assert state is HypothesisState.WITHDRAWN
    assert CACHE in why
    assert "e5m2" in why


def test_what_was_to_be_held_alike_in_both_arms_must_be_there_still(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, _ = campaign
    number = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram", AHEAD: "off"}, held={AHEAD: "off"})
    change_space(tmp_path)
    assert take_up(campaign) == 1
    assert state_of(database, number) == (
        HypothesisState.WITHDRAWN,
        f"{NOT_ADMITTED}: {AHEAD} was to be off in both arms, and means nothing there any more.",
    )


def test_a_knob_at_its_default_that_means_nothing_by_now_is_left_out_and_told_once(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, _ = campaign
    number = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram"})
    change_space(tmp_path)
    assert take_up(campaign) == 1
    assert all(AHEAD not in arm for arm in arms_of(database, number))
    assert told(database, EventKind.HYPOTHESIS_RESTATED) == []
    assert told(database, EventKind.QUEUE_WRITTEN_OUT) == [
        "1 waiting hypothesis compares what it did, and is written without knobs at their defaults that mean "
        f"nothing by now: {AHEAD}=auto (1)"
    ]


NEWER = "simulated.newer"
WITH_NEWER = (
    THEN
    + f"""  - name: {NEWER}
    lever: newer
    values: [auto, 'on']
    default: auto
    when: {{{DRAFTS}: [mtp]}}
    help: Changes nothing.
"""
)


def test_what_a_newer_knob_at_its_default_is_written_into_compares_the_same_and_is_told_once(
    tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, _ = campaign
    drafting = [queue(campaign, {CACHE: each}, on={DRAFTS: "mtp"}) for each in ("fp8", "e5m2")]
    plain = queue(campaign, {CACHE: "fp8"})
    before = arms_of(database, plain)
    change_space(tmp_path, WITH_NEWER)
    assert take_up(campaign) == 2
    for number in drafting:
        assert state_of(database, number)[0] is HypothesisState.QUEUED
        assert [arm[NEWER] for arm in arms_of(database, number)] == ["auto", "auto"]
    assert arms_of(database, plain) == before
    assert told(database, EventKind.HYPOTHESIS_RESTATED) == []
    (line,) = told(database, EventKind.QUEUE_WRITTEN_OUT)
    assert line == (
        "2 waiting hypotheses compare what they did, and are written with newer knobs at their defaults: "
        f"{NEWER}=auto (2)"
    )
    assert take_up(campaign) == 0


@pytest.mark.parametrize("space", [NOW, WITH_NEWER])
def test_what_was_sealed_is_never_changed_but_withdrawn_and_asked_anew(
    space: str, tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    database, campaign_id = campaign
    number = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "ngram" if space == NOW else "mtp"})
    dispatch(database, campaign_id, number)
    with database.write() as session:  # its job was cancelled before a worker took it
        row = session.get_one(Hypothesis, number)
        row.state = HypothesisState.QUEUED
        seal = row.preregistration_digest
    before = arms_of(database, number)
    change_space(tmp_path, space)
    assert take_up(campaign) == 1
    assert told(database, EventKind.QUEUE_WRITTEN_OUT) == []
    state, why = state_of(database, number)
    assert state is HypothesisState.WITHDRAWN
    assert "stays as it was sealed; what it claims is asked anew" in why
    assert arms_of(database, number) == before
    with database.read() as session:
        anew = session.scalars(select(Hypothesis).where(Hypothesis.id > number)).one()
        old = session.get_one(Hypothesis, number)
        assert old.preregistration_digest == seal is not None
        assert (anew.claim, anew.proposer, anew.state) == (old.claim, old.proposer, HypothesisState.QUEUED)
        assert anew.preregistration_digest is None
    today = {**before[1], NEWER: "auto"} if space == WITH_NEWER else dict(before[1])
    if space == NOW:
        del today[AHEAD]
    assert arms_of(database, anew.id)[1] == Configuration.of(today)


@pytest.mark.parametrize("sealed", [False, True])
def test_another_default_of_a_knob_that_there_was_touches_nothing_that_waits(
    sealed: bool, tmp_path: Path, campaign: tuple[Database, int]
) -> None:
    """Be it the claim's own knob or another one: each arm holds every knob with its value, defaults too."""
    database, campaign_id = campaign
    number = queue(campaign, {CACHE: "fp8"}, on={DRAFTS: "mtp"})
    if sealed:
        dispatch(database, campaign_id, number)
        with database.write() as session:  # its job was cancelled before a worker took it
            session.get_one(Hypothesis, number).state = HypothesisState.QUEUED
    before = arms_of(database, number)
    change_space(
        tmp_path, THEN.replace("default: auto", "default: fp8", 1).replace("default: 1,", "default: 2,")
    )
    assert take_up(campaign) == 0
    assert arms_of(database, number) == before
    assert state_of(database, number)[0] is HypothesisState.QUEUED


def test_of_the_levers_on_four_gpus_all_go_on_with_newer_knobs_but_what_can_not_be_any_more(
    tmp_path: Path,
) -> None:
    database = levers_on_four(tmp_path)
    campaign = (database, 1)
    with database.read() as session:
        numbers = [each.id for each in session.scalars(select(Hypothesis)) if not each.target]
    asked = {number: arms_of(database, number) for number in numbers}
    assert take_up(campaign) == 52
    assert take_up(campaign) == 0
    restated = {number for number in numbers if arms_of(database, number) != asked[number]}
    assert len(restated) == 52 - 6
    by_mtp = [each for each in restated if arms_of(database, each)[1]["drafting.method"] == "mtp"]
    assert len(by_mtp) == 6
    for number in restated:
        assert state_of(database, number)[0] is HypothesisState.QUEUED
        for before_it, today in zip(asked[number], arms_of(database, number), strict=True):
            drafts, mtp = today["drafting.method"] != "none", today["drafting.method"] == "mtp"
            whole = today["serving.chunked_prefill"] == "off"
            added = {} if whole else {"serving.max_batch_tokens": "auto"}
            pieces = today["serving.graph_mode"] in ("auto", "piecewise", "full_and_piecewise")
            added |= {"serving.max_graph_tokens": "auto"} if pieces else {}
            added |= {"serving.gdn_decode_kernel": "auto"} if drafts else {}
            added |= {"drafting.lm_head": "auto"} if mtp else {}
            assert today == Configuration.of({**before_it, **added})
    with database.read() as session:
        states = {each.id: each.state for each in session.scalars(select(Hypothesis))}
    assert sum(each is HypothesisState.QUEUED for each in states.values()) == 52 - 6
    assert told(database, EventKind.HYPOTHESIS_RESTATED) == []
    assert told(database, EventKind.QUEUE_WRITTEN_OUT) == [
        "46 waiting hypotheses compare what they did, and are written with newer knobs at their defaults: "
        "serving.max_batch_tokens=auto (46), serving.max_graph_tokens=auto (46), "
        "serving.gdn_decode_kernel=auto (19), drafting.lm_head=auto (6)"
    ]
    for number in (36, 40, 44):
        assert state_of(database, number)[1].startswith(f"{NOT_ADMITTED}: serving.max_model_len=8192: ")
    for number in (31, 68):
        assert state_of(database, number)[1].startswith(f"{NOT_ADMITTED}: serving.kv_cache_dtype=fp8_e5m2: ")
    whole = [
        each for each in numbers if "With prefix caching vLLM reads" in (state_of(database, each)[1] or "")
    ]
    assert len(whole) == 1, "whole prompts beside prefix caching"
    database.close()
