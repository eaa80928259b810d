"""Guesses a field map from the names and values of a file's fields, for the user to paste."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.field_map import ENTRY, LISTS, FileKind, is_text

# Usual names of fields, the likeliest first.
_USUAL: dict[str, tuple[str, ...]] = {
    "query_id": (
        "query_id",
        "qid",
        "queryid",
        "question_id",
        "request_id",
        "sample_id",
        "topic_id",
        "topic",
        "id",
        "request",
    ),
    "query": ("query", "question", "input", "user_input", "prompt", "search", "q", "text"),
    "topk": (
        *("topk", "results", "hits", "retrieved", "retrieved_contexts", "matches", "documents", "docs", "chunks"),
        *("passages", "contexts", "retrieved_docs", "retrieved_ids", "source_nodes"),
    ),
    "evidence": ("evidence", "reference_contexts", "gold_contexts", "ground_truth_contexts", "quotes"),
    "answer": ("reference", "ground_truth", "reference_answer", "expected_answer", "gold_answer"),
    "gold": (
        "gold",
        "relevant",
        "relevant_ids",
        "gold_ids",
        "expected",
        "positives",
        "answers",
        "ground_truth",
        "labels",
    ),
    "chunk_id": (
        "chunk_id",
        "_id",
        "id",
        "chunk",
        "passage_id",
        "passage",
        "docno",
        "docid",
        "doc",
        "document",
        "uid",
        "key",
        "doc_id",
        "document_id",
    ),
    "doc_id": ("doc_id", "document_id"),
    "score": ("score", "_score", "similarity", "sim", "distance", "relevance_score", "rerank_score"),
    "rank": ("rank", "position", "place"),
    "text": ("text", "content", "body", "page_content", "passage_text", "snippet"),
    "title": ("title", "heading", "name", "subject"),
    "grade": ("grade", "relevance", "rel", "label", "gain"),
    "latency_ms": ("latency_ms", "took_ms", "latency", "took", "elapsed_ms", "duration_ms", "time_ms"),
}
# Words in longer names that have the same meaning, the likeliest first.
_WORDS: dict[str, tuple[str, ...]] = {
    "query": ("query", "question", "prompt", "search", "utterance"),
    "query_id": ("query", "question", "qid", "request", "topic", "search", "prompt", "case", "sample", "q"),
    "chunk_id": (
        *("chunk", "passage", "document", "doc", "docid", "pid", "node", "result", "hit", "context", "article"),
        *("item", "page", "file", "url", "source", "retrieved", "d"),
    ),
    "score": ("score", "similarity", "sim", "cosine", "confidence", "distance", "dist", "relevance", "s"),
    "rank": ("rank", "position", "pos", "order"),
    "grade": ("grade", "relevance", "relevant", "rel", "label", "judgement"),
}
_ID = 100  # maximum length of an id
_NEEDED: dict[FileKind, tuple[str, ...]] = {
    "run": ("query_id", "topk", "chunk_id", "score", "rank", "text", "latency_ms"),
    "gold": ("query_id", "query", "gold", "chunk_id", "grade", "evidence", "answer"),
    "corpus": ("chunk_id", "title", "text"),
    "queries": ("query_id", "query"),
}


def _opened(value: Any) -> Any:
    """A list in the cell of a table, which is written as JSON."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        found = msgspec.json.decode(value)
    except DECODE_ERRORS:
        return value
    return found if isinstance(found, list) else value


