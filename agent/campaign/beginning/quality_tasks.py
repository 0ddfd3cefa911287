"""Whether a campaign's quality tasks can be asked here, looked at before it is begun."""

from __future__ import annotations

from pathlib import Path

from configs.campaign import CampaignSpec
from configs.errors import AutoinferError
from experiments.engines.port import Infeasible
from experiments.measurement.plan import Workload
from experiments.quality_tasks.source import QualityTasks
from experiments.shapes.folder import NO_QUALITY, shape_in


def check_quality_tasks(spec: CampaignSpec, checkpoint: Path) -> int:
    """Make the items of every quality task once, and return the most tokens of a sequence, prompt and answer;
    1 where a campaign asks for none.

    Raises `AutoinferError` in a sentence for what is missing: lm-eval, a task of that name, its data,
    permission to run its code, weights.
    """
    workload = Workload.model_validate(spec.plan.workload.model_dump())
    if not workload.evaluation_tasks:
        return 1
    try:
        if shape_in(checkpoint) is not None:
            raise Infeasible("unsupported", NO_QUALITY)
        return max(1, QualityTasks(checkpoint).context_tokens(workload))
    except Infeasible as reason:
        raise AutoinferError(reason.cause, "No campaign was begun.") from None
