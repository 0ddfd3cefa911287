"""Optuna's TPE sampler as campaigns and replays use it: of several knobs together, without its warnings."""

from __future__ import annotations

import threading
import warnings

import optuna

_FILTERS = threading.Lock()
"""Filters of warnings are the whole process's: two campaigns in threads would give back each other's."""


def tpe_sampler(seed: int, startup_trials: int, *, constant_liar: bool = False) -> optuna.samplers.TPESampler:
    """A sampler that draws at random until it was told `startup_trials`."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=startup_trials,
            multivariate=True,
            group=True,
            constant_liar=constant_liar,
        )
