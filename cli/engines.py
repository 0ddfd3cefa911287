"""`autoinfer engines`: list, install."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from pathlib import Path

    from configs.settings import Settings
    from experiments.engines.vllm.known_values import KnownValues
    from experiments.space.space import Space

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="List what serves models here, or install it."
)

LM_EVAL, QUANTIZE = "lm-eval", "quantize"

INSTALLABLE = ("vllm", QUANTIZE, LM_EVAL)
"""What has an environment of its own, which `install` makes: an engine, what quantizes, and what makes
quality tasks."""


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """The engines that are registered, and whether each can serve here."""
    from cli.console.opening import settings_of
    from cli.console.output import console, print_json, table
    from configs.registry import Port, names

    settings = settings_of(ctx)
    found = [look_at(name, settings) for name in names(Port.ENGINE)]
    if as_json:
        print_json({"items": found})
        return
    rows = [(each["engine"], each["state"], each["found"]) for each in found]
    console().print(table(("engine", "state", "found"), rows, wide=("found",)))


@app.command()
def install(
    ctx: typer.Context,
    engine: Annotated[
        str,
        typer.Argument(metavar="ENGINE", help="vllm, quantize for what quantizes, or lm-eval for tasks."),
    ],
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="This version and no other.")
    ] = None,
    cpu: Annotated[
        bool | None,
        typer.Option("--cpu/--gpu", help="The build for CPUs, or the one for NVIDIA GPUs."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an environment for vLLM, for what quantizes, or for lm-eval, with pip."""
    from cli.console.opening import settings_of
    from cli.console.output import print_json, say
    from cli.health.gpu_checks import visible_gpus
    from configs.errors import UsageError
    from experiments.engines.vllm.install import install, requirement
    from experiments.environment_making import LOG_NAME, check_made_here

    if engine not in INSTALLABLE:
        raise UsageError(
            f"The engine {engine!r} has no environment of its own to install.",
            f"It can be: {', '.join(INSTALLABLE)}.",
        )
    if engine == LM_EVAL:
        if version is not None or cpu is not None:
            raise UsageError(
                "lm-eval has no --version, --cpu or --gpu: tasks are made by one version of it.",
                "Leave them out.",
            )
        _install_lm_eval(settings_of(ctx), as_json=as_json)
        return
    if engine == QUANTIZE:
        if version is not None:
            raise UsageError(
                "What quantizes has no --version: it is the llmcompressor that quantization was written for.",
                "Leave it out.",
            )
        _install_quantize(settings_of(ctx), for_cpu=cpu, as_json=as_json)
        return
    why = "" if cpu is not None else visible_gpus()[1]
    unseen = f" No GPU is seen here ({why.rstrip('.')}); --cpu takes the build for CPUs." if why else ""
    cpu = bool(cpu)
    settings, wanted = settings_of(ctx), requirement(version, for_cpu=cpu)
    check_made_here(settings.vllm_python, made_in(settings, "vllm_python"), "vllm_python", [wanted])
    folder = settings.vllm_python.parent.parent
    if not as_json:
        say(
            f"Installs {wanted} into {folder}; this takes minutes.{unseen} What pip says is in "
            f"{folder / LOG_NAME}."
        )
    made = install(folder, version, for_cpu=cpu)
    if as_json:
        print_json(
            {"engine": engine, "version": made.version, "python": str(made.python), "cpu": made.for_cpu}
        )
        return
    say(f"vLLM {made.version} is at {made.python}.")


def made_in(settings: Settings, name: str) -> Path:
    """Where the Python of a setting is while nothing else is named."""
    from configs.settings import BELOW_DATA_DIR

    return settings.data_dir / BELOW_DATA_DIR[name]


def _install_lm_eval(settings: Settings, *, as_json: bool) -> None:
    from cli.console.output import print_json, say
    from experiments.environment_making import LOG_NAME, check_made_here
    from experiments.quality_tasks.environment import REQUIREMENTS
    from experiments.quality_tasks.install import install

    default = made_in(settings, "lm_eval_python")
    check_made_here(settings.lm_eval_python, default, "lm_eval_python", REQUIREMENTS)
    folder = settings.lm_eval_python.parent.parent
    if not as_json:
        say(f"Installs {', '.join(REQUIREMENTS)} into {folder}. What pip says is in {folder / LOG_NAME}.")
    python, version = install(folder)
    if as_json:
        print_json({"engine": LM_EVAL, "version": version, "python": str(python)})
        return
    say(f"lm-eval {version} is at {python}.")


