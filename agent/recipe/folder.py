"""A recipe as a folder: what a person reads, what a machine runs, and `recipe.json` under both. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from math import exp

from agent.recipe.planning import CHECK_S
from agent.recipe.recipe import RETAINED, Promise, Recipe
from configs.asked_over import ASKED_OVER, asked_over_words
from configs.errors import EXIT_FAILURE, EXIT_OPEN, EXIT_USAGE
from configs.quantities import format_duration
from experiments.engines.serve_command import ServeCommand
from knowledge.figures import listed, metric_word, signed
from knowledge.machines import machine
from knowledge.queries.measured.quality_tests import quality_tests

RECIPE, README, SERVE, BUILD, CHECK, REQUIREMENTS = (
    "recipe.json",
    "README.md",
    "serve.sh",
    "build.sh",
    "check.sh",
    "requirements.txt",
)
SCRIPTS = (SERVE, BUILD, CHECK)
"""Files that are run."""

NOT_PACKAGES = frozenset({"autoinfer", "cuda", "python"})
"""Versions that no package index has under these names, or that are told by other means."""

_HEAD = '#!/bin/sh\n# {what}\nset -eu\ncd "$(dirname "$0")"\n'

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
"""A revision of git."""

_OWN = "experiments."
"""What modules of autoinfer's own engines begin with: who runs one needs autoinfer in that Python."""

_WITHOUT = "{name} is not installed {where}: README.md says how it is."
"""What a script says, and ends with `EXIT_USAGE`: nothing was served, built or checked."""

_COMMAND_THERE = """command -v {command} >/dev/null 2>&1 || {{
  echo {said} >&2
  exit {code}
}}
"""

_BUILT = f"""[ -d checkpoint ] || {{
  echo 'The checkpoint is not here yet: build it with ./{BUILD}' >&2
  exit {EXIT_USAGE}
}}
"""

_PATH_THERE = """[ -e {path} ] || {{
  echo {said} >&2
  exit {code}
}}
"""

MODEL = "RECIPE_MODEL"
"""The variable of `serve.sh` that says where a model lies that is of no hub and is not built."""

_MODEL_THERE = """{name}=${{{name}:-{path}}}
[ -e "${name}" ] || {{
  printf '%s\\n' "${name} is not here: {said}" >&2
  exit {code}
}}
"""

_PACKAGES_THERE = """python - <<'END' || exit {code}
import sys
from importlib.metadata import PackageNotFoundError, version

for name in {names}:
    try:
        version(name)
    except PackageNotFoundError:
        sys.exit({said})
END
"""


def files_of(recipe: Recipe, denied: Sequence[str] = ()) -> Mapping[str, str]:
    """The files of a recipe's folder, by name; `denied` is what fresh runs say against what it rests on, a
    sentence each."""
    files = {
        RECIPE: recipe.model_dump_json(indent=2) + "\n",
        README: readme(recipe, denied),
        SERVE: _HEAD.format(what=f"Serves {_one_line(recipe.model)} as {recipe.experiment} measured it.")
        + _needed(recipe)
        + (_BUILT if recipe.builds else "")
        + _served(recipe),
        CHECK: _HEAD.format(
            what="Does the gain still hold? Ends with 0 where it does; for other codes see README.md."
        )
        + _there("autoinfer")
        + f'autoinfer check {RECIPE} "$@"\n',
        REQUIREMENTS: f"# autoinfer itself comes from its repository: see {README}\n# {which(recipe)}\n"
        + "".join(f"{each}\n" for each in pins(recipe)),
    }
    if recipe.builds:
        files[BUILD] = (
            _HEAD.format(what="Builds the checkpoint that serve.sh names.")
            + _there("autoinfer")
            + f'autoinfer build {RECIPE} --to checkpoint "$@"\n'
        )
    return files


def which(recipe: Recipe) -> str:
    """The autoinfer that measured: its version, and its revision where that is known."""
    revision = _revision(recipe)
    changed = " with changes that were not committed" if recipe.machine.get("git_changed") else ""
    version = recipe.versions.get("autoinfer", recipe.autoinfer)
    return f"version {_one_line(version)}" + (f", revision {revision}{changed}" if revision else "")


def _revision(recipe: Recipe) -> str | None:
    """The revision of autoinfer that measured, None where none is known: it becomes a word of a command."""
    found = recipe.machine.get("git_revision")
    return found if isinstance(found, str) and _COMMIT.fullmatch(found) else None


