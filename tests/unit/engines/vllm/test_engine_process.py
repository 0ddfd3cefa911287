"""A process for vLLM's engine: what it needs is imported before it is asked for, and nothing else differs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, types
from experiments.engines.vllm.engine_process import EngineProcesses

def report(told, **more):
    told.send(("{imported}" in sys.modules, os.environ.get("SINCE"), os.environ.get("GONE"), more))

def vllm_with(**names):
    for name in ("vllm", "vllm.v1", "vllm.v1.engine"):
        sys.modules[name] = types.ModuleType(name)
    utils = sys.modules["vllm.v1.engine"].utils = types.ModuleType("utils")
    vars(utils).update(names)
    return utils

if __name__ == "__main__":
    os.environ["GONE"] = "1"
    processes = EngineProcesses.begun(("{imported}",), os.environ.get("SOCKETS"))
    assert "{imported}" not in sys.modules
    os.environ["SINCE"] = "set after it was begun"
    del os.environ["GONE"]
    {then}
"""

ASK = """
    answers, told = processes.Pipe(duplex=False)
    for number in range(2):
        process = processes.Process(target=report, name="engine", kwargs={"told": told, "number": number})
        process.start()
        print(process.name, *answers.recv(), process.pid != os.getpid())
        process.join()
"""


def run(folder: Path, then: str, imported: str = "wave", **variables: str) -> list[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT.format(imported=imported, then=then.strip()), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[4])]), **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_process_has_imported_what_the_driver_has_not_and_the_environment_of_its_start(
    tmp_path: Path,
) -> None:
    assert run(tmp_path, ASK) == [
        f"engine True set after it was begun None {{'number': {number}}} True" for number in range(2)
    ]


def test_it_is_vllm_s_context_where_vllm_asks_for_one_and_is_not_elsewhere(tmp_path: Path) -> None:
    then = """
    print(processes.use())
    vllm_with()
    print(processes.use())
    utils = vllm_with(get_mp_context=None)
    print(processes.use(), utils.get_mp_context() is processes)
    """
    assert run(tmp_path, then) == ["False", "False", "True True"]


def test_what_touched_a_gpu_when_it_was_imported_is_not_forked(tmp_path: Path) -> None:
    # a module in torch's place, in the one state that decides: CUDA was initialized before the fork
    told = "class cuda:\n    @staticmethod\n    def _is_in_bad_fork():\n        return True\n"
    (tmp_path / "torch.py").write_text(told, encoding="utf-8")
    then = """
    utils = vllm_with(get_mp_context="vLLM's own")
    print(processes.use(), utils.get_mp_context)
    """
    assert run(tmp_path, then, imported="torch") == ["False vLLM's own"]


def test_its_sockets_lie_where_their_paths_are_short_however_long_those_of_temporary_files_are(
    tmp_path: Path,
) -> None:
    temporary = tmp_path / ("long" * 25)
    temporary.mkdir()
    with tempfile.TemporaryDirectory(dir="/tmp") as sockets:
        then = f"""{ASK}
    import glob, tempfile
    print(len(glob.glob(os.environ["SOCKETS"] + "/*/listener-*")), tempfile.gettempdir())
        """
        told = run(tmp_path, then, TMPDIR=str(temporary), SOCKETS=sockets)
    assert told[-1] == f"1 {temporary}"
    assert list(temporary.iterdir()) == []


def test_what_ends_as_it_is_imported_is_left_to_vllm_s_own_process_to_tell(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise AttributeError('no such symbol')\n", encoding="utf-8")
    then = """
    vllm_with(get_mp_context=None)
    print(processes.use())
    """
    assert run(tmp_path, then, imported="broken") == ["False"]


def test_what_forks_may_end_after_it_was_looked_for_and_before_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "wave.py").write_text("", encoding="utf-8")
    then = """
    import signal
    from multiprocessing import forkserver
    server = forkserver._forkserver
    look = server.ensure_running
    def look_and_lose_it():
        look()
        os.kill(server._forkserver_pid, signal.SIGKILL)
        os.waitid(os.P_PID, server._forkserver_pid, os.WEXITED | os.WNOWAIT)
    server.ensure_running = look_and_lose_it
    vllm_with(get_mp_context=None)
    print(processes.use())
    """
    assert run(tmp_path, then) == ["False"]


REGISTRY = """
import os, pathlib, sys
from dataclasses import dataclass

def _run_in_subprocess(ask):
    print("a new process")
    return ask()

@dataclass(frozen=True)
class _LazyRegisteredModel:
    module_name: str
    class_name: str

    def inspect_model_cls(self):
        kept = pathlib.Path(os.environ["KEPT"], self.class_name)
        if kept.exists():
            return kept.read_text()
        found = _run_in_subprocess(lambda: self.looked_at())
        kept.write_text(found)
        return found

    def looked_at(self):
        plugins = vars(sys.modules["vllm.plugins"]).get("loaded") if "vllm.plugins" in sys.modules else None
        return f"{self.module_name} {'wave' in sys.modules} {plugins} {os.getpid()}"
"""


def folder_with_vllm(folder: Path, registry: str = REGISTRY) -> None:
    """Stands in for vLLM's modules, importable by every process."""
    told = {
        "vllm/plugins.py": "def load_general_plugins():\n    global loaded\n    loaded = 'plugins'\n",
        "vllm/v1/engine/utils.py": "get_mp_context = None\n",
        "vllm/model_executor/models/registry.py": registry,
        "wave.py": "",
    }
    for path, text in told.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


LOOK = """
    print(processes.use())
    from vllm.model_executor.models.registry import _LazyRegisteredModel as Model
    for look in range(2):
        *found, pid = Model("qwen", "Qwen").inspect_model_cls().split()
        print(*found, int(pid) == os.getpid())
"""


def test_a_model_s_class_is_looked_at_in_a_process_that_has_imported_already(tmp_path: Path) -> None:
    folder_with_vllm(tmp_path)
    assert run(tmp_path, LOOK, KEPT=str(tmp_path)) == ["True", *["qwen True plugins False"] * 2]


def test_what_is_kept_of_a_class_is_not_looked_at_again(tmp_path: Path) -> None:
    folder_with_vllm(tmp_path)
    (tmp_path / "Qwen").write_text("kept 1", encoding="utf-8")
    then = LOOK.replace("    from", "    processes.Process = None\n    from", 1)
    assert run(tmp_path, then, KEPT=str(tmp_path)) == ["True", *["kept False"] * 2]


@pytest.mark.parametrize(
    "wrong",
    ["raise ValueError('no such layer')", "os._exit(1)"],
    ids=["a class that can't be imported", "a process that is ended"],
)
def test_where_that_comes_to_nothing_vllm_looks_as_always_and_tells_why(tmp_path: Path, wrong: str) -> None:
    looked_at = "    def looked_at(self):\n"
    folder_with_vllm(
        tmp_path, REGISTRY.replace(looked_at, f"{looked_at}        if 'wave' in sys.modules: {wrong}\n")
    )
    looked = run(tmp_path, LOOK, KEPT=str(tmp_path))
    assert looked == ["True", "a new process", *["qwen False None True"] * 2]


def test_where_vllm_looks_at_models_otherwise_it_does_so_as_always(tmp_path: Path) -> None:
    folder_with_vllm(tmp_path, REGISTRY.replace("_run_in_subprocess", "_look"))
    looked = run(tmp_path, LOOK, KEPT=str(tmp_path))
    assert looked == ["True", "a new process", *["qwen False None True"] * 2]