def suggested_map(kind: FileKind, record: Any, more: Sequence[Any] = ()) -> str | None:
    """A map to paste, `query_id=id,topk=results`, guessed from the names and types of a record's fields. `more`: other
    records of the file, from which an id must differ."""
    if not isinstance(record, Mapping):
        return None
    found: dict[str, str] = {}
    fields = {name: _opened(value) for name, value in flattened(record)}
    listed = _first_list(kind, fields)
    inner: dict[str, Any] = {}
    if listed is not None:
        found[LISTS[kind][0]] = listed
        entry = next((one for one in fields[listed] if isinstance(one, Mapping)), None)
        inner = {} if entry is None else dict(flattened(entry))
    for role in _NEEDED[kind]:
        if role in LISTS[kind]:
            continue
        among = inner if role in ENTRY[kind] and listed is not None else fields
        taken = {*found.values()} if among is fields else set()
        name = _named(role, among, taken) or (_worded(role, among, taken) if kind in ("run", "gold") else None)
        if role == "chunk_id" and name in ("id", "_id") and among is fields and kind in ("run", "gold"):
            name = _clearer(fields, taken) or name
        if name is not None and (among is inner or name != listed):
            found[role] = name
    if _is_scored(inner) and not {"chunk_id", "doc_id"} & {*found, *inner}:
        entries = [dict(flattened(one)) for one in fields[listed or ""] if isinstance(one, Mapping)]
        found |= _id_field("chunk_id", entries, {*found.values()})
    if kind == "queries" and "query" not in found:
        texts = [name for name, value in fields.items() if is_text(value) and "," not in name]
        found |= {"query": texts[0]} if len(texts) == 1 else {}
    if "query_id" not in found and (kind == "queries" or listed is not None):
        others = (dict(flattened(one)) for one in more if isinstance(one, Mapping))
        found |= _id_field("query_id", [fields, *others], {*found.values()})
    if kind in ("run", "gold") and "query_id" not in found:
        text = found.pop("query", None) or _named("query", fields, {*found.values()})
        found |= {} if text is None else {"query_id": text}
    if kind in ("run", "gold") and listed is None and not {"evidence", "answer"} & found.keys():
        _guess_places(kind, fields, found)
    asked = fields.get(found["query_id"]) if "query_id" in found else None
    if kind == "gold" and "query" not in found and isinstance(asked, str) and " " in asked.strip():
        found["query"] = found["query_id"]  # the question is its own id
    needed = {"run": {"query_id"}, "gold": {"query_id"}, "corpus": {"chunk_id"}, "queries": {"query"}}[kind]
    plain_list = listed is not None and not inner
    if not needed <= found.keys() or (kind == "run" and "chunk_id" not in found and not plain_list):
        return None
    if kind == "gold" and not {"gold", "chunk_id", "evidence", "answer"} & found.keys():
        return None
    if kind == "corpus" and found["chunk_id"] in ("id", "_id", "doc_id"):
        del found["chunk_id"]  # known under that name
    order = [role for role in _NEEDED[kind] if role in found and found[role] != role]
    return ",".join(f"{role}={found[role].strip()}" for role in order) or None


def may_be_gold(record: Mapping[str, Any]) -> bool:
    """Whether a field may say what should be found, by its name.

    >>> may_be_gold({"expected": ["d7"]}), may_be_gold({"right_document": "d7"}), may_be_gold({"topic": "tax"})
    (True, True, False)
    """
    roles = ("gold", "chunk_id", "doc_id", "evidence", "answer", "grade")
    return any(_named(role, record, set()) or _worded(role, record, set()) for role in roles)


def text_field(record: Mapping[str, Any]) -> str | None:
    """The field that is probably the text of a query.

    >>> text_field({"language": "en", "question_text": "How do I clean the pump?", "question_type": "how to"})
    'question_text'
    """
    texts = {name: value for name, value in record.items() if isinstance(value, str) and " " in value.strip()}
    return _named("query", texts, set()) or _worded("query", texts, set())


def map_of_both(run: str, gold: str) -> str:
    """One map for a run and a gold set. Where both name a field of Karat, each says which file it is for.

    >>> map_of_both("query_id=id,topk=hits", "query_id=qid,gold=docs")
    'run.query_id=id,topk=hits,gold.query_id=qid,gold=docs'
    """
    sides = {"run": run.split(","), "gold": gold.split(",")}
    roles = [{pair.partition("=")[0] for pair in pairs} for pairs in sides.values()]
    both = roles[0] & roles[1]
    named = [(kind, pair) for kind, pairs in sides.items() for pair in pairs]
    return ",".join(f"{kind}.{pair}" if pair.partition("=")[0] in both else pair for kind, pair in named)


def flattened(record: Mapping[str, Any], before: str = "", deep: int = 3) -> Iterable[tuple[str, Any]]:
    """Every field with its path; those of the record itself first."""
    yield from ((before + str(name), value) for name, value in record.items() if not isinstance(value, Mapping))
    for name, value in record.items():
        if isinstance(value, Mapping) and deep:
            yield from flattened(value, f"{before}{name}.", deep - 1)


def _first_list(kind: FileKind, fields: Mapping[str, Any]) -> str | None:
    """The field that most looks like the list of hits, or of gold items."""
    if not LISTS[kind]:
        return None
    lists = [name for name, value in fields.items() if isinstance(value, list) and value]
    if kind == "gold":  # what was retrieved is not gold, and texts are evidence
        returned = set(map(_spelling, _USUAL["topk"]))
        lists = [name for name in lists if _spelling(name.rpartition(".")[2]) not in returned]
        lists = [name for name in lists if not is_text(fields[name][0]) and not _is_scored(fields[name][0])]
    usual = _named(LISTS[kind][0], {name: fields[name] for name in lists}, set())
    objects = [name for name in lists if isinstance(fields[name][0], Mapping)]
    if kind == "run" and usual is None and objects:
        return objects[0]
    return usual if usual is not None or kind == "run" else next(iter(lists), None)


