"""A campaign's story: each number is in the database, whatever became of the campaign."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from math import exp
from pathlib import Path

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from agent.campaign import store
from configs.quantities import format_duration
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label
from db.models import Campaign, Event, Experiment, Hypothesis, ModelAnswer, Verdict
from db.states import (
    CampaignState,
    DirectiveKind,
    ExperimentKind,
    ExperimentState,
    HypothesisState,
    VerdictOutcome,
)
from knowledge.figures import milliseconds, signed
from knowledge.lever_steering import give_directive, lift_directives
from knowledge.notes import add_note
from knowledge.queries.story import campaign_story, story_facts
from knowledge.queries.view import PREDICTION_Z
from knowledge.stored import FROM_MODEL
from knowledge.story import StoryLine, StoryView, how_it_came
from tests.history.campaign_history import BASE, History, a_full_history

NUMBER = re.compile(r"(?<![\w.-])[−+]?\d+(?:\.\d+)?(?:[dhms](?:\d+[hms])*)?(?!\w)")
LABELS = re.compile(r"\b[CEFHJD]-\d+\b")
CONSTANTS = {"80", "0"}
"""The level of a prediction's interval, and Trial 0."""


def baseline(history: History) -> None:
    with history.database.write() as session:
        session.add(
            Experiment(
                campaign_id=1,
                kind=ExperimentKind.BASELINE,
                target="cpu",
                control_configuration_id=store.configuration_id(session, BASE),
                state=ExperimentState.DONE,
                plan={},
                wall_s=7.0,
            )
        )
        events.append(
            session,
            EventKind.CAMPAIGN_BASELINE,
            "It was measured.",
            campaign_id=1,
            data={"baseline": {"tpot_ms": 12.5}, "naive": {"tpot_ms": 31.3}},
        )


def best(history: History, experiment: str, speedup: float) -> None:
    with history.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_BEST,
            "It is better.",
            experiment,
            1,
            {
                "experiment": experiment,
                "speedup": speedup,
                "speedup_interval": [speedup - 0.012, speedup + 0.034],
                "speedup_basis": experiment,
                "tpot_ms": 11.3,
                "control_tpot_ms": 12.4,
                "configuration": {"serving.threads": 1},
            },
        )


def running(folder: Path) -> History:
    history = a_full_history(folder)
    baseline(history)
    best(history, "E-0001", 1.111)
    return history


def empty(folder: Path) -> History:
    return History(folder)


def finished(folder: Path) -> History:
    history = running(folder)
    history.judge(6, VerdictOutcome.SUPPORTED, effect=(-0.31, -0.35, -0.27))
    first = history.judge(7, VerdictOutcome.SUPPORTED, effect=(-0.05, -0.06, -0.04))
    best(history, "E-0007", 1.449)
    with history.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_VERIFYING,
            "It begins.",
            campaign_id=1,
            data={"after_experiment": first.experiment_id},
        )
    history.judge(7, VerdictOutcome.REFUTED, effect=(0.02, 0.01, 0.03), reproduces=first.experiment_id)
    stop(history, "the budget of 8m is spent")
    return history


def failed(folder: Path) -> History:
    history = History(folder)
    with history.database.write() as session:
        session.add(
            Experiment(
                campaign_id=1,
                kind=ExperimentKind.BASELINE,
                target="cpu",
                control_configuration_id=store.configuration_id(session, BASE),
                state=ExperimentState.FAILED,
                failure_kind="out_of_memory",
                failure="12.5 GB were asked for and 8 GB are there.",
                plan={},
            )
        )
    stop(history, "the baseline could not be measured")
    return history


def out_of_time(folder: Path) -> History:
    history = failed(folder)
    with history.database.write() as session:
        baseline = session.scalars(select(Experiment)).one()
        baseline.state, baseline.failure_kind = ExperimentState.CANCELLED, "cancelled"
        baseline.failure = "Cancelled on request."
        session.get_one(
            Campaign, 1
        ).stopped_because = "the budget of 20m is spent and the baseline not measured"
    return history