def _there(command: str) -> str:
    """The lines that end a script in a sentence where a command is not there."""
    said = shlex.quote(_WITHOUT.format(name=command, where="here"))
    return _COMMAND_THERE.format(command=shlex.quote(command), said=said, code=EXIT_USAGE)


def _served(recipe: Recipe) -> str:
    """The lines that look for the paths of the machine that measured, and run the command."""
    serve = recipe.serve
    command = ServeCommand(serve.words, serve.note, serve.first_line, serve.environment)
    model = _model_folder(recipe)
    others = "".join(_lies_there(each) for each in _paths(recipe) if each != model)
    if model is None:
        return f"{others}{command.shell}\n"
    said = f"copy it there from where this was measured, or name your copy: {MODEL}=FOLDER ./{SERVE}"
    there = _MODEL_THERE.format(name=MODEL, path=shlex.quote(model), said=said, code=EXIT_USAGE)
    return f"{there}{others}{command.shell_with({model: MODEL})}\n"


def _model_folder(recipe: Recipe) -> str | None:
    """The folder of the model on the machine that measured, where the command has it as a word: the first of
    its absolute paths."""
    return next((each for each in recipe.serve.words[1:] if each.startswith("/")), None)


def _lies_there(path: str) -> str:
    """The lines that end a script in a sentence where a path of the machine that measured is not there."""
    said = (
        f"{_one_line(path)} is not here: copy it there from where this was measured, or name the place of "
        f"your copy in {SERVE}."
    )
    return _PATH_THERE.format(path=shlex.quote(path), said=shlex.quote(said), code=EXIT_USAGE)


def _paths(recipe: Recipe) -> tuple[str, ...]:
    """The absolute paths that the command and its first line name, as the folder of a model of no hub."""
    try:
        order = json.loads(recipe.serve.first_line or "")
    except ValueError:  # what an engine reads first need not be JSON
        order = None
    values = order.values() if isinstance(order, dict) else ()
    named = (*recipe.serve.words[1:], *(each for each in values if isinstance(each, str)))
    return tuple(dict.fromkeys(each for each in named if each.startswith("/")))


def _needed(recipe: Recipe) -> str:
    """The lines that end `serve.sh` in a sentence where what it runs is not there."""
    if not _runs_own(recipe):
        return _there(recipe.serve.words[0])
    names = ("autoinfer", *(each.partition("==")[0] for each in pins(recipe)))
    said = _WITHOUT.format(name="{name}", where="for the command python")
    return _PACKAGES_THERE.format(names=repr(names), said=f"f{said!r}", code=EXIT_USAGE)


def _runs_own(recipe: Recipe) -> bool:
    """Whether it is served by a process of autoinfer's own, as the reference engine is."""
    words = recipe.serve.words
    return words[:2] == ("python", "-m") and len(words) > 2 and words[2].startswith(_OWN)


def _one_line(name: str) -> str:
    """A name as a comment can hold it: what follows the end of a line would be run."""
    return " ".join(name.split())


def pins(recipe: Recipe) -> tuple[str, ...]:
    """The packages with the versions that were measured, as pip has them; what a local build adds (`+cpu`) is
    left to the index."""
    return tuple(
        f"{name}=={version.partition('+')[0]}"
        for name, version in sorted(recipe.versions.items())
        if name not in NOT_PACKAGES
    )


