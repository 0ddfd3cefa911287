"""What `autoinfer run --confirm-on` adds to a campaign: the terms of its other targets, and their workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from agent.campaign.rerun.price_elsewhere import ConfirmTerms
    from agent.campaign.resources.worker_process import WorkerProcess
    from agent.plan.ground import Ground
    from configs.campaign import CampaignSpec
    from configs.settings import Settings
    from db.session import Database


def terms_of(
    database: Database,
    settings: Settings,
    spec: CampaignSpec,
    ground: Ground,
    going_on: int | None,
    more_usd: float = 0.0,
) -> ConfirmTerms | None:
    """What is known of the targets that the campaign confirms on, where budgets have room there; None where
    it confirms on none.

    Raises `UsageError` where none has.
    """
    from agent.campaign.rerun.price_elsewhere import check_confirmable, confirm_terms
    from agent.plan.footing import footing_on
    from cli.executors.executor import make_remote_executor
    from experiments.executors.port import Executor

    if not spec.confirm_on:
        return None

    def executor(target: str) -> Executor:
        return make_remote_executor(settings, target.partition(":")[0], target)

    with database.read() as session:
        found = confirm_terms(session, spec, footing_on(spec, ground), executor)
        check_confirmable(session, spec, found, going_on, more_usd)
    return found


def keep(database: Database, campaign_id: int, found: ConfirmTerms | None) -> None:
    """Store the terms with the campaign, as they are by now."""
    from agent.campaign.known.other_targets import keep_terms

    if found is not None:
        with database.write() as session:
            keep_terms(session, campaign_id, found.terms)


def workers_there(
    ctx: typer.Context, settings: Settings, spec: CampaignSpec, campaign: str, *, leave_running: bool
) -> dict[str, WorkerProcess]:
    """A worker for each target that the campaign confirms on, none of them started."""
    from agent.campaign.resources.worker_process import REMOTE_STOP_S, WorkerProcess
    from cli.executors.executor import LOCAL
    from cli.executors.worker_command import campaign_worker_command, worker_command
    from configs.targets import is_rented

    found = {}
    for target in spec.confirm_on:
        log = settings.log_dir / f"worker-{target.replace(':', '-').rstrip('!')}.log"
        if is_rented(target):
            provider = target.partition(":")[0]
            command = campaign_worker_command(
                ctx, settings, target, provider, campaign, leave_running=leave_running
            )
            found[target] = WorkerProcess(command, log, stop_s=REMOTE_STOP_S)
        else:
            found[target] = WorkerProcess(worker_command(ctx, settings, target, LOCAL), log)
    return found