def interrupted(folder: Path) -> History:
    history = running(folder)
    with history.database.write() as session:
        for place in range(4):
            events.append(
                session, EventKind.WORKER_LOST, f"desk/cpu#{place} stopped answering.", campaign_id=1
            )
            events.append(session, EventKind.CAMPAIGN_RESUMED, "The campaign goes on.", "C-1", 1)
    return history


def latency_only(folder: Path) -> History:
    history = finished(folder)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
    return history


def spoken_to(folder: Path) -> History:
    """Somebody steered it and wrote down what was done outside, and a language model was asked."""
    history = running(folder)
    with history.database.write() as session:
        give_directive(session, 1, DirectiveKind.FOCUS, "threads", ["threads"])
        lift_directives(session, 1, DirectiveKind.FOCUS, "threads")
        add_note(session, "A new driver was installed.", stale="F-001")
        session.add(
            ModelAnswer(
                campaign_id=1,
                base_url="http://127.0.0.1:8000/v1",
                model="a-model",
                form="json_schema",
                prompt="What next?",
                prompt_digest="0" * 64,
                answer="",
                attempts=1,
                counted_tokens=900,
                prompt_tokens=900,
                answer_tokens=50,
                usd=None,
                wall_s=1.5,
                outcome={"proposed": ["a=1"], "refused": [{"what": "b=2", "reason": "No knob."}] * 4},
            )
        )
        session.flush()
        first = session.get_one(Hypothesis, 1)
        first.change = {**first.change, FROM_MODEL: {"answer": 1, "place": 0, "builds_on": []}}
    return history


def stop(history: History, why: str) -> None:
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.state, campaign.stopped_because, campaign.ended_at = CampaignState.STOPPED, why, now()
        events.append(session, EventKind.CAMPAIGN_STOPPED, f"It ended: {why}.", "C-1", 1)


KINDS: dict[str, Callable[[Path], History]] = {
    each.__name__: each for each in (running, empty, finished, failed, interrupted, latency_only, spoken_to)
}


@pytest.fixture(params=KINDS)
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[History]:
    history = KINDS[request.param](tmp_path)
    yield history
    history.close()


def story(history: History, *, whole: bool = True) -> StoryView:
    with history.database.read() as session:
        return campaign_story(session, 1, whole=whole)


def material(session: Session, line: StoryLine) -> list[object]:
    """The rows that a line names, and those that say what became of them."""
    rows: list[object] = []
    for label in line.about:
        noun, number = parse_label(label)
        if noun is Noun.CAMPAIGN:
            rows += [session.get_one(Campaign, number)]
            rows += session.scalars(
                select(Event).where(
                    Event.kind.in_([EventKind.CAMPAIGN_BASELINE.value, EventKind.CAMPAIGN_STOPPED.value])
                )
            ).all()
        if noun is Noun.HYPOTHESIS:
            rows += [session.get_one(Hypothesis, number)]
            rows += session.scalars(select(Verdict).where(Verdict.hypothesis_id == number)).all()
        if noun is Noun.EXPERIMENT:
            rows += [session.get_one(Experiment, number)]
            rows += session.scalars(select(Verdict).where(Verdict.experiment_id == number)).all()
    if line.event is not None:
        rows.append(session.get_one(Event, line.event))
    return rows


def leaves(found: object) -> Iterator[object]:
    if isinstance(found, dict):
        for each in found.values():
            yield from leaves(each)
    elif isinstance(found, list):
        for each in found:
            yield from leaves(each)
    else:
        yield found


def shown(value: float) -> set[str]:
    """Every way in which a figure is written."""
    relative = 100 * (exp(value) - 1) if value < 50 else 0.0
    forms = {f"{value:.3f}", f"{value:.2f}", f"{value:g}", f"{100 * value:g}", milliseconds(value)[:-3]}
    forms |= {signed(relative), signed(100 * value), format_duration(abs(value))}
    return forms


