"""What is on the loop's desk when it decides: facts, beliefs and the ranking they lead to. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from agent.campaign.decision.beside import counted_from, flying_now
from agent.campaign.decision.counted_launches import launches_of
from agent.campaign.decision.counted_steps import steps_of
from agent.campaign.decision.expected_cost import cost_priors, most_seconds
from agent.campaign.decision.expected_there import Here, best_there, candidate_there, target_of
from agent.campaign.decision.learnt_from import LearntFrom
from agent.campaign.decision.leaving import leaving, spoken_against
from agent.campaign.decision.stated import combined, from_incumbent
from agent.campaign.decision.steered import disputes_in_turn, settling, used_by, used_up
from agent.campaign.decision.steps_served import baseline_step, best_step
from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.incumbent import Incumbent, is_on
from agent.campaign.known.measured import Baseline
from agent.campaign.known.room import room_of
from agent.ground.legal import Legal
from agent.ground.shape import refused_on_a_shape
from agent.ground.sweep import swept
from agent.proposers.carried import taken_over
from agent.proposers.confirmation import PROPOSER as CONFIRMATION
from agent.proposers.port import CampaignView
from agent.proposers.user import PROPOSER as USER
from agent.proposers.user import was_asked_for
from agent.ranking.candidates import candidate_of
from agent.ranking.ranking import rank
from agent.ranking.values import Candidate, Directive, Ranking, Used
from agent.ranking.wholes import changes_of, parts_of
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.feasibility import Tried
from agent.surrogate.lone_prompt import FirstTokenShares, LonePrompt
from agent.surrogate.objective import first_token_share
from agent.surrogate.physics import Physics
from agent.surrogate.prompt_launches import PromptLaunches
from agent.surrogate.step_tokens import StepTokens
from agent.surrogate.timed_kernels import TimedKernels, refused_by
from configs.language_model import PROPOSER as LANGUAGE_MODEL
from db.states import DirectiveKind
from experiments.engines.port import PartTime
from experiments.job.named import serves_packed
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Margins, Prediction
from experiments.space.configuration import Change, Configuration
from experiments.space.space import Space


@dataclass(frozen=True)
class Desk:
    """A campaign with its baseline measured; `believed` where that is known without learning it from the
    trials."""

    facts: Facts
    legal: Legal
    baseline: Baseline
    directives: Sequence[Directive]
    believed: Beliefs | None = None

    @property
    def space(self) -> Space:
        """The space that this ground allows."""
        return self.legal.space

    @property
    def baseline_configuration(self) -> Configuration:
        """Trial 0."""
        found = self.facts.baseline
        assert found is not None
        return found

    @cached_property
    def incumbent(self) -> Incumbent:
        """The best configuration so far."""
        found = self.facts.incumbent
        assert found is not None
        return found

    @cached_property
    def serves_packed(self) -> bool:
        """Whether the engine computes with packed quantized weights."""
        return serves_packed(self.facts.spec.engine)

    @cached_property
    def timed(self) -> TimedKernels | None:
        """The engine's kernels, timed alone; None where they were not."""
        found = self.baseline.kernel_timings
        return None if found is None else TimedKernels(found)

    @property
    def tpot_ms(self) -> float:
        """The baseline's time a token."""
        return self.baseline.tpot_ms[self.baseline_configuration.digest]

    @cached_property
    def profile(self) -> tuple[PartTime, ...]:
        """A decode step of the baseline by part."""
        return baseline_step(self.facts, self.baseline, self.baseline_configuration)

    @cached_property
    def incumbent_profile(self) -> tuple[PartTime, ...]:
        """A decode step of the best so far by part; empty where it was not profiled itself."""
        return best_step(self.facts, self.incumbent, self.tpot_ms)

    @cached_property
    def step_tokens(self) -> StepTokens | None:
        """The loop of steps of the campaign's requests; None where nothing of it could be counted."""
        return steps_of(self.facts, self.legal.profile, self.tpot_ms)

    @cached_property
    def prompt_launches(self) -> PromptLaunches | None:
        """What the first token of the campaign's lone request waits for; None where that can't be counted."""
        ttft_ms = self.baseline.ttft_ms.get(self.baseline_configuration.digest)
        return launches_of(self.facts, self.legal.profile, ttft_ms, self.lone_prompt)

    @property
    def lone_prompt(self) -> LonePrompt | None:
        """What the baseline's profile tells of the campaign's lone request up to its first token; None where
        it asks for several at once, whose prompts wait for each other, or none was profiled."""
        return self.baseline.lone_prompt if self.one_at_once else None

    @property
    def one_at_once(self) -> bool:
        """Whether the campaign asks for one request at once."""
        return self.facts.spec.plan.workload.concurrency == 1

    @property
    def first_token(self) -> FirstTokenShares | None:
        """What the baseline's first token is made of, as far as that was profiled and timed."""
        ttft_ms = self.baseline.ttft_ms.get(self.baseline_configuration.digest)
        return None if self.lone_prompt is None or not ttft_ms else self.lone_prompt.shares(ttft_ms)

    @cached_property
    def beliefs(self) -> Beliefs:
        """Physics from the baseline, corrected by every trial."""
        return self.learnt_from.beliefs() if self.believed is None else self.believed

    @property
    def learnt_from(self) -> LearntFrom:
        """What the beliefs are learnt from, where they are not given."""
        baseline = self.baseline_configuration
        crossed = swept(self.space, self.facts.start, self.facts.spec.baseline.sweep)
        own_ms = self.baseline.own_ms or self.baseline.tpot_ms
        lasted = [each for each in crossed if each.digest in own_ms]
        physics = Physics(
            baseline=baseline,
            tpot_ms=self.tpot_ms,
            profile=self.profile,
            model_layers=self.facts.model_layers,
            bandwidth_bytes_per_s=self.baseline.bandwidth_bytes_per_s,
            shape=self.legal.profile,
            timed=self.timed,
            serves_packed=self.serves_packed,
            incumbent_profile=self.incumbent_profile,
            incumbent_runs=self.facts.incumbent_runs,
            step_tokens=self.step_tokens,
            prompt_launches=self.prompt_launches,
            first_token=self.first_token,
            one_at_once=self.one_at_once,
            requests=self.facts.spec.plan.workload.concurrency,
            swept_log={each: math.log(own_ms[each.digest] / own_ms[baseline.digest]) for each in lasted},
            first_token_share=first_token_share(
                self.facts.objective,
                self.baseline.ttft_ms.get(baseline.digest),
                self.tpot_ms,
                self.facts.spec.plan.workload.new_tokens,
            ),
        )
        margins = Margins.model_validate(self.facts.spec.plan.margins.model_dump())
        priors = cost_priors(
            self.facts.spec.plan,
            self.baseline,
            baseline.digest,
            self.legal.profile,
            self.facts.built_s,
            in_turn=self.facts.in_turn,
            at_once=self.facts.at_once,
            cores=self.facts.cores,
            made_up=self.facts.spec.latency_only,
            timed=self.timed,
            room=partial(room_of(self.facts), self.incumbent.configuration),
        )
        return LearntFrom(
            space=self.space,
            physics=physics,
            trials=self.facts.trials,
            margins=margins,
            priors=priors,
            judges_quality=not self.facts.spec.latency_only,
            carried=self.facts.carried,
            swept=(*self.facts.failed_in_sweep, *(Tried(each, ran=True) for each in lasted)),
            built_ahead=self.facts.built_ahead,
        )

    @property
    def trust(self) -> float:
        """The weight of what other campaigns told in what is expected of latency; 1 where they told
        nothing."""
        return self.beliefs.latency.belief.carried_weight if self.facts.carried else 1.0

    @property
    def trusts_beliefs(self) -> bool:
        """Whether what is called worthless may be believed: few verdicts don't tell yet."""
        judged = sum(is_on(each, self.facts.objective) for each in self.facts.trials)
        return judged >= self.facts.spec.least_verdicts

    @cached_property
    def view(self) -> CampaignView:
        """What proposers may read."""
        facts, baseline = self.facts, self.baseline_configuration
        return CampaignView(
            space=self.space,
            baseline=baseline,
            incumbent=self.incumbent.configuration,
            incumbent_hypothesis_id=self.incumbent.hypothesis_id,
            tpot_ms=self.tpot_ms,
            profile=self.profile,
            model_layers=facts.model_layers,
            cores=facts.cores,
            trials=facts.trials,
            taken=facts.taken(self.incumbent.configuration, self.leaving),
            banned_levers=frozenset(
                each.lever
                for each in self.directives
                if each.kind == DirectiveKind.BAN and each.lever is not None
            )
            | used_up(self.directives, self.used),
            predict=self.beliefs.predict,
            min_effect=facts.spec.plan.min_effect,
            seed=facts.spec.seed,
            refused=refused_by(self.timed, refused_on_a_shape(facts.spec, self.legal.refused)),
            timed=self.timed,
            step_tokens=self.step_tokens,
            prompt_launches=self.prompt_launches,
            lone_prompt=self.lone_prompt,
            predict_on=self.beliefs.predict,
            serves_packed=self.serves_packed,
            incumbent_profile=self.incumbent_profile,
            incumbent_runs=facts.incumbent_runs,
            bandwidth_bytes_per_s=self.baseline.bandwidth_bytes_per_s,
            launches_sd_log=self.beliefs.latency.launches_sd_log,
            carried_bests=facts.carried_bests,
            stale_findings=facts.stale_findings,
            objective=facts.objective,
            ttft_ms=self.baseline.ttft_ms.get(baseline.digest),
            new_tokens=facts.spec.plan.workload.new_tokens,
            best_first_token_share=facts.incumbent_first_token_share,
            drafting_cost=self.beliefs.latency.physics.drafting_cost,
        )

    @cached_property
    def used(self) -> Used:
        """What the campaign's tests have used, as caps and minimum shares count it."""
        return used_by(self.facts, self.space, self.directives, self.beliefs.cost_s)

    @cached_property
    def settling(self) -> dict[int, str]:
        """What in the queue settles the question of the night, with its label."""
        return settling(self.facts, self.directives)

    @cached_property
    def disputes_in_turn(self) -> tuple[int, ...]:
        """What takes a dispute apart, where it is such a test's turn, by hypothesis."""
        return disputes_in_turn(self.facts, self.view.banned_levers)

    @cached_property
    def ranking(self) -> Ranking:
        """The order of the queue now."""
        return self.ranking_of(self.facts.queue)

    def ranking_of(self, queue: Sequence[Queued]) -> Ranking:
        """The order of these hypotheses by what is believed now."""
        best = {device: best_there(self.facts, target_of(self.facts, device)) for device in _targets(queue)}
        beliefs = self.beliefs.about(
            [(best.get(each.target, self.incumbent).configuration, each.candidate) for each in queue]
        )
        most: Sequence[float | None] = [None] * len(queue)
        if self.approve_above_s < math.inf:
            tested = [(each.control, each.candidate) for each in queue]
            most = most_seconds(self.facts, self.baseline, self.beliefs.cost, tested)
        flying = flying_now(self.facts, self.space, self.beliefs, self.incumbent.configuration)
        here = Here(self.facts, self.space, self.baseline, self.beliefs.cost)
        wholes = self._wholes(queue)
        steps = self._steps_to(each.control for each in queue if each.proposer == USER and not each.target)
        candidates = []
        for each, belief, most_s in zip(queue, beliefs, most, strict=True):
            if each.target:
                candidates.append(candidate_there(here, each, belief))
                continue
            prediction, metric = belief.prediction, None
            if each.metric != self.facts.objective:
                metric = Metric(each.metric)
                prediction = self.prediction_of(each)
            elif each.proposer == USER:
                prediction = combined(prediction, from_incumbent(each.prediction, steps.get(each.control)))
            beside = None
            if flying and metric is None:
                changed = self.space.levers_between(self.incumbent.configuration, each.candidate)
                beside = counted_from(changed, flying)
            levers = self.space.levers_between(each.control, each.candidate)
            candidates.append(
                replace(
                    candidate_of(each.id, levers, belief),
                    log_ratio_mean=prediction.log_ratio_mean
                    - (0.0 if beside is None else beside.expected_log),
                    log_ratio_sd=prediction.log_ratio_sd,
                    beside=beside,
                    judges_quality=not self.facts.spec.latency_only,
                    pinned=each.pinned,
                    asked=each.question is not None,
                    separates=each.separates,
                    stands_for=each.stands_for,
                    untested=each.stands_for if each.foreseen else None,
                    metric=metric,
                    most_s=most_s,
                    usd=self.facts.usd_per_s and self.facts.usd_per_s * belief.cost_s,
                    settles=self.settling.get(each.id),
                    confirms=each.proposer == CONFIRMATION,
                    part_of=parts_of(wholes, changes_of(each.control, each.candidate))
                    if wholes and metric is None
                    else (),
                )
            )
        return self._with_a_dispute(candidates, {each.id: each.disputes for each in queue})

    def _with_a_dispute(
        self, candidates: Sequence[Candidate], disputes: Mapping[int, tuple[str, ...]]
    ) -> Ranking:
        """The order with the turn given to the first dispute that may be tested then: one that waits for
        approval, or for a cap, keeps no other's turn, and has it where none may."""
        first: Ranking | None = None
        for number in self.disputes_in_turn:
            if number not in disputes:
                continue
            ranking = self._rank(
                [
                    replace(each, takes_apart=disputes[number]) if each.hypothesis_id == number else each
                    for each in candidates
                ]
            )
            if next(each for each in ranking.places if each.hypothesis_id == number).may_run:
                return ranking
            first = first or ranking
        return first or self._rank(candidates)

    def _rank(self, candidates: Sequence[Candidate]) -> Ranking:
        return rank(
            candidates,
            self.directives,
            approve_above_s=self.approve_above_s,
            used=self.used,
            usd_per_hour=self.facts.spec.usd_per_hour,
        )

    def _wholes(self, queue: Sequence[Queued]) -> dict[int, frozenset[tuple[Configuration, Change]]]:
        """What in a queue is another campaign's best, all of it, on top of the best here, with its
        changes."""
        if not self.facts.carried_bests:
            return {}
        found = [taken_over(self.view, each) for each in self.view.carried_bests]
        bests = {each.candidate for each in found if not each.left_out}
        on_best = [each for each in queue if each.control == self.incumbent.configuration]
        return {
            each.id: changes_of(each.control, each.candidate)
            for each in on_best
            if each.candidate in bests and not each.target
        }

    @cached_property
    def here(self) -> Ranking:
        """The part of the order that is for the campaign's own target."""
        return Ranking(tuple(place for place in self.ranking.places if not place.target))

    @property
    def approve_above_s(self) -> float:
        """The expected seconds of an experiment above which the user is asked first."""
        above = self.facts.spec.approve_above
        return math.inf if above is None else above.wall_s

    @cached_property
    def leaving(self) -> dict[int, str]:
        """What the agent proposed and would not propose now, by hypothesis, with the reason as a clause."""
        return leaving(self.facts, self.incumbent, self.settling, self.trust)

    def spoken_against(self, control: Configuration, candidate: Configuration) -> str | None:
        """What tells already that a change is not worth a test, as a clause; None where nothing does."""
        return spoken_against(self.facts, self.trust, control, candidate)

    def prediction_of(self, hypothesis: Queued) -> Prediction:
        """What is predicted for a test now: the number of who asked for it, or a language model's own, which
        are held to it, else what is believed by now."""
        if was_asked_for(hypothesis.proposer) or hypothesis.proposer == LANGUAGE_MODEL:
            return hypothesis.prediction
        return self.beliefs.predict(hypothesis.control, hypothesis.candidate, Metric(hypothesis.metric))

    def _steps_to(self, controls: Iterable[Configuration]) -> dict[Configuration, Prediction]:
        """What is believed of each of these over the incumbent, those that are the incumbent left out."""
        best = self.incumbent.configuration
        others = [each for each in dict.fromkeys(controls) if each != best]
        found = self.beliefs.latency.predict([(best, each) for each in others])
        return dict(zip(others, found, strict=True))


def _targets(queue: Sequence[Queued]) -> set[str]:
    """The other targets that something of this queue is for."""
    return {each.target for each in queue if each.target}
