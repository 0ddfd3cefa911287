"""A load of a table: a configuration's checkpoint or shape, and its launch in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.tables.grid import DUMMY, PlannedLoad
from configs.asked_over import IN_ENGINE, AskedOver
from configs.errors import AutoinferError
from configs.models import ModelProfile
from experiments.engines.port import Engine, Infeasible, Launch
from experiments.engines.reference.drafting.order import drafter_folder
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.order import drafting_of
from experiments.engines.vllm.reserved_cache import cache_bytes
from experiments.measurement.random_words import random_words
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import shape_in, write_shape


def served_alone(asked_over: AskedOver = IN_ENGINE) -> VllmEngine:
    """The engine vllm, which is asked for no more memory than one launch takes, and in a way."""
    return VllmEngine(launches_at_once=1, way=asked_over)


@dataclass(frozen=True)
class Sources:
    """Where what is loaded comes from and goes to: `checkpoint` is None for a shape, which is written below
    `folder` beside the logs. `engine` makes what serves it."""

    profile: ModelProfile
    folder: Path
    cache_dir: Path
    load_limit_s: float
    checkpoint: Path | None = None
    engine: Callable[[], Engine] = served_alone

    @property
    def words(self) -> Sequence[int]:
        """What prompts are drawn from: the words of the tokenizer that it is served with."""
        return random_words(self.checkpoint or reference_model_path(), self.profile.vocabulary)

    def folder_of(self, load: PlannedLoad, digest: str) -> Path:
        """The checkpoint of a load. Raises `Infeasible` for a shape that can't be, and for a configuration
        that asks for other weights than the checkpoint's."""
        if self.checkpoint is None:
            shape = self.folder / "shapes" / digest
            return write_shape(self.profile, load.configuration, shape, load.stored_as)
        for knob in ("quantization.method", "pruning.method"):
            if load.configuration.get(knob, "none") != "none":
                raise Infeasible(
                    "unsupported",
                    f"{knob}={load.configuration[knob]} changes weights, and a table serves a checkpoint as "
                    f"it is; make one with a campaign and name its folder, or measure --weights {DUMMY}.",
                )
        return self.checkpoint


@dataclass
class Loading:
    """A launch that is coming up, came up or failed."""

    load: PlannedLoad
    digest: str
    beside: bool
    """Whether another launch was on the device when it began, or began while it loaded."""
    sources: Sources
    device: str
    launch: Launch | None = None
    failure: Infeasible | None = None
    began_s: float = field(default_factory=time.monotonic)
    ended_s: float | None = None
    _thread: threading.Thread | None = None

    def start(self) -> Loading:
        """Begin to load."""
        self._thread = threading.Thread(target=self._run, name=f"load-{self.digest}", daemon=True)
        self._thread.start()
        return self

    @property
    def seconds(self) -> float:
        """How long it has taken until now, or until its end."""
        return (self.ended_s or time.monotonic()) - self.began_s

    @property
    def is_under_way(self) -> bool:
        """Whether it is still loading."""
        return self.ended_s is None

    def wait(self, tick: Callable[[], bool], every_s: float = 0.5) -> bool:
        """Wait until it has loaded or failed; False as soon as `tick` says that nobody waits any more."""
        assert self._thread is not None
        while self._thread.is_alive():
            self._thread.join(every_s)
            if self._thread.is_alive() and not tick():
                return False
        return True

    def close(self) -> None:
        """End the launch, if there is one."""
        if self.launch is not None:
            self.launch.close()
            self.launch = None

    def needed_bytes(self) -> int:
        """Bytes of weights, what drafts among them, and of the cache."""
        return needed_bytes(self.load, self.digest, self.sources)

    def _run(self) -> None:
        logs = self.sources.folder / "logs"
        try:
            logs.mkdir(parents=True, exist_ok=True)
            folder = self.sources.folder_of(self.load, self.digest)
            engine = self.sources.engine()
            engine.check(self.load.configuration, folder, self.device)
            self.launch = engine.launch(
                self.load.configuration,
                folder,
                self.device,
                logs / f"{self.digest}.log",
                self.sources.cache_dir,
                self.sources.load_limit_s,
            )
        except Infeasible as failure:
            self.failure = failure
        except Exception as failure:  # a thread has nobody else to tell
            self.failure = Infeasible("crashed", f"{type(failure).__name__}: {failure}")
        self.ended_s = time.monotonic()


def needed_bytes(load: PlannedLoad, digest: str, sources: Sources) -> int:
    """Bytes of a load's weights, of those of a drafter of its own, and of its cache; 0 for what can't be,
    which fails before it takes any."""
    try:
        folder = sources.folder_of(load, digest)
        drafting = drafting_of(load.configuration)
        drafters = [drafter_folder(drafting, folder)] if drafting.drafter else []
        weights = sum(map(_weight_bytes, (folder, *drafters)))
        return weights + cache_bytes(load.configuration, folder)
    except (Infeasible, AutoinferError):  # the latter of a draft model that is not there
        return 0


def _weight_bytes(folder: Path) -> int:
    """Bytes of the weights of a checkpoint or a drafter, or of those that are made up for it."""
    shape = shape_in(folder)
    if shape is not None:
        return shape.weight_bytes
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))