def known(session: Session, line: StoryLine) -> set[str]:
    """Numbers that a line may have: those of its rows, counts of rows, and how far apart instants are."""
    found = set(CONSTANTS)
    for row in material(session, line):
        values = {column.name: getattr(row, column.name) for column in row.__table__.columns}  # type: ignore[attr-defined]
        for leaf in leaves(list(values.values())):
            if isinstance(leaf, str):
                found |= set(NUMBER.findall(leaf))
            elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
                found |= shown(float(leaf))
        prediction = values.get("prediction")
        if isinstance(prediction, dict) and "log_ratio_mean" in prediction:
            mean, sd = prediction["log_ratio_mean"], prediction["log_ratio_sd"]
            found |= shown(mean - PREDICTION_Z * sd) | shown(mean + PREDICTION_Z * sd)
        data = values.get("data")
        if isinstance(data, dict) and "naive" in data:
            found.add(f"{data['naive']['tpot_ms'] / data['baseline']['tpot_ms']:.2f}")
    return found


def counts(session: Session) -> set[str]:
    """How many rows there are, by what they are counted by, and shares of these."""
    hypotheses = session.scalars(select(Hypothesis.state)).all()
    experiments = session.scalars(select(Experiment)).all()
    tests = [each for each in experiments if each.kind is ExperimentKind.TEST]
    own = select(Verdict.outcome).join(Experiment).where(Experiment.kind == ExperimentKind.TEST)
    outcomes = session.scalars(own).all()
    numbers = {
        len(experiments),
        len(tests),
        len(outcomes),
        *(hypotheses.count(each) for each in HypothesisState),
    }
    numbers |= {outcomes.count(each) for each in VerdictOutcome}
    answers = session.scalars(select(ModelAnswer)).all()
    numbers |= {len(answers), sum(len(each.outcome["refused"]) for each in answers)}
    numbers |= {place for place, _ in enumerate(outcomes, start=1)}
    numbers |= {
        outcomes.count(VerdictOutcome.SUPPORTED) - 1,
        sum(each.started_at is not None for each in experiments),
    }
    begun = [each for each in experiments if each.started_at]
    again = [each for each in begun if each.kind is ExperimentKind.REPRODUCE]
    times = {format_duration(sum(each.wall_s or 0.0 for each in found)) for found in (begun, again)}
    return {str(each) for each in {*numbers, len(again)}} | times


def instants(session: Session) -> set[str]:
    began = session.get_one(Campaign, 1).started_at
    if began is None:
        return set()
    at = [*session.scalars(select(Event.at)), *session.scalars(select(Verdict.created_at))]
    dates = re.findall(r"\d+", f"{began:%Y-%m-%d %H:%M}")
    return {format_duration(round((each - began).total_seconds())) for each in at} | set(dates)


def unknown(history: History, told: StoryView) -> list[str]:
    """Numbers of a story that no row of its lines, no count and no instant explains."""
    found = []
    with history.database.read() as session:
        general = counts(session) | instants(session)
        for chapter in told.chapters:
            for line in chapter.lines:
                text = LABELS.sub("", line.text)
                if "came out inside" in text or "expected to be false" in text:
                    continue  # the same sentence as in the summary, which tests of its own hold to the rows
                allowed = general | known(session, line)
                found += [f"{each} of {line.text!r}" for each in NUMBER.findall(text) if each not in allowed]
    return found


def test_each_number_is_in_the_rows_that_its_line_names(told: History) -> None:
    assert unknown(told, story(told)) == []
    assert unknown(told, story(told, whole=False)) == []


def test_a_story_of_other_numbers_would_be_found_out(tmp_path: Path) -> None:
    history = finished(tmp_path)
    before = story(history)
    with history.database.write() as session:
        session.execute(update(Verdict).values(effect_log=Verdict.effect_log * 1.7))
    assert unknown(history, before) != []
    assert unknown(history, story(history)) == []
    history.close()


def test_every_label_names_a_row_and_every_line_is_a_sentence(told: History) -> None:
    with told.database.read() as session:
        for chapter in story(told).chapters:
            for line in chapter.lines:
                assert line.text[-1] in ".:", line.text
                assert ".." not in line.text
                assert set(LABELS.findall(line.text)) <= set(line.about)
                assert material(session, line)


