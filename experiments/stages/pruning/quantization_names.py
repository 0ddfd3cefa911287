"""Names of layers in a `quantization_config`, numbered anew when layers are taken out. Pure.

Quantized checkpoints list modules: those kept in high precision (`ignore` in compressed-tensors,
`modules_to_not_convert` in AWQ) and those a scheme applies to (`targets`). An entry is a module's name, a
class's name, or `re:` and a regular expression that is matched from a name's beginning. After removal each
list must mean the same modules as before under their new numbers. An entry that does so as it is stays; one
that does so with its layer number replaced is renumbered; any other expression is spelt out, module by
module.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.engines.port import Infeasible

NAME_LISTS = ("ignore", "targets", "modules_to_not_convert")
"""Keys, at any depth within, whose values are lists of names or expressions."""

REGEX_PREFIX = "re:"

TRUNK_PREFIXES = ("model.", "model.language_model.", "language_model.model.")
"""What stands before `layers.N` by text model, wrapper, and wrapper in vLLM: a list may use another form than
the tensors do."""

TRUNK_LAYER = re.compile(rf"^({'|'.join(re.escape(each) for each in TRUNK_PREFIXES)})layers\.(\d+)(?=\.|$)")
"""A layer of the text model, at the beginning of a name; the MTP head's and a vision tower's are not."""

_BARE_LAYER = re.compile(r"^()layers\.(\d+)(?=\.|$)")
_NUMBER_IN_REGEX = re.compile(r"(layers(?:\\\.|\.))(\d+)(?=\\\.|\.|\$|$)")
_NAMES_A_NUMBER = re.compile(r"layers\W+\d")


def renumbered(name: str, places: Mapping[int, int]) -> str | None:
    """The name of a module or tensor after removal, None when its layer is gone.

    `places` maps the numbers of the layers that stay to their new ones.
    """
    found = TRUNK_LAYER.match(name) or _BARE_LAYER.match(name)
    if found is None:
        return name
    place = places.get(int(found[2]))
    return None if place is None else f"{name[: found.start(2)]}{place}{name[found.end(2) :]}"


@dataclass(frozen=True)
class NamesAfterRemoval:
    """Rewrites lists of names for a checkpoint with these tensors of which these layers stay."""

    tensors: Collection[str]
    places: Mapping[int, int]

    @cached_property
    def _after(self) -> Mapping[str, str | None]:
        """Every module that a list may mean, under each form of its name, and its name after removal."""
        modules = {name.rpartition(".")[0] for name in self.tensors} | {"lm_head"}
        forms = set(modules)
        for module in modules:
            found = TRUNK_LAYER.match(module)
            if found is not None:
                forms |= {prefix + module[len(found[1]) :] for prefix in TRUNK_PREFIXES}
        return {name: renumbered(name, self.places) for name in sorted(forms)}

    def config(self, quantization: Mapping[str, Any]) -> dict[str, Any]:
        """A quantization configuration whose lists mean the same modules as before.

        A scheme (an object with `targets`) all of whose modules are gone is dropped.

        Raises:
            Infeasible: kind `unsupported`, when it names layers by number anywhere else.
        """
        changed = self._object(quantization)
        assert isinstance(changed, dict)
        return changed

    def entries(self, entries: Iterable[str]) -> list[str]:
        """The entries of one list after removal, in their order, without doubles."""
        return list(dict.fromkeys(after for entry in entries for after in self._entry(entry)))

    def _object(self, value: Any, at: str = "quantization_config") -> Any:
        if isinstance(value, Mapping):
            changed: dict[str, Any] = {}
            for key, each in value.items():
                self._refuse_number(key, at)
                if key in NAME_LISTS and isinstance(each, Sequence) and not isinstance(each, str):
                    changed[key] = self.entries(map(str, each))
                else:
                    changed[key] = self._object(each, f"{at}.{key}")
                if _lost_all_targets(each, changed[key]):
                    del changed[key]
            return changed
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self._object(each, at) for each in value]
        if isinstance(value, str):
            self._refuse_number(value, at)
        return value

    def _refuse_number(self, text: str, at: str) -> None:
        if _NAMES_A_NUMBER.search(text):
            raise Infeasible(
                "unsupported",
                f"{at} in config.json names a layer by number ({text!r}) in a place where pruning can't "
                f"number it anew; it can in lists named {', '.join(NAME_LISTS)}.",
            )

    def _entry(self, entry: str) -> list[str]:
        if not entry.startswith(REGEX_PREFIX):
            after = renumbered(entry, self.places)
            return [] if after is None else [after]
        pattern = entry.removeprefix(REGEX_PREFIX)
        wanted = {after for name in self._matches(pattern) if (after := self._after[name]) is not None}
        if self._matches_after(pattern) == wanted:
            return [entry] if wanted or not _NAMES_A_NUMBER.search(pattern) else []
        with_new_number = _NUMBER_IN_REGEX.sub(self._replaced, pattern)
        if self._matches_after(with_new_number) == wanted:
            return [REGEX_PREFIX + with_new_number]
        return sorted(wanted)

    def _replaced(self, found: re.Match[str]) -> str:
        return f"{found[1]}{self.places.get(int(found[2]), int(found[2]))}"

    def _matches(self, pattern: str) -> set[str]:
        return {name for name in self._after if re.match(pattern, name)}

    def _matches_after(self, pattern: str) -> set[str]:
        return {name for name in self._after.values() if name is not None and re.match(pattern, name)}


def _lost_all_targets(before: Any, after: Any) -> bool:
    return (
        isinstance(before, Mapping) and bool(before.get("targets")) and not (after or {}).get("targets", True)
    )
