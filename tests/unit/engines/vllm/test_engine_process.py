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
import os
def _run_in_subprocess(ask):
    return "as always", ask()
class Model:
    def __init__(self, name):
        self.name = name
    def looked_at(self):
        import sys
        return self.name, "wave" in sys.modules, "plugins" in vars(sys.modules["vllm.plugins"]), os.getpid()
    def inspect(self):
        return _run_in_subprocess(lambda: self.looked_at())
"""


def folder_with_vllm(folder: Path, **modules: str) -> None:
    """Stands in for vLLM's modules, importable by every process."""
    told = {
        "vllm/plugins.py": "def load_general_plugins():\n    global plugins\n    plugins = True\n",
        "vllm/v1/engine/utils.py": "get_mp_context = None\n",
        "vllm/model_executor/models/registry.py": REGISTRY,
        "wave.py": "",
        **{f"{name}.py": text for name, text in modules.items()},
    }
    for path, text in told.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


LOOK = """
    print(processes.use())
    from vllm.model_executor.models.registry import Model
    found = Model("qwen").inspect()
    print(*found[:-1], found[-1] != os.getpid())
"""


def test_a_model_s_class_is_looked_at_in_a_process_that_has_imported_already(tmp_path: Path) -> None:
    folder_with_vllm(tmp_path)
    assert run(tmp_path, LOOK) == ["True", "qwen True True True"]


@pytest.mark.parametrize(
    "looked_at",
    ["raise ValueError('no such layer')", "os._exit(1)"],
    ids=["a class that can't be imported", "a process that is ended"],
)
def test_where_that_comes_to_nothing_vllm_looks_as_always_and_tells_why(
    tmp_path: Path, looked_at: str
) -> None:
    own = REGISTRY.replace("import sys\n", f"import sys\n        if 'wave' in sys.modules: {looked_at}\n")
    folder_with_vllm(tmp_path, **{"vllm/model_executor/models/registry": own})
    then = """
    print(processes.use())
    from vllm.model_executor.models.registry import Model
    vars(sys.modules["vllm"])["plugins"] = sys.modules["vllm.plugins"] = types.ModuleType("vllm.plugins")
    found = Model("qwen").inspect()
    print(*found[:-1], found[-1][:-1], found[-1][-1] == os.getpid())
    """
    assert run(tmp_path, then) == ["True", "as always ('qwen', False, False) True"]


def test_where_vllm_looks_at_models_otherwise_it_does_so_as_always(tmp_path: Path) -> None:
    other = REGISTRY.replace("_run_in_subprocess", "_look")
    folder_with_vllm(tmp_path, **{"vllm/model_executor/models/registry": other})
    then = """
    print(processes.use())
    from vllm.model_executor.models import registry
    print(registry._look(lambda: 1), hasattr(registry, "_run_in_subprocess"))
    """
    assert run(tmp_path, then) == ["True", "('as always', 1) False"]
