"""Launches of a job: loaded side by side, all or those that come up, and ended whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from configs.errors import AutoinferError
from experiments.engines.port import DEVICE_FAULTS, Infeasible, Launch
from experiments.job.loads_told import LoadsTold
from experiments.job.open_launch import ArmInfeasible, OpenLaunch, Wanted, close
from experiments.job.running_job import RunningJob
from experiments.measurement.evidence import Stage


@contextmanager
def launches(job: RunningJob, stage: Stage, wanted: Sequence[Wanted]) -> Iterator[list[OpenLaunch]]:
    """Open launches in the order given, at most `cores` loading at once, and end all of them afterwards.

    Raises `ArmInfeasible` for the first (in order) that does not come up; the others are ended.
    """
    opened, failed = open_launches(job, stage, wanted)
    try:
        if failed:
            raise failed[0]
        yield opened
    finally:
        close(opened)


def open_launches(
    job: RunningJob, stage: Stage, wanted: Sequence[Wanted], *, record: bool = True
) -> tuple[list[OpenLaunch], list[ArmInfeasible]]:
    """Open launches; returns those that came up and why the others did not, both in order. Close them.

    Without `record` they are not in the records yet; see `OpenLaunch.record`. With it one that comes up
    and does not tell what it runs is among the others, and ended.

    Where more than `spec.at_once` would be up, what is spare is ended before. Raises `Infeasible` where
    the device is to blame (`device_guard`) and where the time is up, and what no configuration is to
    blame for, such as `DiskFull`, from where on no further one is begun.
    """
    job.limits.check()
    if job.spec.at_once is not None and job.guard.up + len(wanted) > job.spec.at_once:
        close(job.spare)
        job.spare.clear()
    job.guard.before_launches()
    futures: list[Future[Launch | None]] = []
    broken = threading.Event()

    def load(each: Wanted) -> Launch | None:
        """The launch; None after a fault that no configuration is to blame for, such as a full disk."""
        if broken.is_set():
            return None
        try:
            return _load(job, stage, each)
        except Infeasible:
            raise
        except BaseException:
            broken.set()
            raise

    pool = ThreadPoolExecutor(max_workers=max(1, job.context.cores), thread_name_prefix="load")
    try:
        loads = LoadsTold(job, [_log_path(job, stage, each) for each in wanted])
        futures = [pool.submit(load, each) for each in wanted]
        loads.wait(futures)
        pool.shutdown(wait=True)
    except BaseException:
        pool.shutdown(wait=True, cancel_futures=True)
        for future in futures:
            came_up = future.done() and not future.cancelled() and future.exception() is None
            if came_up and (launch := future.result()) is not None:
                launch.close()
        raise
    opened: list[OpenLaunch] = []
    failed: list[ArmInfeasible] = []
    crashed: BaseException | None = None
    for place, (each, future) in enumerate(zip(wanted, futures, strict=True)):
        reason = future.exception()
        if reason is None:
            if (launch := future.result()) is not None:
                opened.append(OpenLaunch(launch, each, job))
        elif isinstance(reason, Infeasible):
            reason = job.guard.explained(reason)
            failed.append(ArmInfeasible(each.arm, place, reason))
            if reason.kind in DEVICE_FAULTS:
                crashed = reason
        else:
            crashed = crashed or reason
    if crashed is not None:
        close(opened)
        raise crashed
    if not record:
        return opened, failed
    told, untold = recorded(stage, opened)
    places = {(each.arm, each.index): place for place, each in enumerate(wanted)}
    failed += [ArmInfeasible(each.arm, places[each.arm, each.place], each.reason) for each in untold]
    return told, sorted(failed, key=lambda each: each.place)


def recorded(stage: Stage, launches: Sequence[OpenLaunch]) -> tuple[list[OpenLaunch], list[ArmInfeasible]]:
    """Record launches that are up; returns those that tell what they run and why the others, which are ended,
    do not, both in order.

    Raises `Infeasible` where the device is to blame and where the time is up; all of them are ended then.
    """
    told: list[OpenLaunch] = []
    untold: list[ArmInfeasible] = []
    try:
        for each in launches:
            try:
                each.record(stage)
                told.append(each)
            except ArmInfeasible as failed:
                if failed.reason.kind in DEVICE_FAULTS:
                    raise failed.reason from failed
                untold.append(failed)
                close([each])
    except BaseException:
        close(launches)
        raise
    return told, untold


def _log_path(job: RunningJob, stage: Stage, each: Wanted) -> Path:
    return job.logs() / f"{stage.value}-{each.arm.value}-{each.index}.log"


def _load(job: RunningJob, stage: Stage, each: Wanted) -> Launch:
    log_path = _log_path(job, stage, each)
    launch = job.engine.launch(
        each.configuration,
        each.checkpoint,
        job.spec.device,
        log_path,
        job.context.cache_dir,
        job.context.load_limit_s,
    )
    try:
        if not launch.resolved():
            raise AutoinferError(
                f"The engine {job.engine.name} tells nothing of what it runs, so that nothing else that "
                "differs between two launches could be found.",
                "Let its launches tell it: see `resolved` in experiments/engines/port.py.",
            )
    except BaseException:
        launch.close()
        raise
    return launch