def _install_quantize(settings: Settings, *, for_cpu: bool | None, as_json: bool) -> None:
    from cli.console.output import print_json, say
    from cli.health.gpu_checks import visible_gpus
    from experiments.environment_making import LOG_NAME, check_made_here
    from experiments.stages.quantize.environment import INSTALL_FOR_GPUS, cannot_on
    from experiments.stages.quantize.install import install, packages_wanted

    found, why = visible_gpus()
    looked = for_cpu is None
    if for_cpu is None:
        for_cpu = not found
    wanted, first = packages_wanted(for_cpu=for_cpu)
    default = made_in(settings, "quantize_python")
    check_made_here(settings.quantize_python, default, "quantize_python", wanted, first=first)
    folder = settings.quantize_python.parent.parent
    if not as_json:
        told = f" PyTorch for CPUs, because no GPU is seen ({why.rstrip('.')}); --gpu takes the other."
        say(
            f"Installs {' and '.join(wanted)} into {folder}; this takes minutes."
            f"{told if looked and for_cpu else ''} What pip says is in {folder / LOG_NAME}."
        )
    made = install(folder, for_cpu=for_cpu)
    if as_json:
        print_json(
            {
                "engine": QUANTIZE,
                "version": made.version,
                "torch": made.torch.version,
                "cuda": made.torch.cuda,
                "python": str(made.python),
                "cpu": for_cpu,
            }
        )
        return
    built = "CPUs" if made.torch.cuda is None else f"CUDA {made.torch.cuda}"
    say(f"llmcompressor {made.version} is at {made.python}, with PyTorch {made.torch.version} for {built}.")
    for device, gpu in () if for_cpu else found.items():
        if refused := made.torch.refusal(cannot_on(device), gpu.cuda_driver, INSTALL_FOR_GPUS):
            say(refused)


def values_apart(known: KnownValues, space: Space) -> list[str]:
    """What a version of vLLM does not know of a space, and what it has beyond that, a sentence each; or why
    that could not be read."""
    told = [*known.unknown(space).values()]
    if known.unread is not None:
        told.append(known.unread)
    beyond = "; ".join(f"{knob} {', '.join(values)}" for knob, values in known.beyond(space).items())
    if beyond:
        told.append(f"Beyond what is asked of it by the space vllm it has {beyond}.")
    return told


def look_at(name: str, settings: Settings) -> dict[str, str]:
    """Tell of one engine: its name, `ok` or `infeasible`, and what was found or is missing."""
    from experiments.engines.port import Infeasible
    from experiments.measurement.environment import package_version

    if name == "vllm":
        from cli.health.gpu_checks import installed_vllm
        from experiments.engines.vllm.environment import HOW_TO_INSTALL, untried
        from experiments.engines.vllm.known_values import known_values
        from experiments.space.loading import load_space

        try:
            found = installed_vllm(settings)
        except Infeasible as reason:
            return {"engine": name, "state": "infeasible", "found": reason.cause}
        if found is None:
            named = settings.vllm_python
            there = f" at {named}" if named.is_file() else ""
            return {
                "engine": name,
                "state": "infeasible",
                "found": f"not installed{there}: {HOW_TO_INSTALL}.",
            }
        kind = "CPUs" if found.for_cpu else "GPUs"
        sentences = [f"vLLM {found.version} for {kind} at {found.python}.", untried(found)]
        sentences += values_apart(known_values(found), load_space(name))
        return {"engine": name, "state": "ok", "found": " ".join(filter(None, sentences))}
    if name == "reference":
        version = package_version("torch")
        if version is None:
            told = "PyTorch is not installed: pip install 'autoinfer[reference]'."
            return {"engine": name, "state": "infeasible", "found": told}
        return {"engine": name, "state": "ok", "found": f"PyTorch {version} in this Python"}
    return {"engine": name, "state": "ok", "found": "registered by a package of yours"}
