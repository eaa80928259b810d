"""YAML read safely, with the line of every entry. Ids are what was written: dates, 007 and keys stay text."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import yaml

from karat.errors import InputError

# The line of each entry of a list, by the list's id(): of the outermost list, or of those right under a mapping.
Lines: TypeAlias = dict[int, list[int]]

_DEEPEST = 100
_TAG = "tag:yaml.org,2002:"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Safe loading without YAML 1.1's surprises: `no`, 2025-06-01, 010, 0x1F, 1_000 and 12:30 are text."""


_SURPRISING = (":timestamp", ":bool", ":int", ":float")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_SURPRISING)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _pattern, _firsts in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^(?:0|-?[1-9][0-9]*)$", "-0123456789"),
    (
        "float",
        r"^(?:-?(?:0|[1-9][0-9]*)\.[0-9]*(?:[eE][-+]?[0-9]+)?|-?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-.0123456789",
    ),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(_pattern), list(_firsts))


def load_yaml(text: bytes, label: str) -> tuple[Any, Lines]:
    """The document, and where the entries of its lists stand."""
    try:
        _refuse_depth_and_bombs(text, label)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, {}
            _settle_keys(node, label, set())
            value = loader.construct_document(node)
            return value, _entry_lines(node, value)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        tabs = b"\t" in text and "cannot start any token" in str(error.problem)
        hint = "YAML is indented with spaces, not tabs" if tabs else None
        what = f"not YAML: {error.problem or error.context}"
        raise InputError(what, file=label, line=line, column=column, hint=hint) from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", file=label) from error
    except (AttributeError, LookupError, TypeError) as error:  # how PyYAML takes `!!int ""` or `!!timestamp today`
        raise InputError("not YAML: a tag that does not fit its value", file=label) from error


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


def _entry_lines(node: Any, value: Any) -> Lines:
    lists = [(node, value)]
    if isinstance(value, dict):
        lists = [(child, value.get(key.value)) for key, child in node.value if isinstance(key, yaml.ScalarNode)]
    return {
        id(found): [entry.start_mark.line + 1 for entry in child.value]
        for child, found in lists
        if isinstance(found, list)
    }


def _settle_keys(node: Any, label: str, seen_nodes: set[int]) -> None:
    """Keys are text, as in JSON, and stand once."""
    if id(node) in seen_nodes:  # an alias: looked at already
        return
    seen_nodes.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _settle_keys(child, label, seen_nodes)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    line, column = key.start_mark.line + 1, key.start_mark.column + 1
                    raise InputError(f"the key {key.value!r} stands twice", file=label, line=line, column=column)
                keys.add(key.value)
                if key.tag != _TAG + "merge":
                    key.tag = _TAG + "str"
            _settle_keys(value, label, seen_nodes)


Path: TypeAlias = tuple[str | int, ...]
Places: TypeAlias = dict[Path, tuple[int, int]]


def load_yaml_places(text: bytes, label: str) -> tuple[Any, Places]:
    """The document, and (line, column) of every value by its path; of a key under the path and KEY."""
    value, _ = load_yaml(text, label)
    places: Places = {}
    node = yaml.compose(text, Loader=_Base)
    if node is not None:
        _note_places(node, (), places)
    return value, places


KEY = "key of"


def _note_places(node: Any, path: Path, places: Places) -> None:
    places[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            places[(*path, key.value, KEY)] = (key.start_mark.line + 1, key.start_mark.column + 1)
            _note_places(value, (*path, key.value), places)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _note_places(value, (*path, i), places)
