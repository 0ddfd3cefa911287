"""What a campaign's story tells, whatever became of the campaign."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy import func, select, update

from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Event
from db.states import (
    DirectiveKind,
    VerdictOutcome,
)
from knowledge.acts.lever_steering import give_directive
from knowledge.acts.notes import add_note
from knowledge.queries.order.carried import CarriedView
from knowledge.queries.story import campaign_story, story_facts
from knowledge.telling.story import how_it_came, tell_story
from tests.history.campaign_history import History
from tests.unit.knowledge.stories import (
    empty,
    failed,
    finished,
    interrupted,
    latency_only,
    out_of_time,
    running,
    spoken_to,
    stop,
    story,
    told,
)

__all__ = ["told"]


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
    assert "Of 3 supported verdicts 0 agreed in a fresh run, 1 differed and 2 are not run yet." in said
    assert "E-0008 differs in E-0009: refuted now, supported then, by another amount" in said
    assert "the budget of 8 min is spent" in text_of(history, "Where it stands")
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
    assert "was not measured: the budget of 20 min is spent and the baseline not measured." in began
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
    stop(history, "the budget of 8 min is spent")
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


def test_what_other_campaigns_found_that_it_began_with_is_told_at_the_beginning(
    full_history: History,
) -> None:
    with full_history.database.read() as session:
        facts = story_facts(session, 1)
    carried = CarriedView(
        weight=0.7312,
        outcomes=3,
        campaigns={"C-9 of lab": 0.7312},
        judged=2,
        findings=("F-001", "F-002"),
        event_id=5,
    )
    began = tell_story(replace(facts, campaign=replace(facts.campaign, carried=carried))).chapters[0]
    (line,) = (each for each in began.lines if "other campaigns" in each.text)
    assert line.text == (
        "It began with 3 outcomes of other campaigns, which count 73 % now; they bear on F-001 and F-002."
    )
    assert line.event == 5
    assert line.about == ("F-001", "F-002", "C-1"), "labels of another database name nothing here"
