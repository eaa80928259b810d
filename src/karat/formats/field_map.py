"""Field maps (`--map query_id=id,topk=results`) for a user's own field names, and a guess where no map is given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec

from karat.errors import ConfigError, did_you_mean, shorten
from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.gold_records import GoldEntry, GoldItem
from karat.formats.run_records import Hit, RunRecord

FileKind = Literal["run", "gold", "corpus", "queries"]
_HIT, _ITEM = Hit.__struct_fields__, GoldItem.__struct_fields__
# Fields that a record of each kind, and an entry of its lists, may have.
RECORD: dict[FileKind, tuple[str, ...]] = {
    "run": RunRecord.__struct_fields__,
    "gold": GoldEntry.__struct_fields__,
    "corpus": (
        "id",
        "chunk_id",
        "doc_id",
        "title",
        "text",
        "doc_version",
        "version",
        "source",
        "tokens",
        "start",
        "end",
    ),
    "queries": ("query_id", "query", "tags"),
}
ENTRY: dict[FileKind, tuple[str, ...]] = {"run": _HIT, "gold": _ITEM, "corpus": (), "queries": ()}
LISTS: dict[FileKind, tuple[str, ...]] = {
    "run": ("topk", "raw", "topk_original"),
    "gold": ("gold",),
    "corpus": (),
    "queries": (),
}
_EXAMPLE = "such as query_id=id,topk=results,chunk_id=doc"
# A file that has these under other names is in the user's own format.
_ESSENTIAL = {"query_id", "chunk_id", "doc_id", "topk", "gold"}
_KNOWN = sorted({name for kind in RECORD for name in (*RECORD[kind], *ENTRY[kind])})


class FieldMap:
    """Field of Karat → field of a file. A path may have dots: `topk=response.hits`.

    One map serves all files of a command. An entry counts where a file has its field, so `query_id=id` can be combined
    with `query_id=question_id`. `gold.query_id=qid` is for one kind of file only.
    """

    def __init__(
        self,
        entries: Iterable[tuple[str, str]],
        label: str | None = None,
        *,
        strict: bool = False,
        for_all: bool = False,
    ) -> None:
        """`strict`: it is for one file, which must have every field. `for_all`: it is for the files of all commands, so
        a command may read none of the files that it is for."""
        self.strict = strict
        self.for_all = for_all
        self._used: dict[FileKind, set[tuple[str, str]]] = {kind: set() for kind in RECORD}
        self._label = label
        self._entries: list[tuple[str, str]] = []
        for name, path in entries:
            kind, dot, role = str(name).rpartition(".")
            known = RECORD.get(kind, ()) + ENTRY.get(kind, ()) if dot else _KNOWN  # type: ignore[call-overload]
            if role not in known:
                hint = did_you_mean(str(name), known) or f"known fields: {', '.join(known or _KNOWN)}"
                raise ConfigError(
                    f"unknown field {shorten(name, 40)!r}", code="unknown-column", file=label, field="map", hint=hint
                )
            if not isinstance(path, str) or not path.strip():
                raise ConfigError(
                    "not a field name", code="wrong-type", file=label, field=str(name), expected="text", got=path
                )
            self._entries.append((str(name), path))

    @classmethod
    def of(cls, said: Any, *, strict: bool = False, settings: str | None = None) -> FieldMap | None:
        """From `a=b,c=d`, a mapping, or a YAML file that holds one. `settings`: the file that has a map for all
        commands."""
        if said is None or isinstance(said, FieldMap):
            return said
        if isinstance(said, str) and "=" in said:
            pairs = [text.partition("=") for text in said.split(",")]
            for name, equals, path in pairs:
                if not (name.strip() and equals and path.strip()):
                    raise ConfigError("not a field map", code="bad-map", field="map", expected=_EXAMPLE, got=said)
            entries = [(name.strip(), path.strip()) for name, _, path in pairs]
            return cls(entries, settings, strict=strict, for_all=settings is not None)
        label = settings
        if isinstance(said, (str, PathLike)):
            from karat.files.yaml import load_yaml

            label = str(said)
            if not Path(label).is_file():
                raise ConfigError("neither a field map nor a file", code="bad-map", expected=_EXAMPLE, got=label)
            said, _ = load_yaml(Path(label).read_bytes(), label)
        if not isinstance(said, Mapping):
            raise ConfigError("not a field map", code="bad-map", file=label, expected=_EXAMPLE, got=said)
        return cls(said.items(), label, strict=strict, for_all=settings is not None)

    def _of_kind(self, kind: FileKind) -> list[tuple[str, tuple[str, str]]]:
        """(role, entry) for files of a kind: entries for this kind only come first, and lists before their contents."""
        known = {*RECORD[kind], *ENTRY[kind]}
        own = [entry for entry in self._entries if entry[0].startswith(f"{kind}.")]
        if kind == "queries":  # queries without gold are often written as those with gold
            own += [entry for entry in self._entries if entry[0].startswith("gold.")]
        every = [(entry[0].rpartition(".")[2], entry) for entry in own] + [(entry[0], entry) for entry in self._entries]
        return sorted((pair for pair in every if pair[0] in known), key=lambda pair: pair[0] not in LISTS[kind])

    def fitting(self, kind: FileKind, records: Sequence[Any], *, reads: bool = True) -> RecordMap | None:
        """The entries whose fields these records have; None where they have none of them. `reads`: whether the file is
        of this kind, and read."""
        found: dict[str, str] = {}
        for role, entry in self._of_kind(kind):
            path = spelled_as(entry[1], records)
            tried = RecordMap(kind, {**found, role: path})
            if any(tried.has(role, record) for record in records):
                found.setdefault(role, path)
                if reads:
                    self._used[kind].add(entry)
        return RecordMap(kind, found) if found else None

    def is_named(self, kind: FileKind, records: Sequence[Any]) -> bool:
        """Whether an entry for only this kind of file names the items of these records."""
        own = [path for name, path in self._entries if name in (f"{kind}.chunk_id", f"{kind}.doc_id")]
        return any(dig(record, spelled_as(path, records)) is not None for record in records for path in own)

    def named(self, kind: FileKind, roles: Iterable[str]) -> dict[str, str]:
        """The entries for some fields, for a file whose fields are known only once it is read."""
        found: dict[str, str] = {}
        for role, entry in self._of_kind(kind):
            if role in roles:
                found.setdefault(role, entry[1])
                self._used[kind].add(entry)
        return found

    def refuse_unused(self, files: Iterable[str] = ()) -> None:
        """Raise for an entry that fits no file: it is probably a typo. In a map for all commands, only if files of its
        kind have other fields of the map."""
        used = set().union(*self._used.values())
        for name, path in self._entries:
            if (name, path) not in used and not (self.for_all and self._is_for_other_files(name)):
                where = f" of {' and '.join(files)}" if files else ""
                raise ConfigError(
                    f"no record{where} has the field {path!r} for {name}",
                    code="unmapped-field",
                    file=self._label,
                    field="map",
                    hint="`karat check FILE` shows the fields of a file",
                )

    def _is_for_other_files(self, name: str) -> bool:
        """Whether an entry may be for a kind of file that was not read, or that is in Karat's own format."""
        own = [kind for kind in RECORD if any(entry[0] == name for _, entry in self._of_kind(kind))]
        read = [kind for kind in own if any(n.rpartition(".")[2] in _ESSENTIAL for n, _ in self._used[kind])]
        return len(read) < len(own)


