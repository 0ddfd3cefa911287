"""The kinds of events: what may stand in the running log. `docs/events.md` lists them for users.

A kind is a dotted name, the noun before the dot and what happened to it after. Kinds are stored as text and
old logs stay readable, so a kind may be added but neither renamed nor given another meaning.
"""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """What happened; `meaning` says it in a sentence."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> EventKind:
        """Make the member `value` that carries its `meaning`."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    CAMPAIGN_STARTED = ("campaign.started", "A campaign began, with its model, target, limits and budget.")
    CAMPAIGN_BEGINS_FROM = (
        "campaign.begins_from",
        "What the campaign was to begin from does not run, and fewer bits are tried, with the reason.",
    )
    CAMPAIGN_BASELINE = (
        "campaign.baseline",
        "The baseline was chosen and measured; the naive default as the sweep compared it.",
    )
    CAMPAIGN_CARRIED = (
        "campaign.carried",
        "How far what other campaigns found is believed here; again when that has moved by ten points.",
    )
    CAMPAIGN_PROFILED = (
        "campaign.profiled",
        "The baseline was profiled: where the time of a decode step goes, and that of a lone prompt up to "
        "its first token, which stands alone where the campaign is about first tokens.",
    )
    CAMPAIGN_KERNELS_TIMED = (
        "campaign.kernels_timed",
        "Kernels for packed weights were timed alone before anything was loaded, or why they could not be.",
    )
    CAMPAIGN_BUILT_AHEAD = (
        "campaign.built_ahead",
        "What was built for tests on other devices while the baseline was measured, and how long that took.",
    )
    CAMPAIGN_BEST = ("campaign.best", "Another configuration is the best of the campaign now.")
    CAMPAIGN_PAUSED = ("campaign.paused", "The user paused the campaign; what runs is finished.")
    CAMPAIGN_RESUMED = (
        "campaign.resumed",
        "The campaign goes on after a pause or after its loop was restarted.",
    )
    CAMPAIGN_DEVICE_OUT = (
        "campaign.device_out",
        "A device of a campaign that has others is left out from now on, and why.",
    )
    CAMPAIGN_DEVICE_RESTS = (
        "campaign.device_rests",
        "A device of a campaign is used by others and gets no test until they are gone: who they are, and "
        "when it is looked at again.",
    )
    CAMPAIGN_DEVICE_BACK = (
        "campaign.device_back",
        "A device that rested takes tests again, and why.",
    )
    CAMPAIGN_VERIFYING = (
        "campaign.verifying",
        "The supported verdicts of the campaign are being reproduced in fresh processes.",
    )
    CAMPAIGN_VERIFIED = (
        "campaign.verified",
        "How many of the supported verdicts fresh processes said again, and what could not be run.",
    )
    CAMPAIGN_WAITS = (
        "campaign.waits",
        "Nothing is left to test but what waits for the user's approval.",
    )
    CAMPAIGN_STOPPED = ("campaign.stopped", "The campaign ended, with the reason.")
    HYPOTHESIS_PROPOSED = (
        "hypothesis.proposed",
        "A proposer or the user made a hypothesis, and it was accepted.",
    )
    HYPOTHESIS_REFUSED = (
        "hypothesis.refused",
        "A draft, or what you or a coding agent asked for, was refused, with the reason, such as an earlier "
        "duplicate.",
    )
    DRAFTS_LEFT_OUT = (
        "drafts.left_out",
        "Drafts did not enter the queue, since nothing is expected of them: how many, of whom, and why.",
    )
    MODEL_ANSWERED = (
        "model.answered",
        "A language model answered: how many hypotheses, how many refused, tokens and cost.",
    )
    MODEL_FAILED = (
        "model.failed",
        "A language model gave no answer that could be read, with the cause; nothing waits for it.",
    )
    MODEL_NOT_ASKED = (
        "model.not_asked",
        "A campaign's language model is not asked, or no more, with the reason.",
    )
    HYPOTHESIS_WITHDRAWN = (
        "hypothesis.withdrawn",
        "A hypothesis left the queue without a test: who took it out, and why.",
    )
    HYPOTHESIS_CONFOUNDED = (
        "hypothesis.confounded",
        "A hypothesis is not tested as it was asked, for what confounded another test would confound it too: "
        "which one makes its claim anew.",
    )
    HYPOTHESIS_REQUEUED = (
        "hypothesis.requeued",
        "A hypothesis waits again, because its test was cancelled or its device was not to be had.",
    )
    HYPOTHESIS_RESTATED = (
        "hypothesis.restated",
        "A hypothesis of a campaign that is taken up again goes on in the form that the space of today gives "
        "its arms, with the same claim: what was left out or added.",
    )
    HYPOTHESIS_WAITS = (
        "hypothesis.waits",
        "A hypothesis waits for the user's approval, with what it is expected to cost and costs at most.",
    )
    HYPOTHESIS_PREREGISTERED = (
        "hypothesis.preregistered",
        "Prediction, margin and stopping plan were hashed before the first sample.",
    )
    QUEUE_WRITTEN_OUT = (
        "queue.written_out",
        "What waits in a campaign that is taken up again compares the same, and was written with newer knobs "
        "at their defaults, or without such that mean nothing by now: which, and in how many hypotheses.",
    )
    QUEUE_RANKED = (
        "queue.ranked",
        "The queue was put in order again; the moves and their reasons refer to it.",
    )
    JOB_CLAIMED = ("job.claimed", "A worker took a job under a lease.")
    JOB_REQUEUED = (
        "job.requeued",
        "A job went back to its place in the queue, because its lease ran out or by hand.",
    )
    JOB_FAILED = ("job.failed", "A job failed or used up its attempts, with the cause.")
    JOB_QUOTED = (
        "job.quoted",
        "The most that a job may cost was reserved within its budgets, before it was submitted.",
    )
    JOB_HELD = (
        "job.held",
        "A job for a paid target waits because of its price, for a budget or for the user's approval.",
    )
    JOB_APPROVED = (
        "job.approved",
        "The user approved the price of a job for a paid target, or took that back.",
    )
    JOB_TAKEN_OVER = (
        "job.taken_over",
        "A worker took over jobs that run on a remote target, and goes on with the same runs.",
    )
    JOB_SETTLED = (
        "job.settled",
        "A run on a remote target ended, and what it cost was settled against its quote.",
    )
    JOB_ENDED_AT_PROVIDER = (
        "job.ended_at_provider",
        "The user ended runs on rented machines that only their provider knew of.",
    )
    BUDGET_SET = ("budget.set", "The user set, changed or dropped a budget in dollars.")
    JOB_CANCELLED = ("job.cancelled", "A job was cancelled, with the reason.")
    JOB_LEFT = ("job.left", "A worker leaves a job in the queue that is not for it, with the reason.")
    STAGE_STARTED = ("stage.started", "A stage of an experiment began.")
    STAGE_PROGRESSED = (
        "stage.progressed",
        "A stage that builds something, such as a quantized checkpoint, or that waits for launches to load, "
        "tells how far it is; once a minute.",
    )
    STAGE_FINISHED = ("stage.finished", "A stage of an experiment ended, with its outcome and its seconds.")
    EXPERIMENT_STARTED = ("experiment.started", "The first stage of an experiment is about to begin.")
    EXPERIMENT_MEASURED = (
        "experiment.measured",
        "An experiment ended with its samples stored: how many launches and samples, and how long it took.",
    )
    EXPERIMENT_FAILED = ("experiment.failed", "An experiment could not be brought to an end, with the cause.")
    EXPERIMENT_STOPPED_EARLY = (
        "experiment.stopped_early",
        "An experiment was clear before its full schedule, with the seconds saved.",
    )
    EXPERIMENT_CUT_SHORT = (
        "experiment.cut_short",
        "A test that overran the budget was asked to end with what it measured, with the reason.",
    )
    EXPERIMENT_JUDGED = ("experiment.judged", "The judge gave its verdict on an experiment, with the reason.")
    EXPERIMENT_CONFOUNDED = (
        "experiment.confounded",
        "What separates the causes of a confounded experiment, or why nothing can.",
    )
    EXPERIMENT_REPRODUCED = (
        "experiment.reproduced",
        "An experiment was run again in fresh processes and compared.",
    )
    RECIPE_CHECKED = (
        "recipe.checked",
        "A recipe was checked: its gain is there, is not there any more, or that is left open, by the judge "
        "or because its time was up.",
    )
    EXPERIMENT_PROMOTED = (
        "experiment.promoted",
        "What an experiment found is to be confirmed on another target, with what that is quoted.",
    )
    EXPERIMENT_COMPARED = (
        "experiment.compared",
        "What another target said was compared with what the first had said.",
    )
    FINDING_ADDED = ("finding.added", "Verdicts together say something new.")
    FINDING_CHANGED = ("finding.changed", "A finding grew stronger or weaker, or its status changed.")
    FINDING_IMPORTED = (
        "finding.imported",
        "Verdicts of another database were taken in, and what the findings learnt of them.",
    )
    FINDING_DISPUTED = (
        "finding.disputed",
        "Two findings about one change disagree: what differs between them, and what is tested about it.",
    )
    DIRECTIVE_GIVEN = (
        "directive.given",
        "The user steered: focus, boost, ban, cap, reserve, priority, pin, question or approval.",
    )
    DIRECTIVE_LIFTED = ("directive.lifted", "A directive no longer holds.")
    QUESTION_SETTLED = (
        "question.settled",
        "What the question of the night came to: settled, and how, or left open, and why.",
    )
    NOTE_ADDED = ("note.added", "The user wrote down work done outside, such as a new driver.")
    NOISE_RECORDED = ("noise.recorded", "Control launches were added to the noise profile of a target.")
    ARTIFACT_AHEAD = (
        "artifact.ahead",
        "A device that has nothing to do builds a checkpoint while the baseline is measured, and for what.",
    )
    ARTIFACT_BUILT = ("artifact.built", "A stage left an artifact that later experiments may use.")
    ARTIFACT_PRUNED = ("artifact.pruned", "Artifacts were deleted, with the bytes set free.")
    JOB_PRUNED = ("job.pruned", "Folders of ended jobs were deleted, with the bytes set free.")
    DEVICE_LOST = ("device.lost", "A GPU is lost, with the driver's words and what to do.")
    ACCESS_GIVEN = ("access.given", "A token to the dashboard was made, by the name of it.")
    ACCESS_REVOKED = ("access.revoked", "A token to the dashboard was revoked, by the name of it.")
    WORKER_STARTED = ("worker.started", "A worker began to take jobs.")
    WORKER_STOPPED = ("worker.stopped", "A worker ended in good order.")
    WORKER_LOST = (
        "worker.lost",
        "A worker stopped answering; its lease ran out and its job was taken from it.",
    )
    WORKER_MISSING = ("worker.missing", "A campaign's job waits and no worker takes jobs for its device.")
