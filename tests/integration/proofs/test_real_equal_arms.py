"""The proof reads an A/A series as `autoinfer aa` stores it; here one of the simulated engine."""

from pathlib import Path

import pytest

from agent.campaign.create import survey
from agent.noise.measure import SeriesLoop
from agent.noise.series import AaAsked, configuration_of, create_series
from configs.errors import DatabaseMissing
from tests.new_database import database_url, new_database
from tests.proofs.real_equal_arms import read_series_of
from tests.simulated.campaign import LEASE_S, registered_here, simulated_spec, worker_process

pytestmark = pytest.mark.timeout(240)

LAUNCHES = 6


def test_a_stored_series_is_read_with_its_noise_and_its_verdicts(tmp_path: Path) -> None:
    spec, url = simulated_spec(tmp_path), database_url(tmp_path)
    database = new_database(tmp_path)
    with registered_here(tmp_path):
        assert read_series_of(url) is None  # nothing was measured yet
        ground = survey(spec)
        with database.write() as session:
            asked = AaAsked(configuration_of(spec, ground, []), 2, LAUNCHES)
            series_id = create_series(session, spec, ground, asked)
        worker = worker_process(tmp_path)
        SeriesLoop(
            database, series_id, worker=worker, tell=lambda told: None, lease_s=LEASE_S, poll_s=0.05
        ).run()
        database.close()
        found = read_series_of(url)
    assert found is not None
    assert found.launches == LAUNCHES
    assert found.first_looks == LAUNCHES // 2
    assert 0 <= found.beyond <= found.first_looks - found.first_held <= found.first_looks
    assert 0 <= found.held_everywhere <= found.experiments
    assert found.launch_sd_bounds[0] < found.launch_sd_log < found.launch_sd_bounds[1]
    assert 0 <= found.experiments_supported <= found.experiments <= LAUNCHES // 2
    assert found.min_effect == spec.plan.min_effect


def test_a_database_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatabaseMissing):
        read_series_of(str(tmp_path / "nowhere.db"))
