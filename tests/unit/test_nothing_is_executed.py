"""No room has a way from data to code: no pickle, no eval, no shell, no code that comes with a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("agent", "cli", "configs", "dashboard", "db", "experiments", "knowledge")

MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "joblib",
    "jsonpickle",
    "code",
}
"""Modules that make code or any object of what they read."""

BUILTINS = {"eval", "exec", "compile", "__import__"}

CALLS = {
    "os.system",
    "os.popen",
    "pty.spawn",
    "yaml.unsafe_load",
    "yaml.full_load",
    "torch.load",
}
"""Calls that execute what they are given, or may."""

KEYWORDS = {("shell", True), ("trust_remote_code", True), ("allow_pickle", True), ("weights_only", False)}

UNSAFE_LOADERS = {"Loader", "FullLoader", "UnsafeLoader"}


def named(node: ast.expr) -> str:
    """The dotted name of a call's function, as far as it is one."""
    if isinstance(node, ast.Attribute):
        return f"{named(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(text: str) -> Iterator[str]:
    """What in a module's text leads from data to code."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=found):
                yield from (each.name for each in found if each.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield module
            case ast.Call(func=function, keywords=keywords):
                name = named(function)
                if name in BUILTINS | CALLS:
                    yield name
                for each in keywords:
                    value = each.value.value if isinstance(each.value, ast.Constant) else None
                    if (each.arg, value) in KEYWORDS:
                        yield f"{name}({each.arg}={value})"
                if (
                    name == "yaml.load"
                    and {named(each).split(".")[-1] for each in node.args[1:]} & UNSAFE_LOADERS
                ):
                    yield name
            case ast.ClassDef(bases=bases) if {named(each) for each in bases} & {
                f"yaml.{x}" for x in UNSAFE_LOADERS
            }:
                yield node.name


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_has_a_way_from_data_to_code(room: str) -> None:
    modules = sorted((ROOT / room).rglob("*.py"))
    assert modules
    found = {str(path.relative_to(ROOT)): [*faults(path.read_text(encoding="utf-8"))] for path in modules}
    assert {path: told for path, told in found.items() if told} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.memory",
        "eval('1')",
        "exec(text)",
        "import os; os.system(text)",
        "subprocess.run(text, shell=True)",
        "torch.load(path)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, yaml.Loader)",
        "class Own(yaml.FullLoader): pass",
    ],
)
def test_each_way_would_be_found(text: str) -> None:
    assert list(faults(text))
