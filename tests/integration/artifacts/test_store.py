import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from configs.errors import DiskFull, PermissionRefused
from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.manifest import MANIFEST_NAME
from experiments.artifacts.store import ArtifactStore
from experiments.kill_points import KILL_VARIABLE, KillPoint
from tests.integration.artifacts.building import CONTENT, KEY, write

REPOSITORY = Path(__file__).parents[3]

PATIENCE_S = 30


def builder_process(root: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.artifacts.building", str(root), str(root / ".log"), *words],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def builds(root: Path) -> int:
    return len((root / ".log").read_text().splitlines())


def abandoned(root: Path) -> list[Path]:
    return list((root / ".building").iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    return folder


def test_an_artifact_is_built_once_and_reused(root: Path):
    with ArtifactStore(root) as store:
        assert store.get(KEY) is None
        first, second = store.build(KEY, write), store.build(KEY, write)
    assert (first.built, second.built) == (True, False)
    assert (second.path / "model.safetensors").read_bytes() == CONTENT
    assert second.bytes == len(CONTENT) + 2
    assert (second.kind, second.inputs, second.parents) == ("checkpoint", {"layers": 3}, ("parent",))
    assert abandoned(root) == []


def test_different_inputs_are_different_artifacts(root: Path):
    with ArtifactStore(root) as store:
        one = store.build(ArtifactKey("checkpoint", {"layers": 3}), write)
        other = store.build(ArtifactKey("checkpoint", {"layers": 4}), write)
        assert one.path != other.path
        assert store.size() == one.bytes + other.bytes


def test_a_builder_that_raises_leaves_nothing(root: Path):
    def fail(folder: Path) -> None:
        write(folder)
        raise RuntimeError("no memory")

    with ArtifactStore(root) as store:
        with pytest.raises(RuntimeError, match="no memory"):
            store.build(KEY, fail)
        assert store.list() == []
        assert abandoned(root) == []
        assert store.build(KEY, write).built


@pytest.mark.parametrize("point", [KillPoint.WHILE_BUILDING, KillPoint.BEFORE_RENAME])
def test_a_crash_leaves_only_what_the_next_start_sweeps(root: Path, point: KillPoint):
    with builder_process(root, **{KILL_VARIABLE: point.value}) as process:
        assert process.wait() == -signal.SIGKILL
    with ArtifactStore(root) as store:
        assert store.get(KEY) is None
        assert store.list() == []
        assert len(abandoned(root)) == 1
        assert store.sweep() == 1
        assert abandoned(root) == []
        assert store.build(KEY, write).built


def test_two_workers_build_one_artifact_once(root: Path):
    with builder_process(root, "wait") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "building\n"
        with builder_process(root) as second, ArtifactStore(root) as store:
            assert store.sweep() == 0, "a build that runs is left alone"
            first.communicate()
            assert second.communicate()[0] == "reused\n"
    assert builds(root) == 1


def wait_until_it_waits(process: subprocess.Popen[str], root: Path) -> None:
    """Until a process has the artifact's lock open, which it wants and does not get."""
    lock = str(root / ".locks" / KEY.digest)
    for _ in range(PATIENCE_S * 20):
        opened = [os.path.realpath(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
        if lock in opened:
            return
        time.sleep(0.05)
    process.kill()
    raise AssertionError("it never asked for the lock")


def test_what_a_worker_built_is_used_by_who_waited_for_it_while_the_worker_goes_on(root: Path):
    """On two GPUs one job waited two minutes for the end of the other, whose checkpoint was long built."""
    waiting: list[subprocess.Popen[str]] = []

    def build(folder: Path) -> None:
        waiting.append(builder_process(root))
        wait_until_it_waits(waiting[0], root)
        write(folder)

    with ArtifactStore(root) as store:
        assert store.build(KEY, build).built
        with waiting[0] as other:
            assert other.communicate(timeout=PATIENCE_S)[0] == "reused\n"
    assert not (root / ".log").exists(), "it built nothing"


def test_what_is_damaged_and_in_use_is_built_again_once_it_is_let_go_of(root: Path):
    with ArtifactStore(root) as store:
        cut_off(store.build(KEY, write).path.parent)
        with builder_process(root) as other:
            with pytest.raises(subprocess.TimeoutExpired):
                other.communicate(timeout=2)
            store.close()
            assert other.communicate(timeout=PATIENCE_S)[0] == "built\n"


def test_a_worker_goes_on_when_the_one_it_waits_for_is_killed(root: Path):
    with builder_process(root, "wait") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "building\n"
        with builder_process(root) as second:
            wait_until_it_waits(second, root)
            first.kill()
            assert second.communicate()[0] == "built\n"
    assert builds(root) == 2
    with ArtifactStore(root) as store:
        assert store.get(KEY) is not None


def flip_a_byte(folder: Path) -> None:
    path = folder / "files" / "model.safetensors"
    path.write_bytes(b"W" + path.read_bytes()[1:])


def cut_off(folder: Path) -> None:
    os.truncate(folder / "files" / "model.safetensors", 10)


def delete_half(folder: Path) -> None:
    (folder / "files" / "model.safetensors").unlink()


def delete_manifest(folder: Path) -> None:
    (folder / MANIFEST_NAME).unlink()


def tear_manifest(folder: Path) -> None:
    os.truncate(folder / MANIFEST_NAME, 20)


@pytest.mark.parametrize("harm", [flip_a_byte, cut_off, delete_half, delete_manifest, tear_manifest])
def test_a_damaged_artifact_is_detected_and_rebuilt(root: Path, harm: Callable[[Path], None]):
    with ArtifactStore(root) as store:
        path = store.build(KEY, write).path
    harm(path.parent)
    with ArtifactStore(root) as store:
        assert store.get(KEY) is None
        again = store.build(KEY, write)
        assert again.built
        assert (again.path / "model.safetensors").read_bytes() == CONTENT
        assert [each.damage for each in store.list()] == [None]
        assert abandoned(root) == []


@pytest.mark.parametrize(
    ("harm", "told"),
    [(cut_off, "model.safetensors has 10 bytes"), (delete_half, "is missing"), (delete_manifest, "manifest")],
)
def test_the_list_tells_what_is_damaged(root: Path, harm: Callable[[Path], None], told: str):
    with ArtifactStore(root) as store:
        harm(store.build(KEY, write).path.parent)
        [listed] = store.list()
    assert listed.damage is not None
    assert told in listed.damage


def test_pruning_takes_what_is_old_and_neither_kept_nor_in_use(root: Path):
    keys = [ArtifactKey("checkpoint", {"layers": n}) for n in range(4)]
    with ArtifactStore(root) as store:
        old, kept, used, young = (store.build(key, write) for key in keys)
    an_hour_ago = (datetime.now(UTC) - timedelta(hours=1)).timestamp()
    for artifact in (old, kept, used):
        os.utime(artifact.path.parent / MANIFEST_NAME, (an_hour_ago, an_hour_ago))
    with ArtifactStore(root) as job:
        job.get(keys[2])
        os.utime(used.path.parent / MANIFEST_NAME, (an_hour_ago, an_hour_ago))
        with ArtifactStore(root) as store:
            pruned = store.prune(datetime.now(UTC) - timedelta(minutes=5), keep=[kept.digest])
            assert pruned.digests == (old.digest,)
            assert pruned.bytes == old.bytes
            assert pruned.in_use == (used.digest,)
            assert {each.digest for each in store.list()} == {kept.digest, used.digest, young.digest}
    with ArtifactStore(root) as store:
        assert store.prune(datetime.now(UTC) - timedelta(minutes=5)).in_use == ()


def test_using_an_artifact_makes_it_young(root: Path):
    with ArtifactStore(root) as store:
        store.build(KEY, write)
    an_hour_ago = (datetime.now(UTC) - timedelta(hours=1)).timestamp()
    os.utime(root / KEY.digest / MANIFEST_NAME, (an_hour_ago, an_hour_ago))
    with ArtifactStore(root) as store:
        store.get(KEY)
    with ArtifactStore(root) as store:
        assert store.prune(datetime.now(UTC) - timedelta(minutes=5)).digests == ()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_a_sentence(root: Path):
    def fill(folder: Path) -> None:
        (folder / "weights").symlink_to("/dev/full")
        (folder / "weights").write_text("weights")

    with ArtifactStore(root) as store:
        with pytest.raises(DiskFull, match="No space is left for artifacts in"):
            store.build(KEY, fill)
        assert store.list() == []
        assert abandoned(root) == []


@pytest.mark.skipif(not Path("/sys/kernel").exists(), reason="needs a folder where nobody may write")
def test_a_folder_that_can_t_be_written_is_told_in_a_sentence():
    with (
        ArtifactStore(Path("/sys/kernel/autoinfer")) as store,
        pytest.raises(PermissionRefused, match="may not write"),
    ):
        store.build(KEY, write)