def test_it_is_told_the_same_twice_and_the_short_one_fits_on_a_screen(told: History) -> None:
    short, again = story(told, whole=False), story(told, whole=False)
    assert short == again
    assert json.loads(short.model_dump_json())["campaign"] == "C-1"
    lines = sum(len(chapter.lines) for chapter in short.chapters)
    assert lines <= 28
    assert lines <= sum(len(chapter.lines) for chapter in story(told).chapters)


def text_of(history: History, title: str, *, whole: bool = True) -> str:
    return " ".join(
        line.text
        for chapter in story(history, whole=whole).chapters
        if chapter.title == title
        for line in chapter.lines
    )


def test_an_empty_campaign_has_begun_and_found_nothing(tmp_path: Path) -> None:
    history = empty(tmp_path)
    assert [chapter.title for chapter in story(history).chapters] == [
        "How it began",
        "Found first",
        "What it cost",
        "Where it stands",
        "What comes next",
    ]
    assert "Trial 0, the baseline, is not measured yet." in text_of(history, "How it began")
    assert text_of(history, "Found first") == "No test was judged yet."
    history.close()


def test_a_finished_one_says_what_was_first_what_differed_and_what_is_left(tmp_path: Path) -> None:
    history = finished(tmp_path)
    first = text_of(history, "Found first")
    assert "and with 1 test, H-001: One thread is faster, TPOT −10.0 % [−12.0, −8.0] (E-0001)." in first
    assert "2 more were supported after it, of 6 tests in all." in first
    assert "E-0007 made it 1.449× [1.437, 1.483] as fast" in text_of(history, "Better and better")
    said = text_of(history, "Said again")
    assert "Of 3 supported verdicts 0 agreed in a fresh run, 1 differed and 2 not run yet." in said
    assert "E-0008 differs in E-0009: refuted now, supported then, by another amount" in said
    assert "the budget of 8m is spent" in text_of(history, "Where it stands")
    assert text_of(history, "What comes next") == "Nothing: the queue is empty."
    history.close()


def test_whether_what_was_to_be_deployed_held_is_said_again(tmp_path: Path) -> None:
    history = running(tmp_path)
    with history.database.write() as session:
        checked = [
            events.append(
                session,
                EventKind.RECIPE_CHECKED,
                f"The recipe of E-0001 {held}: −10.1 % now (E-0001). TPOT changed; 2 pairs.",
                "E-0001",
                1,
            )
            for held in ("holds", "does not hold any more", "holds")
        ]
        story = campaign_story(session, 1)
        whole = campaign_story(session, 1, whole=True)
    history.close()
    (chapter,) = [each for each in story.chapters if each.title == "Said again"]
    told = [each for each in chapter.lines if each.event is not None]
    assert [each.event for each in told] == checked[1:]
    assert told[0].text.endswith("the recipe of E-0001 does not hold any more: −10.1 % now (E-0001).")
    assert chapter.more == 1
    (everything,) = [each for each in whole.chapters if each.title == "Said again"]
    assert sum(each.event is not None for each in everything.lines) == len(checked)


def test_a_failed_one_says_why_and_an_interrupted_one_what_happened(tmp_path: Path) -> None:
    history = failed(tmp_path / "failed")
    assert "could not be measured: 12.5 GB were asked for" in text_of(history, "How it began")
    history.close()
    history = out_of_time(tmp_path / "out of time")
    began = text_of(history, "How it began")
    assert "was not measured: the budget of 20m is spent and the baseline not measured." in began
    assert "Cancelled on request" not in began
    history.close()
    history = interrupted(tmp_path / "interrupted")
    assert text_of(history, "Interrupted").count("the campaign goes on") == 4
    (short,) = (each for each in story(history, whole=False).chapters if each.title == "Interrupted")
    assert (len(short.lines), short.more) == (2, 6)
    history.close()


