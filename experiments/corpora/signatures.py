"""Reads function signatures and summaries out of Python source by `ast`, without running it."""

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from experiments.corpora.standard_library import Document

MAX_PARAMETERS = 8
"""Longer signatures make prompts that a small model's context has no room for."""

MAX_SIGNATURE_CHARS = 160
"""Likewise, in characters of the whole `def` line."""

SUMMARY_CHARS = (12, 90)
"""A docstring's first line is a summary if it is this long: shorter ones say nothing, longer ones run on."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; `default` is its source text, `None` if there is none."""

    name: str
    default: str | None


@dataclass(frozen=True)
class Signature:
    """A function as its `def` line tells it: where it stands, its parameters without `self`, its summary."""

    module: str
    name: str
    parameters: tuple[Parameter, ...]
    line: str
    summary: str | None


def signatures(documents: Iterable[Document]) -> Iterator[Signature]:
    """Yield every function of the documents that has plain named parameters, in order of their text.

    Functions with `*args`, `**kwargs` or positional-only parameters are left out (they can't be called by
    keyword alone), and so are documents that this Python can't parse.
    """
    for document in documents:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                tree = ast.parse(document.text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                signature = _signature(document.name, node)
                if signature is not None:
                    yield signature


def _signature(module: str, node: ast.FunctionDef) -> Signature | None:
    """Return the signature of a function definition, or `None` where it is not of the kind wanted."""
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs or node.name.startswith("__"):
        return None
    padding: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    pairs = [
        *zip(arguments.args, [*padding, *arguments.defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    parameters = tuple(
        Parameter(argument.arg, None if default is None else ast.unparse(default))
        for argument, default in pairs
        if argument.arg not in ("self", "cls")
    )
    line = f"def {node.name}({ast.unparse(arguments)}):"
    if len(parameters) > MAX_PARAMETERS or len(line) > MAX_SIGNATURE_CHARS or "\n" in line:
        return None
    return Signature(module, node.name, parameters, line, _summary(node))


def _summary(node: ast.FunctionDef) -> str | None:
    """Return the first line of the docstring if it reads as a sentence."""
    docstring = ast.get_docstring(node)
    if not docstring or not docstring.strip():
        return None
    first = docstring.strip().splitlines()[0].strip()
    shortest, longest = SUMMARY_CHARS
    fits = shortest <= len(first) <= longest and first.isascii() and first[0].isalpha() and " " in first
    return first if fits else None
