"""What a target, a driver's name and the environment say about RunPod."""

from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from configs.errors import UsageError
from configs.prices import load_prices
from configs.targets import is_rented
from experiments.executors.runpod.account import account_from
from experiments.executors.runpod.api import NewPod, RunPodApi
from experiments.executors.runpod.asking import new_pod, s3_place
from experiments.executors.runpod.board import Asked, Board, BoardUnreachable
from experiments.executors.runpod.body import _Teller, as_here
from experiments.executors.runpod.gpus import TYPES, gpu_of_target, other_than_asked
from experiments.job.seal import broken_seal
from experiments.job.spec import TestJob
from tests.simulated.specs import a_test_job

ENVIRONMENT = {
    "RUNPOD_API_KEY": "rpa_secret",
    "AUTOINFER_RUNPOD_IMAGE": "example/autoinfer:1",
    "AUTOINFER_RUNPOD_BOARD": "postgresql://desk@db.example/autoinfer",
    "AUTOINFER_RUNPOD_BOARD_FROM_POD": "postgresql://autoinfer_pod@db.example/autoinfer?sslmode=verify-full",
}


@pytest.mark.parametrize("name", TYPES)
def test_every_gpu_type_is_a_target_with_a_packaged_price(name: str):
    assert is_rented(f"runpod:{name}")
    assert gpu_of_target(f"runpod:{name.lower()}") == name
    assert load_prices("runpod").gpu_rate(name) > 0


def test_the_processor_is_a_target_and_what_is_unknown_is_refused():
    assert gpu_of_target("runpod:cpu") is None
    with pytest.raises(UsageError, match="no GPU type 'H1000' on RunPod"):
        gpu_of_target("runpod:H1000")


@pytest.mark.parametrize(
    ("asked", "name", "gb"),
    [
        ("H200", "NVIDIA H200", 150.8),
        ("H100-SXM", "NVIDIA H100 80GB HBM3", 85.5),
        ("A100-SXM", "NVIDIA A100-SXM4-80GB", 85.1),
        ("RTX4090", "NVIDIA GeForce RTX 4090", 25.3),
    ],
)
def test_a_drivers_name_is_the_type_that_was_asked_for(asked: str, name: str, gb: float):
    assert other_than_asked(asked, name, int(gb * 1e9)) is None


@pytest.mark.parametrize(
    ("asked", "name", "gb"),
    [
        ("H200", "NVIDIA H200 NVL", 150),
        ("H100-SXM", "NVIDIA H100 PCIe", 85),
        ("L4", "NVIDIA L40S", 48),
        ("RTX4090", "NVIDIA GeForce RTX 4090 D", 25),
        ("A100-PCIE", "NVIDIA A100-PCIE-40GB", 42),
    ],
)
def test_another_gpu_is_told_in_a_sentence(asked: str, name: str, gb: float):
    assert f"RunPod gave {name}" in (other_than_asked(asked, name, int(gb * 1e9)) or "")


def test_the_environment_names_an_account_that_shows_no_secret():
    account = account_from(ENVIRONMENT)
    assert account.cloud == "SECURE"
    assert "rpa_secret" not in repr(account)


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_what_the_environment_lacks_is_named(name: str):
    with pytest.raises(UsageError, match=f"lacks {name}"):
        account_from({key: value for key, value in ENVIRONMENT.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("AUTOINFER_RUNPOD_BOARD_FROM_POD", "postgresql://pod:secret@db.example/a", "which RunPod shows"),
        ("AUTOINFER_RUNPOD_SECRET", "not a name!", "the name of a secret"),
        ("AUTOINFER_RUNPOD_HUB_SECRET", "hf_not a name", "the name of a secret"),
        ("AUTOINFER_RUNPOD_CLOUD", "mine", "no cloud 'MINE'"),
        ("AUTOINFER_RUNPOD_CUDA", "new", "CUDA is no version of CUDA"),
    ],
)
def test_what_would_show_a_secret_or_means_nothing_is_refused(name: str, value: str, says: str):
    with pytest.raises(UsageError, match=says) as refused:
        account_from(ENVIRONMENT | {name: value})
    assert value not in str(refused.value)


