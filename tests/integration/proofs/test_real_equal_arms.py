"""The proof reads an A/A series as `autoinfer aa` stores it; here one of the simulated engine."""

from pathlib import Path

import pytest

from agent.campaign.beginning.survey import survey
from agent.noise.measure import SeriesLoop
from agent.noise.series import AaAsked, configuration_of, create_series
from configs.errors import DatabaseMissing, UsageError
from tests.new_database import database_url, new_database
from tests.proofs.real_equal_arms import told_of
from tests.proofs.recorded_series import main, read
from tests.simulated.campaign import LEASE_S, registered_here, simulated_spec, worker_process

pytestmark = pytest.mark.timeout(600)

LAUNCHES = 6


def test_a_stored_series_is_read_with_its_noise_and_its_verdicts(tmp_path: Path) -> None:
    spec, url = simulated_spec(tmp_path), database_url(tmp_path)
    database = new_database(tmp_path)
    with registered_here(tmp_path):
        assert read(url) == []  # nothing was measured yet
        ground = survey(spec)
        with database.write() as session:
            asked = AaAsked(configuration_of(spec, ground, []), 2, LAUNCHES)
            series_id = create_series(session, spec, ground, asked)
        worker = worker_process(tmp_path)
        SeriesLoop(
            database, series_id, worker=worker, tell=lambda told: None, lease_s=LEASE_S, poll_s=0.05
        ).run()
        database.close()
        [stored] = read(url)
        found = told_of(stored)
        recorded = tmp_path / "series.jsonl"
        assert main([str(recorded), url]) == 0
    assert found is not None
    [again] = read(str(recorded))
    assert told_of(again) == found  # a recorded series says the same
    assert again.ground == stored.ground
    assert found.launches == LAUNCHES
    assert found.first_looks == LAUNCHES // 2
    assert 0 <= found.beyond <= found.first_looks - found.first_held <= found.first_looks
    assert 0 <= found.held_everywhere <= found.experiments
    assert found.launch_sd_bounds[0] < found.launch_sd_log < found.launch_sd_bounds[1]
    assert 0 <= found.experiments_supported <= found.experiments <= LAUNCHES // 2
    assert found.min_effect == spec.plan.min_effect


def test_a_database_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatabaseMissing):
        read(str(tmp_path / "nowhere.db"))


@pytest.mark.parametrize("text", ["{}", '{"series": {}}', "no JSON", '{"pair": 1}'])
def test_a_file_that_was_not_recorded_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="no recorded series"):
        read(str(path))
