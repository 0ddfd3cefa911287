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
from configs.moments import format_utc
from configs.quantities import format_duration, format_usd
from db.states import CampaignState, VerdictOutcome
from knowledge.figures import (
    DEFAULT_METRIC,
    against_control,
    better,
    counted,
    effect,
    listed,
    margin,
    metric_word,
    taken,
)
from knowledge.latency_only import LATENCY_ONLY
from knowledge.machines import machine
from knowledge.queries.bests import BestView
from knowledge.queries.order.carried import CarriedView
from knowledge.stored import number
from knowledge.telling.facts import JudgedFact
from knowledge.telling.story_parts import ChapterView, Said, StoryFacts, StoryLine, StoryView
from knowledge.telling.summary import summarize
from knowledge.telling.summary_part import MOST_NAMED, PartView

SHORT_LINES = 2
"""Things named in a chapter of the short story; the others are counted."""

FOUND_FIRST, BETTER = "Found first", "Better and better"

ALL_LINES = 1_000_000
"""The same of the long one: everything."""

_LABEL = re.compile(r"\b[CEFHJD]-\d{1,9}\b")


def tell_story(facts: StoryFacts, *, whole: bool = False) -> StoryView:
    """Return the story, short for one screen or `whole`; equal facts give equal words."""
    teller = _Teller(facts, ALL_LINES if whole else SHORT_LINES)
    chapters = (
        teller.began(),
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

    def began(self) -> ChapterView:
        facts, campaign = self._facts, self._campaign
        worth = "" if facts.min_effect is None else f" by {margin(facts.min_effect, facts.metric)} or more"
        verb = "raise" if better(facts.metric) == "raises" else "lower"
        aim = f"{campaign.model} on {machine(campaign.target)}, to {verb} {metric_word(facts.metric)}{worth}"
        if campaign.budget_s is not None:
            aim += f", within {format_duration(campaign.budget_s)}"
        when = (
            "has not begun" if campaign.started_at is None else f"began on {format_utc(campaign.started_at)}"
        )
        lines = [self._line(f"{campaign.campaign} {when}: {aim}")]
        if facts.latency_only:
            lines.append(self._line(f"Its weights are made up, so that it speaks of {LATENCY_ONLY}"))
        lines.append(self._baseline())
        if campaign.baseline_in_tests is not None:
            about = () if facts.baseline_experiment is None else (facts.baseline_experiment,)
            lines.append(self._line(campaign.baseline_in_tests.plain, *about))
        if campaign.carried is not None:
            lines.append(self._carried(campaign.carried))
        question = campaign.question
        if question is not None:
            asked = f"The question of the night was {question.hypothesis}, {_clause(question.claim)}"
            lines.append(self._line(f"{asked}: {_clause(question.sentence)}", question.hypothesis))
        return ChapterView(title="How it began", lines=tuple(lines))

    def _carried(self, found: CarriedView) -> StoryLine:
        """What it began with; other databases' campaigns are not named, as their labels name others here."""
        text = (
            f"It began with {counted(found.outcomes, 'outcome')} of other campaigns, which count "
            f"{100 * found.weight:.0f} % now"
        )
        if found.findings:
            named = [*found.findings[:MOST_NAMED]]
            more = len(found.findings) - len(named)
            text += f"; they bear on {listed([*named, *([f'{more} more'] if more else [])])}"
        return self._line(text, event=found.event_id)

    def _baseline(self) -> StoryLine:
        facts = self._facts
        told = self._campaign.outcome.get("baseline")
        metric = self._facts.metric
        if not isinstance(told, dict) or number(told.get(metric)) is None:
            metric = DEFAULT_METRIC  # an older version told no other
        baseline_ms = number(told.get(metric)) if isinstance(told, dict) else None
        about = () if facts.baseline_experiment is None else (facts.baseline_experiment,)
        if baseline_ms is None:
            return self._line(f"Trial 0, the baseline, {self._not_measured()}", *about)
        naive = self._campaign.outcome.get("naive")
        naive_ms = number(naive.get(metric)) if isinstance(naive, dict) else None
        longer = (
            f"; the engine's own default took {naive_ms / baseline_ms:.2f}× as long"
            if naive_ms and naive_ms != baseline_ms
            else ""
        )
        where = f" ({facts.baseline_experiment})" if facts.baseline_experiment else ""
        return self._line(f"Trial 0, the baseline, takes {taken(baseline_ms, metric)}{longer}{where}", *about)

    def _not_measured(self) -> str:
        broken, campaign = self._facts.baseline_failure, self._campaign
        if broken is not None:
            return f"could not be measured: {_clause(broken)}"
        if campaign.state is not CampaignState.STOPPED:
            return "is not measured yet"
        why = campaign.stopped_because
        return "was not measured" + (f": {_clause(why)}" if why else "")

    def said(self) -> ChapterView | None:
        lines = [(each.event, self._said(each)) for each in self._facts.said]
        lines += [
            (
                each.event,
                self._line(f"{self._in(each.at)} {_clause(each.text)}", each.subject, event=each.event),
            )
            for each in self._facts.made_stale
        ]
        in_time = [line for _, line in sorted(lines, key=lambda each: each[0])]
        return self._chapter("What was said to it", in_time, newest=True)

    def _said(self, each: Said) -> StoryLine:
        stale = f", which made {listed(list(each.stale))} stale" if each.stale else ""
        who = "you" if each.by is None else author_words(each.by)
        text = f"{self._in(each.at)} {who} {each.verb}: {_clause(each.told)}{stale}"
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
            self._line(f"{self._in(each.at)} {_lowered(each.text)}", each.subject, event=each.event)
            for each in self._facts.disputes
        ]
        return self._chapter("Disputed", lines, newest=True)

    def troubles(self) -> ChapterView | None:
        lines = [
            self._line(f"{self._in(each.at)} {_lowered(each.text)}", each.subject, event=each.event)
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
            self._line(f"{row.experiment} {row.standing.value} in {row.fresh.experiment}: {_clause(row.why)}")
            for row in named[: self._most]
            if row.fresh is not None
        ]
        lines += [
            self._line(
                f"{self._in(each.at)} {_lowered(_first_sentence(each.text))}", each.subject, event=each.event
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
            self._line(f"{each.id}  {_clause(each.claim)} ({each.ended})")
            for each in facts.testing
            if each.ended is not None
        ]
        if not waiting:
            lines = ended or [self._line("Nothing: the queue is empty")]
            return ChapterView(title="What comes next", lines=tuple(lines))
        left = f"{counted(waiting, 'hypothesis is', 'hypotheses are')} left in the queue, first:"
        first = [
            self._line(f"{each.id}  {_clause(each.claim)}" + (f": {each.reason}" if each.reason else ""))
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
        """A line as a sentence; it is about its labels and the campaign."""
        named = dict.fromkeys([*(each for each in about if each), *_LABEL.findall(text)])
        labels = tuple(dict.fromkeys([*named, self._campaign.campaign]))
        said = _clause(text)
        ended = said if said.endswith("?") else f"{said}."
        return StoryLine(text=ended if stop else text, about=labels, event=event)


def _claimed(fact: JudgedFact) -> str:
    figure = effect(fact.effect_log, fact.low_log, fact.high_log, fact.metric)
    return f"{_clause(fact.claim)}, {metric_word(fact.metric)} {figure} ({fact.experiment})"


def _interval(best: BestView) -> str:
    return "" if best.low is None or best.high is None else f" [{best.low:.3f}, {best.high:.3f}]"


def _agrees(standing: str) -> bool:
    return standing == "agrees"


def _lowered(text: str) -> str:
    """A sentence as the rest of another: its first word small, unless it is a name."""
    first = text.split(" ", 1)[0]
    return f"{text[:1].lower()}{text[1:]}" if first[1:].islower() or first in ("A", "The") else text


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0]


def _clause(sentence: str) -> str:
    return " ".join(sentence.split()).rstrip(".:")
