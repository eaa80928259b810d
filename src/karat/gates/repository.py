"""A repository as `karat init` finds it, and the workflow that fits it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from karat.errors import ConfigError
from karat.files.installed import with_extras
from karat.gates.criteria import DEFAULT_FILES

_ENDINGS = (".yaml", ".yml", ".jsonl", ".json", ".csv", ".tsv", ".parquet", ".jsonl.gz", ".jsonl.zst")
_GOLD = tuple(f"gold{ending}" for ending in _ENDINGS) + tuple(f"qrels{e}" for e in (".txt", ".tsv", ".trec", ".csv"))
_QUERIES = tuple(f"queries{ending}" for ending in _ENDINGS)
_CORPUS = tuple(f"corpus{ending}" for ending in _ENDINGS)
_PLACES = (".", "data", "eval", "evals", "evaluation")
_CODE = ("**/*.py", "requirements*.txt", "pyproject.toml", "*.lock", "karat.yaml")
PLACEHOLDER = "my_app:search"
NEW_GOLD = "gold.yaml"
WORKFLOWS = {"github": ".github/workflows/karat.yml", "gitlab": ".gitlab-ci.karat.yml"}
_EXTRAS = {
    "bm25": ["baselines"],
    "dense": ["dense"],
    "hybrid": ["baselines", "dense"],
    "rerank": ["baselines", "dense"],
    **{name: ["http"] for name in ("http", "elasticsearch", "opensearch", "qdrant")},
}


class RepositoryFiles(msgspec.Struct, frozen=True):
    """Files of a repository, relative to its root. None: not found."""

    gold: str | None
    other_golds: list[str]
    queries: str | None
    corpus: str | None
    run: str | None
    criteria: str


def look_around(root: Path) -> RepositoryFiles:
    golds = list(_there(root, _GOLD)) or list(_beir_folders(root))
    criteria = next((name for name in DEFAULT_FILES if (root / name).exists()), DEFAULT_FILES[0])
    return RepositoryFiles(
        gold=next(iter(golds), None),
        other_golds=golds[1:],
        queries=next(_there(root, _QUERIES), None),
        corpus=next(_there(root, _CORPUS), None),
        run=next(_there(root, ("run.jsonl",)), None),
        criteria=criteria,
    )


def _there(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Files with one of these names, those in the root first."""
    known = list(names)
    for place in _PLACES:
        for name in known:
            if (root / place / name).is_file():
                yield (Path(place) / name).as_posix()


def _beir_folders(root: Path) -> Iterator[str]:
    for place in _PLACES:
        if (root / place / "qrels").is_dir() and (root / place / "queries.jsonl").is_file():
            yield place


def from_top(path: str, root: Path) -> str:
    """Return a path from the command line relative to the repository root, as a workflow needs it."""
    if not Path(path).exists():
        raise ConfigError("no such file", code="no-file", file=path)
    try:
        return Path(path).resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        what, hint = "this file is outside the repository, so a workflow would not find it", "copy it there first"
        raise ConfigError(what, code="outside-repository", file=path, hint=hint) from None


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a workflow file. The defaults fit an empty repository."""

    host: str = "github"
    install: str = ""  # pinned; empty: to be filled in
    retriever: str = PLACEHOLDER
    branch: str = "main"
    gold: str = NEW_GOLD
    queries: str | None = None  # default: the gold set
    corpus: str | None = None
    criteria: str = DEFAULT_FILES[0]
    gold_is_folder: bool = False
    trust_config: bool = False  # the retriever is defined in karat.yaml and runs code or calls a server

    @property
    def name(self) -> str:
        return WORKFLOWS[self.host]

    def text(self) -> str:
        text = template(f"{self.host}.yml")
        corpus = self.corpus if needs_corpus(self.retriever) else None
        values = {
            "install": quoted(with_extras(self.install, extras_of(self.retriever)) if self.install else ""),
            "retriever": quoted(self.retriever),
            "run": "karat --trust-config run" if self.trust_config else "karat run",
            "queries": quoted(self.queries or self.gold),
            "corpus": quoted(corpus or ""),
            "gold": quoted(self.gold),
            "criteria": quoted(self.criteria),
            "branch": quoted(_pattern(self.branch)),
            "branch_name": " ".join(self.branch.split()),
            "paths": "\n".join(f"{'      ' if self.host == 'github' else '    '}- {p}" for p in self._paths(corpus)),
        }
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return text

    def _paths(self, corpus: str | None) -> list[str]:
        gold = f"{self.gold}/**" if self.gold_is_folder else self.gold
        files = dict.fromkeys(filter(None, [gold, self.queries, corpus, self.criteria, self.name]))
        patterns = [path if path.endswith("/**") else _pattern(path) for path in files]
        return [quoted(pattern.removeprefix("./")) for pattern in (*_CODE, *patterns)]


def needs_corpus(spec: str) -> bool:
    """Whether a retriever needs a corpus to search."""
    kind = _kind(spec)
    return kind is not None and bool(kind.searches_corpus)


def extras_of(spec: str) -> list[str]:
    kind = _kind(spec)
    return [] if kind is None else _EXTRAS.get(kind.name, [])


def _kind(spec: str) -> Any:
    """The built-in retriever that `spec` names, if any."""
    from karat.retrievers.base import REGISTRY
    from karat.retrievers.specs import YAML, parse

    try:
        return None if spec.endswith(YAML) else REGISTRY.get(parse(spec)[0])
    except ConfigError:
        return None


def template(name: str) -> str:
    return (resources.files("karat") / "templates" / name).read_text(encoding="utf-8")


def _pattern(path: str) -> str:
    """A glob pattern that matches exactly this path."""
    return "".join(f"\\{c}" if c in "*?+[]!\\" else c for c in path)


def quoted(text: str) -> str:
    """Text as a quoted YAML string."""
    return msgspec.json.encode(text).decode()