def _is_scored(entry: Any) -> bool:
    """Whether an entry of a list has a score or a distance, so that it is a hit."""
    fields = dict(flattened(entry)) if isinstance(entry, Mapping) else {}
    return (_named("score", fields, set()) or _worded("score", fields, set())) is not None


def _id_field(role: str, records: Sequence[Mapping[str, Any]], taken: set[str]) -> dict[str, str]:
    """The field that most looks like an id: short, and different in nearly all records."""
    found: list[tuple[int, str]] = []
    for name in records[0]:
        values = [one.get(name) for one in records]
        kinds = [_kind_of_id(value) for value in values]
        alone = len(values) == 1 and (kinds[0] != 1 or not re.search(r"\d", str(values[0])))
        if name not in taken and "," not in name and min(kinds) > 0 and not alone:
            repeated = len(values) - len(set(values))
            found += [(max(kinds), name)] if repeated <= 0.1 * len(values) else []
    return {role: min(found, key=lambda one: one[0])[1]} if found else {}


def _kind_of_id(value: Any) -> int:
    """1 for a word, 2 for a few words, 3 for a whole number, 0 if it is no id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return 3
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _ID or is_text(value) or _TIME.match(value.strip()):
        return 0
    return 2 if " " in value.strip() else 1


_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d{9,}(?:\.\d+)?$")


def _named(role: str, fields: Mapping[str, Any], taken: set[str]) -> str | None:
    """The field whose name, or the end of whose path, is usual for a role."""
    for usual in map(_spelling, _USUAL[role]):
        for name, value in fields.items():
            if name not in taken and _spelling(name.rpartition(".")[2]) == usual and _fits(role, value):
                return name if "," not in name else None
    return None


def _worded(role: str, fields: Mapping[str, Any], taken: set[str]) -> str | None:
    """The field with a word in its name that is usual for a role: `retrieved_doc`, `rerankScore`."""
    for usual in _WORDS.get(role, ()):
        for name, value in fields.items():
            words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.rpartition(".")[2]).lower())
            fits = usual in words and _fits(role, value)
            fits = fits and (_is_question(words, value) if role == "query" else not _is_long(value))
            if name not in taken and fits:
                return name if "," not in name else None
    return None


def _clearer(fields: Mapping[str, Any], taken: set[str]) -> str | None:
    """A field of ids with a clearer name than `id`, which may number the rows."""
    name = _worded("chunk_id", fields, taken)
    return None if name is None or " " in str(fields[name]).strip() else name


def _guess_places(kind: FileKind, fields: Mapping[str, Any], found: dict[str, str]) -> None:
    """Guesses the fields of a row whose names are unknown: the query, the item, and the ranking."""
    flat = all(isinstance(value, (str, int, float, type(None))) and not _is_long(value) for value in fields.values())
    left = [name for name in fields if name not in found.values() and "," not in name]
    numbers = [name for name in left if _fits("score", fields[name])]
    texts = [name for name in left if name not in numbers and fields[name] is not None]
    ordered = {"score", "rank", "grade"} & found.keys()
    lacks = [role for role in ("query_id", "chunk_id") if role not in found]
    if not flat or len(texts) < len(lacks) or not (numbers or ordered or len(fields) == 2):
        return
    guessed = dict(zip(lacks, texts, strict=False))
    if "chunk_id" in guessed and is_text(fields[guessed["chunk_id"]]):
        return  # a question, or another text
    found |= guessed
    if numbers and not ordered:
        whole = str(fields[numbers[0]]).strip() in ("0", "1")
        found["grade" if kind == "gold" else "rank" if whole else "score"] = numbers[0]


def _is_question(words: list[str], value: Any) -> bool:
    """Whether a field has the text of a query, not a name or a property of it."""
    return isinstance(value, str) and " " in value.strip() and not {"id", "type", "date", "lang"} & {*words}


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and len(value) > _ID


def _spelling(name: str) -> str:
    """`query_id`, `Query ID`, `query-id` and `queryId` are the same name."""
    return re.sub(r"[\s_-]+", "", name.lower())


_NUMBER = re.compile(r"\s*[-+]?\d*[.,]?\d+(?:e[-+]?\d+)?\s*", re.I)


def _fits(role: str, value: Any) -> bool:
    if role in ("topk", "gold"):
        return isinstance(value, list) or (role == "gold" and not is_text(value))
    if role == "evidence":
        return is_text(value[0] if isinstance(value, list) and value else value)
    if role in ("score", "rank", "grade", "latency_ms"):
        return isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)
    return isinstance(value, (str, int)) and not isinstance(value, bool)
