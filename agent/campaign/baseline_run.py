"""The loop's first step: the baseline is begun, and begun again where that may help."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from agent.campaign.baseline_attempts import baseline_attempts
from agent.campaign.device_rests import put_to_rest
from agent.campaign.fewer_bits import begin_from_fewer_bits
from agent.campaign.glance import Seen
from agent.campaign.known.facts import Facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.dispatch import dispatch_baseline
from agent.campaign.resources.device_faults import give_up_device, go_on_after_room
from configs.errors import AutoinferError
from db.labels import Noun, format_label
from db.session import Database
from experiments.disk import DISK_FULL


class BaselineRun:
    """Begins the baseline of one campaign.

    `writing` opens a transaction that holds the campaign's lease, `stop` ends the campaign for a reason and
    gives it back.
    """

    def __init__(
        self,
        database: Database,
        writing: Callable[[], AbstractContextManager[Session]],
        stop: Callable[[str], str],
    ) -> None:
        self._database = database
        self._writing = writing
        self._stop = stop
        self._newest_id: int | None = None
        self._begun: set[int] = set()

    def begin(self, facts: Facts, seen: Seen) -> str | None:
        """Dispatch the baseline; the reason to end where no device is left for it.

        Raises `AutoinferError`, the campaign being stopped, where it failed and no attempt is worth making.
        """
        with self._database.read() as session:
            tried = baseline_attempts(session, facts.id, self._newest_id, self._begun)
        if tried.gone is not None and tried.gone.at_once and len(seen.devices.every) > 1:
            self._newest_id = None
            with self._writing() as session:
                reason = give_up_device(session, facts.id, seen.devices, tried.gone)
            return None if reason is None else self._stop(reason)
        if tried.found_others and self._newest_id is not None:
            with self._writing() as session:
                put_to_rest(session, self._newest_id, facts.id, seen.devices)
            self._newest_id = None
            return None
        if tried.is_last:
            with self._writing() as session:
                if begin_from_fewer_bits(session, facts.id, tried.kind, tried.cause):
                    return None
            self._stop(f"the baseline could not be measured: {tried.cause}")
            raise AutoinferError(
                f"The baseline could not be measured: {tried.cause}",
                go_on_after_room(facts.id) if tried.kind == DISK_FULL else _put_right(facts.id, tried.label),
            )
        device = seen.free[tried.count % len(seen.free)]  # another one than before, where there is one
        space = legal_of(facts).space
        with self._writing() as session:
            self._newest_id = dispatch_baseline(session, facts, space, device)
        self._begun.add(self._newest_id)
        return None


def _put_right(campaign_id: int, experiment: str) -> str:
    """What to do about a baseline that failed."""
    campaign = format_label(Noun.CAMPAIGN, campaign_id)
    return (
        f"See its log with: autoinfer show {experiment} --log. It is tried again, once that is put right, "
        f"with: autoinfer run --resume {campaign}"
    )
