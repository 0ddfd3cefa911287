"""vLLM's engine process, forked from one that imported vLLM while the driver did.

vLLM keeps its model in a process of its own, which it spawns once the driver has read the configuration, and
which then imports for the second time what took the driver 15 to 20 s. Here a process is begun at once that
imports the same meanwhile (Python's forkserver) and is forked when vLLM asks for its engine. Nothing that was
imported there has touched a GPU, and the engine is a process as fresh as a spawned one in all that it does
with one. Where that can't be had, vLLM spawns as it always does.

Before that vLLM looks at the model's class, in one more process since that may touch a GPU, and keeps with
its cache what it found. Where nothing is kept yet, a process that is forked from the one that has imported
looks first, and vLLM finds what that has kept.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.context import BaseContext
from typing import Any

IMPORTED = ("vllm.v1.engine.core", "vllm.v1.worker.gpu_worker")
"""What the engine's process imports before it looks at the model, and what of vLLM touches no GPU when it is
imported (0.26: the models themselves do)."""


MODELS, LOOK, ASK = "_LazyRegisteredModel", "inspect_model_cls", "_run_in_subprocess"
"""Of vLLM's registry of models: one that is not imported yet, how its class is looked at, and what asks a new
process for that where nothing is kept (0.32 and 0.33)."""


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
        self._look_first()
        return True

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

    def _look_first(self) -> None:
        """Let a process look at a model's class before vLLM does, where nothing is kept of it; where this
        version looks otherwise, or that comes to nothing, vLLM looks as always."""
        try:
            from vllm.model_executor.models import registry
        except ImportError:
            return
        models, ask_own = getattr(registry, MODELS, None), getattr(registry, ASK, None)
        look = getattr(models, LOOK, None)
        if look is None or ask_own is None:
            return

        one_at_a_time = threading.Lock()

        def look_first(model: Any) -> object:
            with one_at_a_time:
                vars(registry)[ASK] = _not_kept
                try:
                    return look(model)
                except _NotKeptError:
                    self._keep(model.module_name, model.class_name)
                finally:
                    vars(registry)[ASK] = ask_own
                return look(model)

        setattr(models, LOOK, look_first)

    def _keep(self, module: str, name: str) -> None:
        process = self.Process(target=_look_and_keep, kwargs={"module": module, "name": name})
        with suppress(EOFError, OSError):  # vLLM's own process will say why
            process.start()
            process.join()

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


class _NotKeptError(Exception):
    """Nothing is kept of a model's class."""


def _not_kept(ask: object) -> object:
    raise _NotKeptError


def _look_and_keep(module: str, name: str) -> None:
    """Look at a model's class in this process, as vLLM's own process for it does, and keep what is found."""
    from vllm.model_executor.models import registry
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    vars(registry)[ASK] = lambda ask: ask()
    model = getattr(registry, MODELS)(module_name=module, class_name=name)
    getattr(model, LOOK)()


def _tell_whether_touched(told: Any) -> None:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    told.send(cuda is not None and bool(cuda._is_in_bad_fork()))
