"""The tools that read. A docstring is what the client is told of its tool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dashboard.mcp import (
    answers,
    arguments,
    campaign_answers,
    device_answers,
    experiment_answers,
    finding_answers,
    hypothesis_answers,
    log_answers,
    pareto_answers,
    possible_answers,
    sample_answers,
)
from dashboard.mcp.source import Source
from dashboard.page import Ground
from db.event_kinds import EventKind
from db.states import Arm, ExperimentState, FindingStatus, HypothesisState, VerdictOutcome


class ReadTools:
    """Tools over one database; none of them writes."""

    def __init__(self, source: Source, ground: Ground) -> None:
        self._source, self._ground = source, ground

    def campaigns(
        self, limit: arguments.Limit = 10, offset: arguments.Offset = 0
    ) -> answers.Listed[campaign_answers.CampaignAnswer]:
        """List campaigns, newest first: model, target, objective, limits, budget, counts, directives."""
        with self._source.read() as session:
            return campaign_answers.campaigns(session, limit, offset)

    def queue(
        self,
        campaign: arguments.Campaign = None,
        lever: arguments.Lever = None,
        limit: arguments.Limit = 10,
        offset: arguments.Offset = 0,
    ) -> answers.Listed[hypothesis_answers.QueueItem]:
        """What is under test and what comes next, in order, with the reason for each place.

        Predicted effects are relative changes of the metric in per cent with their 80 % interval; negative
        is faster.
        """
        with self._source.read() as session:
            return hypothesis_answers.queue(session, campaign, lever, limit, offset)

    def hypotheses(
        self,
        campaign: arguments.OneCampaign = None,
        state: list[HypothesisState] | None = None,
        lever: arguments.Lever = None,
        proposer: Annotated[
            str | None, Field(description="Only what this one proposed.", max_length=200)
        ] = None,
        search: arguments.Search = None,
        limit: arguments.Limit = 10,
        offset: arguments.Offset = 0,
    ) -> answers.Listed[hypothesis_answers.HypothesisItem]:
        """All hypotheses and what became of them: under test and queued first, then the newest change."""
        with self._source.read() as session:
            return hypothesis_answers.hypotheses(
                session, campaign, tuple(state or ()), lever, proposer, search, limit, offset
            )

    def why(self, hypothesis: arguments.Hypothesis) -> hypothesis_answers.WhyAnswer:
        """Why a hypothesis stands where it does in the queue, or why it is ruled out.

        Gives the reason and the parts of its score, its last moves with their causes, its verdict and the
        findings that it is evidence for or against. The tool why_not adds bans, legality and other tests.
        """
        with self._source.read() as session:
            return hypothesis_answers.why(session, hypothesis)

    def experiments(
        self,
        campaign: arguments.OneCampaign = None,
        state: list[ExperimentState] | None = None,
        outcome: list[VerdictOutcome] | None = None,
        lever: arguments.Lever = None,
        search: arguments.Search = None,
        limit: arguments.Limit = 10,
        offset: arguments.Offset = 0,
    ) -> answers.Listed[experiment_answers.ExperimentItem]:
        """List experiments, newest first: past, running, planned, with outcome, effect, 95 % interval."""
        with self._source.read() as session:
            return experiment_answers.experiments(
                session, campaign, tuple(state or ()), tuple(outcome or ()), lever, search, limit, offset
            )

    def experiment(self, experiment: arguments.Experiment) -> experiment_answers.ExperimentAnswer:
        """One experiment: verdict, effect with its 95 % interval, quality, launches, versions, failure.

        Spreads are by launch, a fresh process of one arm; raw samples come from the tool samples.
        """
        with self._source.read() as session:
            return experiment_answers.experiment(session, experiment)

    def samples(
        self,
        experiment: arguments.Experiment,
        metric: Annotated[
            str | None, Field(description="Only this metric, such as tpot_ms.", max_length=80)
        ] = None,
        arm: Arm | None = None,
        launch: Annotated[
            int | None, Field(description="Only the launch of this number.", ge=0, le=10**6)
        ] = None,
        limit: Annotated[int, Field(description="The most samples to answer.", ge=1, le=200)] = 50,
        offset: arguments.Offset = 0,
    ) -> sample_answers.SamplesAnswer:
        """Raw samples of an experiment, launch by launch; each with its unit."""
        with self._source.read() as session:
            return sample_answers.samples(session, experiment, metric, arm, launch, limit, offset)

    def findings(
        self,
        about: Annotated[
            str | None,
            Field(
                description="A lever, a knob or its group (serving.threads, serving), or a part of the scope "
                "(torch=2.13.0).",
                max_length=200,
            ),
        ] = None,
        target: Annotated[
            str | None, Field(description="A part of the hardware's name, such as H200.", max_length=200)
        ] = None,
        campaign: arguments.OneCampaign = None,
        status: list[FindingStatus] | None = None,
        limit: arguments.Limit = 10,
        offset: arguments.Offset = 0,
    ) -> answers.Listed[finding_answers.FindingItem]:
        """What is known about a knob on a piece of hardware: findings, the last changed first.

        A finding holds for its model, target, engine and versions alone; strength and status say how far it
        may be believed.
        """
        with self._source.read() as session:
            return finding_answers.findings(
                session, about, target, campaign, tuple(status or ()), limit, offset
            )

    def finding(self, finding: arguments.Finding) -> finding_answers.FindingAnswer:
        """One finding in full: scope, the verdicts behind it, spread between campaigns, disputes."""
        with self._source.read() as session:
            return finding_answers.finding(session, finding)

    def summary(self, campaign: arguments.Campaign = None) -> campaign_answers.SummaryAnswer:
        """A campaign as a story: best, validated now, supported, ruled out, left open, spent."""
        with self._source.read() as session:
            return campaign_answers.summary(session, campaign)

    def log(
        self,
        campaign: arguments.OneCampaign = None,
        after_id: Annotated[
            int | None,
            Field(description="Only events after this id; the last ones if not given.", ge=0, le=10**15),
        ] = None,
        kind: list[EventKind] | None = None,
        limit: arguments.Limit = 20,
    ) -> log_answers.LogAnswer:
        """Lines of the running log, oldest first; call again with after_id = last_id to follow it."""
        with self._source.read() as session:
            return log_answers.log(session, campaign, after_id, tuple(kind or ()), limit)

    def pareto(
        self,
        campaign: arguments.Campaign = None,
        metric: Annotated[
            Literal["tpot_ms", "ttft_ms", "itl_ms", "e2el_ms"] | None,
            Field(description="Which latency, ms; the campaign's own if not given."),
        ] = None,
    ) -> pareto_answers.ParetoAnswer:
        """Latency in ms against quality: the front with the baseline and the best so far (`is_best`)."""
        with self._source.read() as session:
            return pareto_answers.pareto(session, campaign, metric)

    def devices(self) -> device_answers.DevicesAnswer:
        """What the GPUs and processors of the server's machine do now; takes a second."""
        return device_answers.devices()

    def what_if(
        self,
        hypothesis: arguments.Hypothesis,
        outcome: Annotated[
            Literal["supported", "refuted", "infeasible"] | None,
            Field(description="What is assumed; each in turn if not given."),
        ] = None,
        saves_percent: Annotated[
            float | None,
            Field(
                description="What a supported one saves, in per cent; what is predicted if not given.",
                gt=0,
                lt=100,
            ),
        ] = None,
        campaign: arguments.Campaign = None,
    ) -> possible_answers.WhatIfAnswer:
        """Where the queue would go if a queued hypothesis were decided; changes nothing."""
        with self._source.read() as session:
            return possible_answers.what_if_decided(
                session, self._ground, campaign, hypothesis, outcome, saves_percent
            )

    def space(
        self, assignments: arguments.Assignments | None = None, campaign: arguments.Campaign = None
    ) -> possible_answers.SpaceAnswer:
        """The levers, and the knobs with their values that may be set on the best configuration so far.

        Some knobs become legal by others: give what you would set as `assignments` to see them.
        """
        with self._source.read() as session:
            return possible_answers.space(session, self._ground, campaign, assignments or [])

    def preview(
        self,
        assignments: arguments.Assignments,
        claim: Annotated[str | None, Field(description="The claim.", max_length=500)] = None,
        expect: arguments.Expect = None,
        min_effect: arguments.MinEffect = None,
        campaign: arguments.Campaign = None,
    ) -> possible_answers.PreviewAnswer:
        """What would become of a proposal: predicted effect, place, cost in seconds, or why it is refused.

        Writes nothing. Ask this before the tool propose.
        """
        with self._source.read() as session:
            return possible_answers.preview(
                session, self._ground, campaign, claim, assignments, expect, min_effect
            )
