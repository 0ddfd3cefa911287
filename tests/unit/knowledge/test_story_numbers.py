"""Each number of a campaign's story is in the database, whatever became of the campaign."""

import re
from collections.abc import Iterator
from math import exp
from pathlib import Path

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from configs.quantities import format_duration
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label
from db.models import Campaign, Event, Experiment, Hypothesis, ModelAnswer, Verdict
from db.states import (
    ExperimentKind,
    HypothesisState,
    VerdictOutcome,
)
from knowledge.figures import milliseconds, signed
from knowledge.queries.view import PREDICTION_Z
from knowledge.telling.story_parts import StoryLine, StoryView
from tests.history.campaign_history import History
from tests.unit.knowledge.stories import finished, story, told

__all__ = ["told"]


_DURATION = r"\d+(?:\.\d+)? (?:d|h|min|s)\b"
NUMBER = re.compile(rf"(?<![\w.-])(?:{_DURATION}(?: {_DURATION})?|[−+]?\d+(?:\.\d+)?(?!\w))")
"""A duration in its two units counts as one."""

LABELS = re.compile(r"\b[CEFHJD]-\d+\b")

CONSTANTS = {"80", "0"}
"""The level of a prediction's interval, and Trial 0."""


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
    dates = re.findall(r"\d+", f"{began:%Y-%m-%d %H:%M:%S}")
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
                assert line.text[-1] in ".:?", line.text
                assert ".." not in line.text
                assert set(LABELS.findall(line.text)) <= set(line.about)
                assert material(session, line)


def test_labels_are_those_of_the_database() -> None:
    assert LABELS.findall(format_label(Noun.EXPERIMENT, 7)) == ["E-0007"]