def test_the_key_goes_nowhere_unencrypted():
    with pytest.raises(UsageError, match="not encrypted"):
        RunPodApi("rpa_secret", "http://api.example")


def test_a_pod_is_asked_for_with_one_gpu_or_with_none():
    def body(gpu_id: str | None) -> dict[str, object]:
        return NewPod("autoinfer-a", "image", "args", {}, gpu_id, "SECURE", "13.0", 10).body()

    assert body("NVIDIA L4")["gpu"] == {"id": "NVIDIA L4", "count": 1, "minCudaVersion": "13.0"}
    assert "cpu" not in body("NVIDIA L4")
    assert "gpu" not in body(None)


def test_a_job_sealed_for_the_target_runs_on_the_pods_one_device_and_a_broken_seal_stays_broken():
    job = a_test_job(device="runpod:L4", judge_version="1")
    there = as_here(job, "L4")
    assert there.device == "cuda:0"
    assert isinstance(there, TestJob)
    assert broken_seal(there) is None
    broken = as_here(job.model_copy(update={"seed": 99}), "L4")
    assert isinstance(broken, TestJob)
    assert broken_seal(broken) is not None


def test_a_pod_has_secrets_by_their_names_and_none_that_nobody_named():
    asked = Asked(version=1, gpu=None, spec={}, limits_s={}, load_limit_s=1.0, usd_per_hr=0.1, limit_s=60.0)

    def variables(shared: str | None = None, **more: str) -> dict[str, str]:
        account = account_from(ENVIRONMENT | more)
        return new_pod("a", "a", account, asked.model_copy(update={"shared_artifacts": shared})).env

    assert variables()["PGPASSWORD"] == "{{ RUNPOD_SECRET_autoinfer_board }}"
    assert not {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY"} & set(variables())
    assert variables(AUTOINFER_RUNPOD_HUB_SECRET="hub")["HF_TOKEN"] == "{{ RUNPOD_SECRET_hub }}"
    shared = variables("s3://bucket/prefix")
    assert shared["AWS_SECRET_ACCESS_KEY"] == "{{ RUNPOD_SECRET_autoinfer_s3_secret }}"
    assert s3_place({"AWS_ENDPOINT_URL": "https://s3.example", "AWS_REGION": ""}) == {
        "AWS_ENDPOINT_URL": "https://s3.example"
    }
    with pytest.raises(UsageError, match="has a password in it"):
        s3_place({"AWS_ENDPOINT_URL": "https://me:secret@s3.example"})


class HalfDeafBoard:
    """Keeps what it hears, once each; fails so often at the second piece, when it has heard the first."""

    def __init__(self, fails: int) -> None:
        self.fails = fails
        self.files: dict[str, dict[int, str]] = {}

    def tell(self, key: str, pieces: list[tuple[str, int, str]]) -> bool:
        for number, (name, at, data) in enumerate(pieces):
            if number and self.fails:
                self.fails -= 1
                raise BoardUnreachable("cut")
            self.files.setdefault(name, {}).setdefault(at, data)
        return True


def test_a_piece_of_which_a_part_was_heard_is_told_again_as_it_was(tmp_path: Path):
    board = HalfDeafBoard(fails=2)
    teller = _Teller(cast("Board", board), "key", tmp_path)
    for line in ("one\n", "two\n", "thr\0e\n"):
        for name in ("records.jsonl", "log.txt"):
            with (tmp_path / name).open("a") as file:
                file.write(line)
        with suppress(BoardUnreachable):
            teller.tell()
    assert teller.tell()
    for pieces in board.files.values():
        text = "".join(pieces[at] for at in sorted(pieces))
        assert text == "one\ntwo\nthr\N{REPLACEMENT CHARACTER}e\n"
        ends = [at + len(pieces[at].encode()) for at in sorted(pieces)]
        assert sorted(pieces) == [0, *ends[:-1]], "each piece begins where the last one ends"
