"""YAML read safely, with the line of every entry; dates stay text, only true and false are booleans."""

from __future__ import annotations

import re
from typing import Any

import yaml

from karat.errors import InputError

_DEEPEST = 100
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Safe loading without YAML 1.1's surprises: `no` is text, not False; 2025-06-01 is text, not a date."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":bool"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _first in "tTfF":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).append(
        ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"))
    )


def load_yaml(text: bytes, label: str) -> tuple[Any, list[int]]:
    """The document, and the line of each entry of its (outermost or only) list."""
    try:
        _refuse_depth_and_bombs(text, label)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, []
            _refuse_repeated_keys(node, label, set())
            return loader.construct_document(node), _entry_lines(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise InputError(f"not YAML: {error.problem or error.context}", file=label, line=line) from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", file=label) from error


def _refuse_depth_and_bombs(text: bytes, label: str) -> None:
    """Walk through the events first: the C loader recurses without a limit, and aliases of aliases explode."""
    depth, anchored = 0, 0  # how deep we are, and how deep inside of the outermost anchored collection
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            anchored += bool(anchored or event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            anchored -= anchored > 0
        elif isinstance(event, yaml.AliasEvent) and anchored:
            line = _line(event)
            raise InputError("an alias inside of an anchor", file=label, line=line, hint="write the values out")
        if depth > _DEEPEST:
            raise InputError("nested too deeply", file=label, line=_line(event))


def _line(event: yaml.Event) -> int | None:
    return None if event.start_mark is None else event.start_mark.line + 1


def _entry_lines(node: Any) -> list[int]:
    if isinstance(node, yaml.SequenceNode):
        return [child.start_mark.line + 1 for child in node.value]
    if isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            if isinstance(value, yaml.SequenceNode):
                return _entry_lines(value)
    return []


def _refuse_repeated_keys(node: Any, label: str, seen_nodes: set[int]) -> None:
    if id(node) in seen_nodes:  # an alias: looked at already
        return
    seen_nodes.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _refuse_repeated_keys(child, label, seen_nodes)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise InputError(f"the key {key.value!r} stands twice", file=label, line=key.start_mark.line + 1)
                keys.add(key.value)
            _refuse_repeated_keys(value, label, seen_nodes)