class RecordMap:
    """How the records of one file are converted to Karat's records."""

    def __init__(self, kind: FileKind, roles: Mapping[str, str]) -> None:
        self.kind = kind
        self.roles: dict[str, str] = dict(roles)
        entry = ENTRY[kind]
        self._of_entry = {role: path for role, path in roles.items() if role in entry}
        self._of_record = {role: path for role, path in roles.items() if role in RECORD[kind]}

    def is_flat(self, records: Iterable[Mapping[str, Any]]) -> bool:
        """Whether renaming the columns is enough for a table that begins with these rows."""
        if any("." in path for path in self.roles.values()) or set(LISTS[self.kind]) & set(self.roles):
            return False
        cells = (record.get(path) for record in records for path in self._of_entry.values())
        return not any(isinstance(_decoded(cell), (list, dict)) for cell in cells)

    def has(self, role: str, record: Any) -> bool:
        path = self.roles[role]
        if dig(record, path) is not None:
            return True
        if role not in self._of_entry:
            return False
        return any(dig(entry, path) is not None for name in LISTS[self.kind] for entry in self._list(name, record)[:20])

    def _list(self, name: str, record: Any) -> list[Any]:
        found = _decoded(dig(record, self.roles.get(name, name)))
        return found if isinstance(found, list) else []

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """One record under Karat's names. Other fields stay, but not the objects of a run that the map reaches into:
        what is left of them is the rest of a request."""
        taken = {path for path in self.roles.values() if path in record}
        if self.kind == "run":
            taken |= {name for path in self.roles.values() for name in record if path.startswith(f"{name}.")}
        made = {name: value for name, value in record.items() if name not in taken and name not in self.roles}
        for role, path in self._of_record.items():
            if (value := _as_number(role, dig(record, path))) is not None:
                made[role] = value
        self._fill_lists(made, record)
        return made

    def own_name(self, field: str | None) -> str | None:
        """A field of Karat's records as the file names it.

        >>> RecordMap("run", {"topk": "hits", "score": "distance"}).own_name("topk[2].score")
        'hits[2].distance'
        """
        found = None if field is None else re.fullmatch(r"(\w+)(\[\d+\])?(?:\.(\w+))?", field)
        if found is None:
            return field
        outer, at, inner = found.groups()
        if inner is None:
            return self.roles.get(outer, outer) + (at or "")
        return f"{self.roles.get(outer, outer)}{at or ''}.{self._of_entry.get(inner, inner) if at else inner}"

    def record_at(self, record: Mapping[str, Any], label: str, line: int | None) -> dict[str, Any]:
        """The same, for a record at a known place."""
        return self.record(record)

    def _fill_lists(self, made: dict[str, Any], record: Mapping[str, Any]) -> None:
        own = LISTS[self.kind]
        for name in own:
            listed = _decoded(made.get(name))
            if isinstance(listed, list):
                made[name] = [self.entry(one) if isinstance(one, dict) else self._bare(one) for one in listed]
            elif isinstance(listed, (str, int)) and name == "gold":
                made[name] = [listed]
            elif listed is not None:
                made[name] = listed
        if own and own[0] not in made:
            columns = {role: _decoded(dig(record, path)) for role, path in self._of_entry.items()}
            lists = {role: value for role, value in columns.items() if isinstance(value, list)}
            if {"chunk_id", "doc_id", "id"} & lists.keys():  # parallel lists of ids and scores
                for role in lists:
                    made.pop(role, None)
                made[own[0]] = [dict(zip(lists, row, strict=False)) for row in zip(*lists.values(), strict=False)]
                return
        if own and own[0] not in made:
            for role, path in self._of_entry.items():
                if (value := dig(record, path)) is not None:
                    made[role] = value

    def _bare(self, entry: Any) -> Any:
        """An id; for hits that are bare passages also the text."""
        return {"chunk_id": entry, "text": entry} if self.kind == "run" and is_text(entry) else entry

    def entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """One hit, or one gold item."""
        made = {name: value for name, value in entry.items() if name in ENTRY[self.kind] and name not in self._of_entry}
        for role, path in self._of_entry.items():
            if (value := _as_number(role, dig(entry, path))) is not None:
                made[role] = value
        return made


