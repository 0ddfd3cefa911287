"""The data of tasks without a network: a folder of the user's before the caches. In lm-eval's own Python.

The folder may hold copies of data sets of the hub at `OWNER/NAME`, NLTK's data at `nltk_data`, and tasks of
the user's own, YAML files as lm-eval has them, whose relative `data_files` are meant from the folder.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from experiments.engines.port import Infeasible

OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Variables that keep Hugging Face's libraries from fetching anything."""

NLTK_TABLES = "tokenizers/punkt_tab"
"""What IFEval's checks split sentences with."""

HOW_TO_GET_TABLES = (
    "fetch it once with `python -m nltk.downloader punkt_tab`, or with `-d DIR/nltk_data` into the folder "
    "that tasks_data (AUTOINFER_TASKS_DATA) names"
)


def offline(data: str | None, code_eval: object) -> None:
    """Let nothing be fetched, data sets be looked for in `data` first, and `code_eval` be this object. To be
    called before lm-eval is imported."""
    for variable in OFFLINE:
        os.environ[variable] = "1"
    folder = None if data is None else Path(data)
    if folder is not None:
        os.chdir(folder)
        os.environ["NLTK_DATA"] = os.pathsep.join(
            filter(None, (str(folder / "nltk_data"), os.environ.get("NLTK_DATA", "")))
        )
    _no_nltk_downloads()
    import datasets
    import evaluate

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    load_dataset, load_metric = datasets.load_dataset, evaluate.load

    def from_folder_first(path: str, *arguments: Any, **named: Any) -> Any:
        beside = None if folder is None else folder / path
        return load_dataset(
            str(beside) if beside is not None and beside.is_dir() else path, *arguments, **named
        )

    def limited(name: str, *arguments: Any, **named: Any) -> Any:
        return code_eval if name == "code_eval" else load_metric(name, *arguments, **named)

    datasets.load_dataset = from_folder_first
    evaluate.load = limited


def _no_nltk_downloads() -> None:
    try:
        import nltk
    except ImportError:
        return  # only some tasks need it, and say so

    def refuse(*arguments: Any, **named: Any) -> bool:
        raise Infeasible(
            "unsupported",
            f"NLTK's table punkt_tab, which sentences are split with, is not here: {HOW_TO_GET_TABLES}.",
        )

    nltk.download = refuse


def unreadable(name: str, cause: Exception) -> Infeasible:
    """Why a task could not be loaded, in a sentence: what refused it, a package or the data that it lacks."""
    chain: list[BaseException] = []
    step: BaseException | None = cause
    while step is not None and step not in chain:
        chain.append(step)
        step = step.__cause__ or step.__context__
    for each in chain:
        if isinstance(each, Infeasible):
            return Infeasible(each.kind, f"The task {name} can't be asked: {each.cause}")
    text = " ".join(str(cause).split()).rstrip(".")
    missing = next((each for each in chain if isinstance(each, ImportError)), None)
    if missing is not None:
        return Infeasible("unsupported", f"The task {name} needs a package beside lm-eval: {missing}.")
    return Infeasible(
        "unsupported",
        f"The data of the task {name} is not at hand ({type(cause).__name__}: {text}): fetch it once where "
        "there is a network, `hf download OWNER/NAME --repo-type dataset --local-dir DIR/OWNER/NAME`, and "
        "name DIR by the setting tasks_data (AUTOINFER_TASKS_DATA).",
    )
