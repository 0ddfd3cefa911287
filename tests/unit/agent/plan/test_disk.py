"""What a campaign will write is held against what is free on each disk, before it begins."""

from pathlib import Path

import pytest

from agent.plan.disk import Disk, Need, check_room, disks_of, room_doubt, room_told
from configs.errors import DiskFull

MB = 10**6
HERE = Path("/data/artifacts")
FIRST = Need("the token distributions of the baseline", 100 * MB, HERE, first=True)
LATER = Need("27 checkpoints that its questions build", 146 * MB, HERE, first=False)


def disk(free_mb: int, *needs: Need) -> Disk:
    return Disk(HERE, free_mb * MB, needs)


def test_a_disk_without_room_for_the_baseline_is_refused_with_what_is_needed_and_what_is_free() -> None:
    with pytest.raises(DiskFull) as refused:
        check_room([disk(99, FIRST, LATER)])
    assert refused.value.message == (
        "The campaign needs 100 MB in /data/artifacts before its first test "
        "(the token distributions of the baseline), and 99 MB of that disk are free."
    )
    assert "autoinfer artifacts prune" in refused.value.hint
    assert refused.value.hint.endswith("No campaign was begun.")


def test_what_tests_may_need_later_refuses_nothing_and_is_told() -> None:
    short = disk(245, FIRST, LATER)
    check_room([short])
    assert room_doubt(short) == (
        "The disk of /data/artifacts may become full: 100 MB before the first test (the token distributions "
        "of the baseline), up to 146 MB more in tests (27 checkpoints that its questions build); 245 MB are "
        "free. Free some with: autoinfer artifacts prune --unused-for 1d, or set "
        "AUTOINFER_DATA_DIR to another disk."
    )
    assert room_doubt(disk(246, FIRST, LATER)) is None


def test_several_needs_are_told_each_with_its_own_bytes() -> None:
    records = Need("the records", 2 * MB, HERE, first=True)
    told = room_told(disk(500, FIRST, records))
    assert "102 MB before the first test (100 MB for the token distributions of the baseline, 2 MB" in told


def test_folders_of_one_disk_share_what_is_free(tmp_path: Path) -> None:
    needs = (
        Need("artifacts", 3, tmp_path / "artifacts", first=True),
        Need("records", 4, tmp_path, first=True),
        Need("nothing", 0, tmp_path, first=True),
    )
    [found] = disks_of(needs)
    assert (found.first_bytes, found.later_bytes) == (7, 0)
    assert found.needs == needs[:2]
    assert found.free_bytes > 0
