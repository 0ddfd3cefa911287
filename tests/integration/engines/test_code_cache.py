"""Which folders PyTorch's compiler really can't be handed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from configs.code_cache import check_compilable, falls_apart
from configs.errors import UsageError

COMPILES = "import torch; torch.compile(lambda x: (x * 2).relu())(torch.ones(8))"


# What is compiled in a folder without such signs, every test of the compiled engine tries.
@pytest.mark.parametrize(
    "name",
    ["a b", *(pytest.param(each, marks=pytest.mark.bench_only) for each in ("ümläut(a$b", "a'b", "a\\b"))],
)
def test_what_is_refused_is_what_the_compiler_fails_at(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    ran = subprocess.run(
        [sys.executable, "-c", COMPILES],
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert falls_apart(folder) == (ran.returncode != 0), ran.stderr[-500:]


def test_it_is_told_with_the_path_and_what_to_do() -> None:
    with pytest.raises(UsageError) as told:
        check_compilable(Path("/home/me/My Documents/cache"))
    assert "'/home/me/My Documents/cache'" in told.value.message
    assert "AUTOINFER_CACHE_DIR" in told.value.hint
    check_compilable(Path("/home/me/cache"))
