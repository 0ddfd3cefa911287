"""Which values vLLM's settings take, read from its own sources: no import of it, so no torch and no GPU.

Run by vLLM's Python as a file: `python read_values.py NAME…`, where a name is `FILE:TYPE` below vLLM's
folder, and answers `{NAME: [values…]}` on stdout. A type is a `Literal` by the name of its alias (aliases
within it are followed) or of what is annotated with it, if only for those who check types, a field of a class
(`Class.field`) whose annotation is one, or an `Enum`, whose members are told in lower case, as they are asked
for. `MAP@LISTS.KEY` are the names in the dictionary `MAP` that have something of the list in `LISTS` whose
key ends in `.KEY`, after `auto`. What is not there is left out. Imports the standard library alone.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path


def read_values(package: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """The values of each of these types of the vLLM in a folder; without those that are not found there."""
    found = {}
    for name in names:
        file, _, kind = name.partition(":")
        path = package / file
        values = list(_values(ast.parse(path.read_bytes()), kind)) if path.is_file() else []
        if values:
            found[name] = list(dict.fromkeys(values))
    return found


def _values(module: ast.Module, kind: str) -> Iterator[str]:
    if "@" in kind:
        yield from _names_with_any(module, *kind.split("@"))
        return
    owner, _, field = kind.rpartition(".")
    classes = {each.name: each for each in module.body if isinstance(each, ast.ClassDef)}
    aliases = {
        target.id: each.value
        for each in module.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    if owner:
        for each in classes[owner].body if owner in classes else ():
            if isinstance(each, ast.AnnAssign) and getattr(each.target, "id", None) == field:
                yield from _literals(each.annotation, aliases)
    elif kind in classes:
        for each in classes[kind].body:
            if isinstance(each, ast.Assign):
                yield from (target.id.lower() for target in each.targets if isinstance(target, ast.Name))
    elif kind in aliases:
        yield from _literals(aliases[kind], aliases)
    else:
        within = [each for block in module.body if isinstance(block, ast.If) for each in block.body]
        for line in (*module.body, *within):
            if isinstance(line, ast.AnnAssign) and getattr(line.target, "id", None) == kind:
                yield from _literals(line.annotation, aliases)


def _names_with_any(module: ast.Module, names: str, place: str) -> Iterator[str]:
    """`auto`, and the names of a dictionary of sets that share a member with one list of a dictionary."""
    lists, _, key = place.rpartition(".")
    dictionaries = {
        target.id: each.value
        for each in module.body
        if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(each.value, ast.Dict)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if isinstance(target, ast.Name)
    }
    if names not in dictionaries or lists not in dictionaries:
        return
    wanted = next(
        (
            _members(value)
            for at, value in zip(dictionaries[lists].keys, dictionaries[lists].values, strict=True)
            if isinstance(at, ast.Attribute) and at.attr == key
        ),
        None,
    )
    if wanted is None:
        return
    yield "auto"
    for at, value in zip(dictionaries[names].keys, dictionaries[names].values, strict=True):
        if isinstance(at, ast.Constant) and isinstance(at.value, str) and _members(value) & wanted:
            yield at.value


def _members(node: ast.expr) -> set[str]:
    """The names that a list or a set consists of."""
    listed = node.elts if isinstance(node, ast.List | ast.Set) else []
    return {each.id for each in listed if isinstance(each, ast.Name)}


def _literals(node: ast.expr, aliases: dict[str, ast.expr]) -> Iterator[str]:
    """The strings within `Literal[…]`, in a union too, with those of the aliases that it names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id in aliases:
        others = {name: value for name, value in aliases.items() if name != node.id}
        yield from _literals(aliases[node.id], others)
    elif isinstance(node, ast.Subscript):
        yield from _literals(node.slice, aliases)
    elif isinstance(node, ast.Tuple):
        for each in node.elts:
            yield from _literals(each, aliases)
    elif isinstance(node, ast.BinOp):
        yield from _literals(node.left, aliases)
        yield from _literals(node.right, aliases)


def main() -> None:
    """Answer for the vLLM of this Python."""
    spec = find_spec("vllm")
    if spec is None or spec.origin is None:
        raise SystemExit("vLLM is not installed in this Python.")
    print(json.dumps(read_values(Path(spec.origin).parent, sys.argv[1:])))


if __name__ == "__main__":
    main()