def readme(recipe: Recipe, denied: Sequence[str] = ()) -> str:
    """What it is, what it promises and what speaks against that, how it is used and checked."""
    promise = recipe.promise
    times, metric = 1 / exp(promise.effect_log), metric_word(promise.metric)
    fastest, least = (1 / exp(each) for each in (promise.low_log, promise.high_log))
    changed = (
        "\n".join(f"- `{knob}={value}`" for knob, value in sorted(recipe.changed.items())) or "- nothing"
    )
    builds = "\n".join(
        f"- {each.kind} `{each.digest}`" + (f", calibrated on {each.corpus}" if each.corpus else "")
        for each in recipe.builds
    )
    revision = f", {recipe.hub['repo']} at `{recipe.hub['commit']}`" if recipe.hub else ""
    build = (
        f"\n## The checkpoint\n\n`./{BUILD}` builds it from the model, into "
        f"`checkpoint/`:\n\n{builds}\n\nCorpora, their "
        f"fingerprints, inputs and versions of what builds them are in `{RECIPE}`; where the versions here "
        "give another "
        "digest, the command says so and ends with 1.\n"
        if recipe.builds
        else ""
    )
    at = _revision(recipe)
    source = f"git+file:///PATH/TO/autoinfer{f'@{at}' if at else ''}"
    scripts = [CHECK, *([BUILD] if recipe.builds else []), *([SERVE] if _runs_own(recipe) else [])]
    there = "beside them" if _runs_own(recipe) else "in an environment of its own, if you like"
    model = _model_folder(recipe)
    elsewhere = (
        f"\nThe model is taken from `{_one_line(model)}`; from elsewhere with `{MODEL}=FOLDER ./{SERVE}`.\n"
        if model
        else ""
    )
    chained = " along a chain of tests" if promise.chained else ""
    against = (
        f"\n**Check it before it is deployed**, with `./{CHECK}`. {' '.join(map(_one_line, denied))}\n"
        if denied
        else ""
    )
    return f"""# {recipe.model}, {times:.3g} times as fast

What {recipe.campaign} found best for {recipe.model} on {machine(recipe.target)}, engine {recipe.engine}:
{metric} falls to {100 * exp(promise.effect_log):.3g} % of the baseline's, {times:.3g} times as fast
[{least:.3g}, {fastest:.3g}] (95 %, {promise.pairs} pairs of launches, {recipe.experiment}{chained}).
{against}
It changes:

{changed}

{_quality(promise)}

The result is one on this model, this hardware, these versions and this workload ({_workload(recipe)}), and on
nothing else. The model's files have the SHA-256 `{recipe.model_fingerprint}`{revision}.

## Install what it needs

    pip install -r {REQUIREMENTS}      # the versions that were measured
    pip install '{source}'

The second is autoinfer itself, {there}, which {listed([f"`{each}`" for each in scripts])} cannot do without.
It comes from its repository and from no package index: put the folder of your copy in place of
`/PATH/TO/autoinfer`. What measured was {which(recipe)}.

## Serve it

    ./{SERVE}
{elsewhere}
{recipe.serve.note}
{build}
## Check it after an upgrade

    ./{CHECK}                          # or: autoinfer check {RECIPE} --within 15m

It runs the baseline against this configuration once more in fresh processes, side by side. It measures for
{format_duration(CHECK_S)} at most (`--within 15m` gives it longer), which begin when both checkpoints are
there, and is done sooner where it is sure sooner. It ends with the exit code

- `0` where the gain still holds,
- `{EXIT_FAILURE}` where it does not, or the judge leaves it open, or the run broke,
- `{EXIT_USAGE}` where there was nothing to check: an option is wrong, or the database is another one,
- `{EXIT_OPEN}` where its time was up before that was settled: nothing is marked, and longer may settle it.

*Holds* means: the whole interval lies beyond {100 * promise.least_effect:.3g} % less {metric}, which is
{100 * RETAINED:g} % (as a logarithm) of the least gain that was measured, and the quality held. The outcome
is written into the database of the campaign (`--data-dir DIR` or `--db URL`, where that is not the default
one), where the findings that this rests on are confirmed, or marked stale.
"""


def _quality(promise: Promise) -> str:
    """What was measured of its quality against the baseline's, and what was allowed."""
    tests = quality_tests(
        {"bits_per_byte_relative": promise.bits_per_byte, "task_points_lost": promise.task_points_lost}
    )
    if not tests:
        return "Its quality was not measured."
    lines = []
    for each in tests:
        low, high = (each.difference if end is None else end for end in (each.low, each.high))
        found, least, most = (signed(value, each.places) for value in (each.difference, low, high))
        over = f"{each.count:,} {'items' if each.unit == 'points' else 'documents'}"
        allowed = "" if each.margin is None else f", allowed {signed(each.margin)} {each.unit}"
        lines.append(f"- {each.name}: {found} {each.unit} [{least}, {most}] over {over}{allowed}")
    head = "Its quality against the baseline's, each end of an interval one-sided at the campaign's level:"
    return "\n".join([head, "", *lines])


def _workload(recipe: Recipe) -> str:
    load = recipe.workload
    told = [
        f"{load[name]} {words}"
        for name, words in (
            ("prompt_tokens", "tokens in"),
            ("new_tokens", "tokens out"),
            ("concurrency", "at once"),
        )
        if load.get(name) is not None
    ]
    return ", ".join([*told, f"asked {asked_over_words(load.get(ASKED_OVER))}"] if told else told) or (
        "its workload is not told"
    )