def test_what_was_said_to_it_and_what_became_stale_is_told(tmp_path: Path) -> None:
    history = spoken_to(tmp_path)
    (chapter,) = (each for each in story(history).chapters if each.title == "What was said to it")
    focus, lifted, note = (line.text.partition("s ")[2] for line in chapter.lines)
    assert focus == "you said: Rank what changes threads as if it paid five times as much."
    assert lifted == "you lifted: Rank what changes threads as if it paid five times as much."
    assert note == "you noted: A new driver was installed, which made F-001 stale."
    assert "F-001" in chapter.lines[2].about
    assert all(line.event is not None for line in chapter.lines)
    (short,) = (each for each in story(history, whole=False).chapters if each.title == chapter.title)
    assert (short.lines[-1], short.more) == (chapter.lines[-1], 1)
    history.close()


def test_a_note_of_no_campaign_is_told_where_it_was_written_meanwhile_or_made_its_own_stale(
    tmp_path: Path,
) -> None:
    history = running(tmp_path)
    with history.database.write() as session:
        add_note(session, "The desk was moved.")
    stop(history, "the budget of 8m is spent")
    with history.database.write() as session:
        session.execute(update(Campaign).values(ended_at=session.scalars(select(func.max(Event.at))).one()))
        late = [
            add_note(session, "Another desk.").event_id,
            add_note(session, "A new driver.", stale="F-001").event_id,
        ]
        long_after = session.get_one(Campaign, 1).ended_at + timedelta(hours=1)
        session.execute(update(Event).where(Event.id.in_(late)).values(at=long_after))
    said = text_of(history, "What was said to it")
    assert "The desk was moved." in said
    assert "A new driver, which made F-001 stale." in said
    assert "Another desk" not in said
    history.close()


def test_who_said_it_is_told_where_it_was_a_coding_agent(tmp_path: Path) -> None:
    history = running(tmp_path)
    with history.database.write() as session:
        events.sign(session, "mcp:helper")
        give_directive(session, 1, DirectiveKind.FOCUS, "threads", ["threads"])
    assert "an agent that says it is helper said: Rank" in text_of(history, "What was said to it")
    history.close()


def test_what_a_language_model_was_asked_and_what_came_of_it_is_told(tmp_path: Path) -> None:
    history = spoken_to(tmp_path)
    assert text_of(history, "Asked of a language model") == (
        "A language model was asked 1 question: 1 hypothesis came of it, and 4 proposals were refused. "
        "1 of them was tested, and 1 is supported."
    )
    history.close()


def test_how_it_came_to_its_best_is_its_first_finding_and_its_last_step(tmp_path: Path) -> None:
    history = finished(tmp_path)
    with history.database.read() as session:
        first, last = how_it_came(story_facts(session, 1))
    assert "H-001: One thread is faster" in first.text
    assert "E-0007 made it 1.449×" in last.text
    history.close()
    history = empty(tmp_path / "empty")
    with history.database.read() as session:
        assert how_it_came(story_facts(session, 1)) == ()
    history.close()


def test_one_verdict_is_told_in_the_singular(tmp_path: Path) -> None:
    history = running(tmp_path)
    assert text_of(history, "Said again") == "The supported verdict was not verified yet."
    with history.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_VERIFYING,
            "It begins.",
            campaign_id=1,
            data={"after_experiment": 5},
        )
    assert text_of(history, "Said again") == "The supported verdict is not run yet."
    history.judge(1, VerdictOutcome.SUPPORTED, effect=(-0.1, -0.12, -0.08), reproduces=1)
    assert "The supported verdict agreed in a fresh run." in text_of(history, "Said again")
    history.close()


def test_made_up_weights_are_said_at_the_beginning(tmp_path: Path) -> None:
    history = latency_only(tmp_path)
    assert "Its weights are made up, so that it speaks of latency only." in text_of(history, "How it began")
    history.close()


def test_labels_are_those_of_the_database() -> None:
    assert LABELS.findall(format_label(Noun.EXPERIMENT, 7)) == ["E-0007"]