_NUMBERS = {"latency_ms", "score", "rank", "grade", "k", "k_raw", "start", "end", "tokens"}


def _as_number(role: str, value: Any) -> Any:
    """Converts cells of a text table, which are strings."""
    if role not in _NUMBERS or not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


def dig(record: Any, path: str) -> Any:
    """The value at a path, None where there is none. A field whose own name has dots comes first.

    >>> dig({"a": {"b.c": [1, 2]}}, "a.b.c.1"), dig({"a.b": 3}, "a.b"), dig({"a": 1}, "a.b")
    (2, 3, None)
    """
    if isinstance(record, Mapping):
        if path in record:
            return record[path]
        ends = [at for at, sign in enumerate(path) if sign == "."]
        for at in reversed(ends):
            if path[:at] in record and (found := dig(record[path[:at]], path[at + 1 :])) is not None:
                return found
    if isinstance(record, (list, tuple)):
        first, _, rest = path.partition(".")
        if first.isdecimal() and int(first) < len(record):
            return dig(record[int(first)], rest) if rest else record[int(first)]
    return None


def spelled_as(path: str, records: Iterable[Any]) -> str:
    """A path as records spell it: white space around the name of a field does not matter.

    >>> spelled_as("Question", [{"id": 1, " Question ": 2}]), spelled_as(" id", [{"id": 1}])
    (' Question ', 'id')
    """
    own = [record for record in records if isinstance(record, Mapping)]
    if any(path in record for record in own):
        return path
    wanted = path.strip()
    names = (name for record in own for name in record if isinstance(name, str) and name.strip() == wanted)
    return next(names, wanted)


def _decoded(value: Any) -> Any:
    """A list in a table cell, which is often written as JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return msgspec.json.decode(value)
        except DECODE_ERRORS:
            return value
    return value


def is_text(value: Any) -> bool:
    """Whether this is a passage rather than an id: five words or more."""
    return isinstance(value, str) and len(value.split(maxsplit=5)) >= 5
