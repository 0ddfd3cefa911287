"""A campaign told as a story: how it began, what was found first, what surprised, what it came to.

`tell_story` is pure; `knowledge.queries.story` gathers the facts. A summary says what is so now, by subject;
a story says how it came to that, in time, and both share their words for the same thing. Every number is the
database's; the labels in a line, and in its `about`, name the rows that it came from.

Chapters, in their order; one that has nothing to say is left out:

- *How it began*: what was asked for, on what, the baseline, what of other campaigns it began with, and the
  question of the night;
- *What was said to it*: notes, what became stale, and how it was steered;
- *Asked of a language model*: how often one was asked, and what came of its answers;
- *Found first*: the first supported hypothesis, how long it took and how many tests;
- *Better and better*: each time that another configuration became the best;
- *Surprises*: predictions that failed, the furthest first;
- *Dead ends*: what was ruled out, confounded or left open;
- *Disputed*: verdicts and findings that disagree with what it found, each as the question that it is;
- *Interrupted*: what broke, was lost, paused and gone on with;
- *Said again*: what fresh processes said of the supported verdicts, and whether what was to be deployed held;
- *What it cost*, *Where it stands* and *What comes next*.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from configs.authors import author_words
from configs.quantities import format_duration, format_usd
from db.states import CampaignState, VerdictOutcome
from knowledge.figures import (
    against_control,
    counted,
    effect,
    listed,
    metric_word,
)
from knowledge.queries.bests import BestView
from knowledge.telling.facts import JudgedFact
from knowledge.telling.story_beginning import began
from knowledge.telling.story_lines import clause, first_sentence, line, lowered
from knowledge.telling.story_parts import ChapterView, Said, StoryFacts, StoryLine, StoryView
from knowledge.telling.summary import summarize
from knowledge.telling.summary_part import PartView

SHORT_LINES = 2
"""Things named in a chapter of the short story; the others are counted."""

FOUND_FIRST, BETTER = "Found first", "Better and better"

ALL_LINES = 1_000_000
"""The same of the long one: everything."""


def tell_story(facts: StoryFacts, *, whole: bool = False) -> StoryView:
    """Return the story, short for one screen or `whole`; equal facts give equal words."""
    teller = _Teller(facts, ALL_LINES if whole else SHORT_LINES)
    chapters = (
        began(facts),
        teller.said(),
        teller.asked(),
        teller.found_first(),
        teller.bests(),
        teller.surprises(),
        teller.dead_ends(),
        teller.disputed(),
        teller.troubles(),
        teller.said_again(),
        teller.cost(),
        teller.stands(),
        teller.next(),
    )
    return StoryView(
        campaign=facts.campaign.campaign,
        state=facts.campaign.state,
        whole=whole,
        chapters=tuple(each for each in chapters if each is not None),
    )


def how_it_came(facts: StoryFacts) -> tuple[StoryLine, ...]:
    """The two sentences of a story that tell most of how a campaign came to where it stands: what was found
    first, and how it came to its best; none where nothing is supported."""
    if not any(fact.outcome is VerdictOutcome.SUPPORTED for fact in facts.campaign.judged):
        return ()
    chapters = {each.title: each for each in tell_story(facts).chapters}
    better = chapters.get(BETTER)
    return (*chapters[FOUND_FIRST].lines[:1], *(() if better is None else better.lines[-1:]))


class _Teller:
    """Writes the chapters of one story."""

    def __init__(self, facts: StoryFacts, most: int) -> None:
        self._facts = facts
        self._campaign = facts.campaign
        self._most = most
        self._summary = summarize(facts.campaign, most, short=most != ALL_LINES)

    def said(self) -> ChapterView | None:
        lines = [(each.event, self._said(each)) for each in self._facts.said]
        lines += [
            (
                each.event,
                self._line(f"{self._in(each.at)} {clause(each.text)}", each.subject, event=each.event),
            )
            for each in self._facts.made_stale
        ]
        in_time = [line for _, line in sorted(lines, key=lambda each: each[0])]
        return self._chapter("What was said to it", in_time, newest=True)

    def _said(self, each: Said) -> StoryLine:
        stale = f", which made {listed(list(each.stale))} stale" if each.stale else ""
        who = "you" if each.by is None else author_words(each.by)
        text = f"{self._in(each.at)} {who} {each.verb}: {clause(each.told)}{stale}"
        return self._line(text, *each.stale, event=each.event)

    def asked(self) -> ChapterView | None:
        asked = self._campaign.asked
        if asked is None:
            return None
        silent = f", {asked.failed} of them without an answer" if asked.failed else ""
        came = counted(asked.hypotheses, "hypothesis", "hypotheses")
        refused = counted(asked.refused, "proposal was", "proposals were")
        lines = [
            self._line(
                f"A language model was asked {counted(asked.asked, 'question')}{silent}: {came} came of it, "
                f"and {refused} refused"
            )
        ]
        judged, supported = self._facts.model_judged, self._facts.model_supported
        if asked.hypotheses:
            tested = (
                f"{judged} of them {'was' if judged == 1 else 'were'} tested, and {supported} "
                f"{'is' if supported == 1 else 'are'} supported"
            )
            lines.append(self._line(tested if judged else "None of them was tested yet"))
        return ChapterView(title="Asked of a language model", lines=tuple(lines))

    def found_first(self) -> ChapterView:
        title = FOUND_FIRST
        judged = self._campaign.judged
        tests = counted(len(judged), "test")
        for place, (fact, at) in enumerate(zip(judged, self._facts.judged_at, strict=True), start=1):
            if fact.outcome is VerdictOutcome.SUPPORTED:
                text = f"{self._in(at)} and with {counted(place, 'test')}, {fact.id}: {_claimed(fact)}"
                others = sum(each.outcome is VerdictOutcome.SUPPORTED for each in judged) - 1
                then = f"{counted(others, 'more was', 'more were')} supported after it, of {tests} in all"
                lines = [self._line(text, fact.experiment)]
                if others:
                    lines.append(self._line(then))
                return ChapterView(title=title, lines=tuple(lines))
        said = f"Nothing was supported in {tests}" if judged else "No test was judged yet"
        return ChapterView(title=title, lines=(self._line(said),))

    def bests(self) -> ChapterView | None:
        lines = [
            self._line(
                f"{self._in(each.at)} {each.best.experiment} made it {each.best.speedup:.3f}×"
                f"{_interval(each.best)} as fast as the baseline, " + against_control(each.told),
                event=each.event,
            )
            for each in self._facts.bests
            if each.best.tpot_ms is not None
        ]
        return self._chapter(BETTER, lines, newest=True)

    def surprises(self) -> ChapterView | None:
        part = self._summary.surprised
        if not part.lines:
            return None
        return self._of_parts("Surprises", (part,))

    def dead_ends(self) -> ChapterView | None:
        parts = (self._summary.ruled_out, self._summary.confounded, self._summary.inconclusive)
        found = self._of_parts("Dead ends", [part for part in parts if part.lines])
        if not self._facts.refused:
            return found
        said = counted(self._facts.refused, "draft was", "drafts were")
        lines = () if found is None else found.lines
        refused = self._line(f"{said} refused before any test, each with its reason in the log")
        return ChapterView(
            title="Dead ends", lines=(*lines, refused), more=0 if found is None else found.more
        )

    def disputed(self) -> ChapterView | None:
        lines = [
            self._line(f"{self._in(each.at)} {lowered(each.text)}", each.subject, event=each.event)
            for each in self._facts.disputes
        ]
        return self._chapter("Disputed", lines, newest=True)

    def troubles(self) -> ChapterView | None:
        lines = [
            self._line(f"{self._in(each.at)} {lowered(each.text)}", each.subject, event=each.event)
            for each in self._facts.troubles
        ]
        return self._chapter("Interrupted", lines, newest=True)

    def said_again(self) -> ChapterView | None:
        found, checks = self._facts.verification, self._facts.checks
        if not found.verdicts and not checks:
            return None
        lines = []
        if found.verdicts:
            lines.append(self._line(found.sentence, *(row.experiment for row in found.verdicts)))
        named = [row for row in found.verdicts if row.fresh is not None and not _agrees(row.standing)]
        lines += [
            self._line(f"{row.experiment} {row.standing.value} in {row.fresh.experiment}: {clause(row.why)}")
            for row in named[: self._most]
            if row.fresh is not None
        ]
        lines += [
            self._line(
                f"{self._in(each.at)} {lowered(first_sentence(each.text))}", each.subject, event=each.event
            )
            for each in checks[-self._most :]
        ]
        left = max(0, len(named) - self._most) + max(0, len(checks) - self._most)
        return ChapterView(title="Said again", lines=tuple(lines), more=left)

    def cost(self) -> ChapterView:
        part = self._summary.spent
        lines = [self._line(part.sentence), *(self._line(each) for each in part.lines)]
        if self._facts.spent_usd is not None:
            lines.append(self._line(f"Rented machines cost {format_usd(self._facts.spent_usd)}"))
        return ChapterView(title="What it cost", lines=tuple(lines))

    def stands(self) -> ChapterView:
        best = self._summary.best
        headline = self._summary.headline.partition(": ")[2]
        state = f"{headline[:1].upper()}{headline[1:]}"
        told = self._facts.bests[-1].event if self._facts.bests else None
        lines = [self._line(state), self._line(best.sentence, event=told)]
        if self._summary.supported.lines:
            lines.append(self._line(self._summary.supported.sentence))
        slowed = self._campaign.throttling
        if slowed is not None:
            lines.append(self._line(f"{slowed.told} {slowed.means}", *slowed.experiments))
        return ChapterView(title="Where it stands", lines=tuple(lines))

    def next(self) -> ChapterView:
        facts = self._campaign
        part = self._summary.validating
        if facts.state is not CampaignState.STOPPED:
            shown = [self._line(each) for each in part.lines[: self._most + len(facts.testing)]]
            return ChapterView(title="What comes next", lines=(self._line(part.sentence), *shown))
        waiting = facts.hypotheses.get("queued", 0)
        ended = [
            self._line(f"{each.id}  {clause(each.claim)} ({each.ended})")
            for each in facts.testing
            if each.ended is not None
        ]
        if not waiting:
            lines = ended or [self._line("Nothing: the queue is empty")]
            return ChapterView(title="What comes next", lines=tuple(lines))
        left = f"{counted(waiting, 'hypothesis is', 'hypotheses are')} left in the queue, first:"
        first = [
            self._line(f"{each.id}  {clause(each.claim)}" + (f": {each.reason}" if each.reason else ""))
            for each in facts.next[: self._most]
        ]
        return ChapterView(title="What comes next", lines=(*ended, self._line(left, stop=False), *first))

    def _chapter(self, title: str, lines: Sequence[StoryLine], *, newest: bool) -> ChapterView | None:
        """A chapter of what happened one after the other; a short one keeps the first and the newest."""
        if not lines:
            return None
        if len(lines) <= self._most:
            return ChapterView(title=title, lines=tuple(lines))
        kept = (lines[0], *lines[len(lines) - self._most + 1 :]) if newest else lines[: self._most]
        return ChapterView(title=title, lines=tuple(kept), more=len(lines) - self._most)

    def _of_parts(self, title: str, parts: Sequence[PartView]) -> ChapterView | None:
        """A chapter of parts of the summary, each with its sentence first."""
        if not parts:
            return None
        lines, more = [], 0
        for part in parts:
            lines.append(self._line(part.sentence))
            for each in part.lines:
                left = re.fullmatch(r"and (\d+) more", each)
                if left:
                    more += int(left[1])
                else:
                    lines.append(self._line(each))
        return ChapterView(title=title, lines=tuple(lines), more=more)

    def _in(self, at: datetime) -> str:
        """How long after its beginning something happened."""
        began = self._campaign.started_at
        seconds = 0.0 if began is None else max(0.0, (at - began).total_seconds())
        return f"After {format_duration(round(seconds))}"

    def _line(self, text: str, *about: str | None, event: int | None = None, stop: bool = True) -> StoryLine:
        return line(self._campaign.campaign, text, *about, event=event, stop=stop)


def _claimed(fact: JudgedFact) -> str:
    figure = effect(fact.effect_log, fact.low_log, fact.high_log, fact.metric)
    return f"{clause(fact.claim)}, {metric_word(fact.metric)} {figure} ({fact.experiment})"


def _interval(best: BestView) -> str:
    return "" if best.low is None or best.high is None else f" [{best.low:.3f}, {best.high:.3f}]"


def _agrees(standing: str) -> bool:
    return standing == "agrees"
