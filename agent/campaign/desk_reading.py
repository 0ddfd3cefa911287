"""The loop's desk, read from the database: the facts of a campaign, and what it is decided by."""

from __future__ import annotations

from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Facts
from agent.campaign.known.measured import Baseline, read_baseline, under_digests
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.order import read_directives
from db.session import Database


class DeskReader:
    """Reads one campaign for its loop; what its baseline measured is read once."""

    def __init__(self, database: Database, campaign_id: int) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._baselines: dict[int, Baseline] = {}

    def facts(self) -> Facts:
        """The facts as they are now."""
        with self._database.read() as session:
            return read_facts(session, self._campaign_id)

    def desk(self, facts: Facts) -> Desk:
        """The desk with these facts on it, of a campaign whose baseline is measured."""
        with self._database.read() as session:
            baseline = self._baseline(session, facts)
            directives = read_directives(session, facts.id)
        return Desk(facts, legal_of(facts), baseline, directives)

    def _baseline(self, session: Session, facts: Facts) -> Baseline:
        """What the baseline measured: an experiment that was learnt from never changes."""
        experiment_id = facts.baseline_experiment_id
        assert experiment_id is not None
        if experiment_id not in self._baselines:
            self._baselines = {experiment_id: read_baseline(session, experiment_id, facts.objective)}
        return under_digests(self._baselines[experiment_id], facts)
