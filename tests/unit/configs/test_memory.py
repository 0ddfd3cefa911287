"""The memory that a process may use is what its control groups leave it, whichever version they are."""

from pathlib import Path

import psutil
import pytest

from configs.memory import available_memory_bytes, usable_memory_bytes
from tests.unit.configs.test_hardware import laid_out

IN_A_CONTAINER = {
    "proc/self/cgroup": "0::/",
    "sys/fs/cgroup/memory.max": "3000000",
    "sys/fs/cgroup/memory.current": "2500000",
    "sys/fs/cgroup/memory.stat": "anon 1500000\ninactive_file 1000000",
}
IN_A_SLICE = {
    "proc/self/cgroup": "0::/user.slice/mine.scope",
    "sys/fs/cgroup/user.slice/memory.max": "3000000",
    "sys/fs/cgroup/user.slice/memory.current": "1500000",
    "sys/fs/cgroup/user.slice/mine.scope/memory.max": "max",
    "sys/fs/cgroup/user.slice/mine.scope/memory.current": "1400000",
}
VERSION_1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/job_7\n0::/",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/memory/job_7/memory.limit_in_bytes": "3000000",
    "sys/fs/cgroup/memory/job_7/memory.usage_in_bytes": "2500000",
    "sys/fs/cgroup/memory/job_7/memory.stat": "inactive_file 7\ntotal_inactive_file 1000000",
}
VERSION_1_IN_A_CONTAINER = {
    "proc/self/cgroup": "4:memory:/docker/unseen/from/here",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1500000",
}


@pytest.mark.parametrize("files", [IN_A_CONTAINER, IN_A_SLICE, VERSION_1, VERSION_1_IN_A_CONTAINER])
def test_a_limited_group_leaves_what_it_allows_less_what_is_not_given_back(
    tmp_path: Path, files: dict[str, str]
) -> None:
    root = laid_out(tmp_path, files)
    assert usable_memory_bytes(root) == 3_000_000
    assert available_memory_bytes(root) == 1_500_000


def test_a_group_that_holds_more_than_it_allows_leaves_nothing(tmp_path: Path) -> None:
    over = {"sys/fs/cgroup/memory.max": "1000", "sys/fs/cgroup/memory.current": "2000"}
    assert available_memory_bytes(laid_out(tmp_path, over)) == 0


def test_without_a_limit_it_is_the_machines(tmp_path: Path) -> None:
    root = laid_out(
        tmp_path, {"proc/self/cgroup": "no such line\n0::/../..", "sys/fs/cgroup/memory.max": "max"}
    )
    assert usable_memory_bytes(root) == psutil.virtual_memory().total
    assert 0 < available_memory_bytes(root) <= psutil.virtual_memory().total
