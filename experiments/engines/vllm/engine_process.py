"""vLLM's engine process, forked from one that imported vLLM while the driver did.

vLLM keeps its model in a process of its own, which it spawns once the driver has read the configuration, and
which then imports for the second time what took the driver 15 to 20 s. Here a process is begun at once that
imports the same meanwhile (Python's forkserver) and is forked when vLLM asks for its engine. Nothing that was
imported there has touched a GPU, and the engine is a process as fresh as a spawned one in all that it does
with one. Where that can't be had, vLLM spawns as it always does.

Before that vLLM looks at the model's class, in one more process since that may touch a GPU, and keeps what it
found with its cache. Where nothing was kept yet that process, too, is forked from the one that has imported.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing.context import BaseContext
from typing import Any

IMPORTED = ("vllm.v1.engine.core", "vllm.v1.worker.gpu_worker")
"""What the engine's process imports before it looks at the model, and what of vLLM touches no GPU when it is
imported (0.26: the models themselves do)."""


class EngineProcesses:
    """A context for `multiprocessing` whose processes have `imported` done, and the driver's environment."""

    def __init__(self, context: BaseContext) -> None:
        self._context = context
        self._touched: bool | None = None

    @classmethod
    def begun(cls, imported: tuple[str, ...] = IMPORTED, sockets: str | None = None) -> EngineProcesses:
        """Begin to import; returns at once. The sockets of `multiprocessing` lie in the folder `sockets`,
        where one is named: in a launch's folder of temporary files their paths may be too long."""
        from multiprocessing import forkserver, util

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(imported))
        usual, tempfile.tempdir = tempfile.tempdir, sockets or tempfile.tempdir
        try:
            util.get_temp_dir()  # made once, and kept by this process and those that it starts
        finally:
            tempfile.tempdir = usual
        forkserver.ensure_running()
        return cls(context)

    def wait(self) -> None:
        """Wait until everything is imported."""
        self._touched = self._touched_a_gpu()

    def use(self) -> bool:
        """Let vLLM start its engine so; False where this version starts it otherwise, or where what was
        imported has touched a GPU, which no forked process could use."""
        try:
            from vllm.v1.engine import utils
        except ImportError:
            return False
        if self._touched is None:
            self.wait()
        if self._touched or not hasattr(utils, "get_mp_context"):
            return False
        vars(utils)["get_mp_context"] = lambda: self
        self._answer_for_models()
        return True

    def answer(
        self, ask: Callable[[], object], otherwise: Callable[[Callable[[], object]], object]
    ) -> object:
        """What a function returns in a process of its own; where that comes to nothing, as it is asked
        `otherwise`, which tells why."""
        import cloudpickle  # vLLM has it, for such functions

        answers, told = self._context.Pipe(duplex=False)
        process = self.Process(target=_answer, kwargs={"asked": cloudpickle.dumps(ask), "told": told})
        try:
            process.start()
        except (EOFError, OSError):
            return otherwise(ask)
        told.close()
        try:
            return pickle.loads(answers.recv_bytes())
        except EOFError:
            return otherwise(ask)
        finally:
            process.join()

    def Process(  # noqa: N802 -- as multiprocessing's contexts have it
        self, *, target: Callable[..., object], kwargs: Mapping[str, Any], **named: Any
    ) -> multiprocessing.Process:
        """A process that is started by `start()`, as of any context."""
        made: multiprocessing.Process = self._context.Process(  # type: ignore[attr-defined]
            target=_in_environment, args=(dict(os.environ), target, dict(kwargs)), **named
        )
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def _answer_for_models(self) -> None:
        """Let vLLM look at a model's class so; where this version looks otherwise, it does as always."""
        try:
            from vllm.model_executor.models import registry
        except ImportError:
            return
        own = getattr(registry, "_run_in_subprocess", None)
        if own is not None:
            vars(registry)["_run_in_subprocess"] = lambda ask: self.answer(ask, own)

    def _touched_a_gpu(self) -> bool:
        answers, told = self._context.Pipe(duplex=False)
        probe = self.Process(target=_tell_whether_touched, kwargs={"told": told})
        try:
            probe.start()
        except (EOFError, OSError):
            return True  # an import ended what forks: vLLM's own process will say why
        told.close()
        try:
            return bool(answers.recv())
        except EOFError:  # it could not even be asked
            return True
        finally:
            probe.join()


def _in_environment(
    environment: Mapping[str, str], target: Callable[..., object], kwargs: Mapping[str, Any]
) -> None:
    """Run with the environment that the driver has by now, as a spawned process would."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    target(**kwargs)


def _answer(asked: bytes, told: Any) -> None:
    """Answer a pickled function, as vLLM's own process for it does."""
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    told.send_bytes(pickle.dumps(pickle.loads(asked)()))


def _tell_whether_touched(told: Any) -> None:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    told.send(cuda is not None and bool(cuda._is_in_bad_fork()))
