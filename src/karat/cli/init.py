"""`karat init`: write gates and a CI workflow into a repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import named_options, options_of
from karat.cli.say import say, say_text
from karat.scoring.options import Options

if TYPE_CHECKING:
    from karat.data.gold import Gold
    from karat.gates.repository import RepositoryFiles, Workflow
    from karat.gates.starter import GoldFacts
    from karat.results.result import Result
    from karat.settings import Config

_SETTINGS = "karat.yaml"


@click.command(
    "init", cls=KaratCommand, short_help="Write gates that fit the gold set, and a CI workflow, into a repository."
)
@click.argument("folder", default=".")
@click.option("--gold", "-g", metavar="FILE", help="Gold set.  [default: gold.* or qrels.*, also in data/ and eval/]")
@click.option("--run", metavar="FILE", help="Run whose scores set the floors.  [default: run.jsonl]")
@click.option("--retriever", metavar="RETRIEVER", help="Retriever for `karat run`, such as my_app:search.")
@click.option(
    "--install",
    metavar="PACKAGE",
    help="Karat for the workflow, pinned: git+https://HOST/OWNER/karat@COMMIT.  [default: as installed here]",
)
@click.option("--branch", help="Branch that changes are merged into.  [default: from git, else main]")
@click.option("--gitlab", is_flag=True, help="Write a GitLab pipeline instead of a GitHub workflow.")
@click.option("--dry-run", is_flag=True, help="Show what would be written without writing it.")
@options_of(Options, "scores", "normalize_ids", "columns")
def command(
    folder: str,
    gold: str | None,
    run: str | None,
    retriever: str | None,
    install: str | None,
    branch: str | None,
    gitlab: bool,
    dry_run: bool,
    columns: str | None,
    **options: Any,
) -> None:
    """Write gates that fit the gold set, their schema and a CI workflow into FOLDER. Existing files are kept.

    Without a gold set, a template is written. With a run, floors are set slightly below its scores. --map, --scores and
    --normalize-ids are written to karat.yaml, so that every command uses them. Finally, the files are checked as by
    `karat check`.

    \b
    karat init
    karat init --retriever my_app:search --install git+https://git.example.org/search/karat@v0.1.0
    karat init --gold data/questions.csv --run run.jsonl
    karat init --run run.jsonl --scores lower-is-better
    karat init --gitlab --dry-run
    """
    from karat.errors import ConfigError
    from karat.gates.repository import look_around
    from karat.gates.starter import gold_facts
    from karat.settings import load_config

    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise ConfigError(
            "not a folder",
            code="not-a-folder",
            file=folder,
            hint="name the folder of your repository, or leave it out to use this one",
        )
    found = _named(look_around(root), root, gold, run)
    read = _read_gold(root, found, columns)
    facts = gold_facts(read, load_config(root).metrics.retrieval.default_k)
    given = named_options({"columns": columns, **options})
    measured = _measured(root, found, facts, given)
    if found.gold is not None:
        say(f"found {found.gold}: {facts.described()}", err=True)
    workflow = _workflow(root, found, facts, retriever, install, branch, gitlab)
    for warning in _warnings(root, found, facts, measured):
        say(f"warning: {warning}", err=True)
    done = {}
    for name, text in _files(found, facts, measured, workflow, given):
        done[name] = _put(root / name, text, dry_run)
        say(f"{done[name]} {name}")
    if done[workflow.name] != "kept":
        for line in _to_fill_in(found, facts, workflow, retriever, columns):
            say(f"fill in: {line}", err=True)
    for line in _settings_lines(given, load_config(root)) if done.get(_SETTINGS) == "kept" else ():
        say(f"fill in: {_SETTINGS}: {line}", err=True)
    failed = _check(root, found, given)
    for line in _next_commands(root, found, facts, workflow, columns):
        say_text(line, err=True)
    if failed:
        raise SystemExit(2)


def _named(found: RepositoryFiles, root: Path, gold: str | None, run: str | None) -> RepositoryFiles:
    """Replace found files with those given on the command line."""
    import msgspec

    from karat.gates.repository import from_top

    named = {"gold": gold, "run": run}
    changes: dict[str, Any] = {name: from_top(path, root) for name, path in named.items() if path is not None}
    return msgspec.structs.replace(found, **changes, **({"other_golds": []} if gold else {}))


def _read_gold(root: Path, found: RepositoryFiles, columns: str | None) -> Gold:
    """Read the existing gold set, else the template's."""
    from tempfile import TemporaryDirectory

    from karat.cli.scoring import mapped_fields
    from karat.formats.read import read_gold
    from karat.gates.repository import NEW_GOLD, template

    if found.gold is not None:
        return read_gold(str(root / found.gold), columns=mapped_fields(columns))
    with TemporaryDirectory() as folder:
        file = Path(folder) / NEW_GOLD
        file.write_text(template(NEW_GOLD), encoding="utf-8")
        return read_gold(str(file))


def _measured(root: Path, found: RepositoryFiles, facts: GoldFacts, given: dict[str, Any]) -> Result | None:
    """Score the run in every metric that gates may use; None without a run of one system."""
    from karat.cli.scoring import score_files
    from karat.gates.starter import starter_metrics

    if found.run is None or found.gold is None:
        return None
    results = score_files(str(root / found.run), str(root / found.gold), starter_metrics(facts), given)
    return results[0] if len(results) == 1 else None


def _workflow(
    root: Path,
    found: RepositoryFiles,
    facts: GoldFacts,
    retriever: str | None,
    install: str | None,
    branch: str | None,
    gitlab: bool,
) -> Workflow:
    from karat.files.git import default_branch
    from karat.files.installed import checked, installed_from
    from karat.gates.repository import NEW_GOLD, PLACEHOLDER, Workflow
    from karat.retrievers.specs import is_self_contained
    from karat.settings import load_config

    known = load_config(root).retrievers or {}
    chosen = retriever or next(iter(known), None) or PLACEHOLDER
    place = next(folder for folder in (root.resolve(), *root.resolve().parents) if folder.is_dir())
    return Workflow(
        host="gitlab" if gitlab else "github",
        install=(installed_from() or "") if install is None else checked(install),
        retriever=chosen,
        trust_config=chosen in known and not is_self_contained(known[chosen]),
        branch=branch or default_branch(place) or "main",
        gold=found.gold or NEW_GOLD,
        queries=None if facts.texts else found.queries,
        corpus=found.corpus,
        criteria=found.criteria,
        gold_is_folder=found.gold is not None and (root / found.gold).is_dir(),
    )


def _warnings(root: Path, found: RepositoryFiles, facts: GoldFacts, measured: Result | None) -> Iterator[str]:
    where = root.resolve()
    if not (where / ".git").exists() and any((folder / ".git").exists() for folder in where.parents):
        yield "this is not the root of the repository, where CI looks for its files"
    if found.other_golds:
        yield f"using {found.gold} as the gold set; choose another with --gold: {', '.join(found.other_golds)}"
    if found.run is not None and found.gold is not None and measured is None:
        yield f"{found.run} has several systems, so it sets no floors; choose another run with --run"
    elif measured is not None and measured.doubts:
        yield f"{found.run} sets no floors, because its scores are in doubt: see below"


def _files(
    found: RepositoryFiles, facts: GoldFacts, measured: Result | None, workflow: Workflow, given: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield (path in the repository, text) of each file."""
    from karat.gates.repository import NEW_GOLD, template
    from karat.gates.starter import criteria_text, starter_gates
    from karat.schemas import schema_text

    usable = None if measured is None or measured.doubts else measured
    gates = starter_gates(facts, usable)
    gold = found.gold or NEW_GOLD
    yield found.criteria, criteria_text(gates, facts, gold, None if usable is None else found.run)
    yield (Path(found.criteria).parent / "ship-criteria.schema.json").as_posix(), schema_text("ship-criteria")
    yield gold, template(NEW_GOLD)
    yield workflow.name, workflow.text()
    if given:
        lines = ["# How your files are read; every command in this folder uses this.", *_settings_lines(given)]
        yield _SETTINGS, "\n".join(lines) + "\n"


def _settings_lines(given: dict[str, Any], known: Config | None = None) -> Iterator[str]:
    """The given options as lines of karat.yaml, without those that the file has already."""
    from karat.gates.repository import quoted

    written = {name: "true" if value is True else value for name, value in given.items() if value is not False}
    for name, value in written.items():
        field = "map" if name == "columns" else name
        if known is None or getattr(known, field) in (None, False):
            yield f"{field}: {quoted(value) if field == 'map' else value}"


def _put(file: Path, text: str, dry_run: bool) -> str:
    """Write the file unless it exists; return what was done."""
    from karat.files.atomic_write import write_whole

    if file.exists() or file.is_symlink():
        return "kept"
    if dry_run:
        return "would write"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text.encode())
    return "wrote"


def _to_fill_in(
    found: RepositoryFiles, facts: GoldFacts, workflow: Workflow, retriever: str | None, columns: str | None
) -> Iterator[str]:
    """Yield what the user must fill in, and where."""
    from karat.files.installed import EXAMPLE
    from karat.gates.repository import NEW_GOLD, PLACEHOLDER, needs_corpus

    prefix = "KARAT_" if workflow.host == "gitlab" else ""
    package = "KARAT_PACKAGE" if prefix else "KARAT"
    if not workflow.install:
        yield f"{package} in {workflow.name}: package for pip, pinned to a commit, such as {EXAMPLE}"
    if workflow.retriever == PLACEHOLDER and retriever is None:
        yield f"{prefix}RETRIEVER in {workflow.name}: your function (query → hits) instead of {PLACEHOLDER}"
    if needs_corpus(workflow.retriever) and workflow.corpus is None:
        yield f"{prefix}CORPUS in {workflow.name}: the corpus that {workflow.retriever} searches"
    if facts.text_field is not None and workflow.queries is None:
        fields = f"query={facts.text_field}"
        way = join(["karat", "init", "--map", fields]) if columns is None else f"add {fields} to the map in karat.yaml"
        yield f"the text of the queries: if it is {facts.text_field!r} in {workflow.gold}, {way}"
    elif not facts.texts and workflow.queries is None:
        yield f"{prefix}QUERIES in {workflow.name}: a file with query texts, because {workflow.gold} has none"
    if found.gold is None:
        yield f"{NEW_GOLD}: your own questions instead of the two examples"
    if workflow.host == "gitlab":
        yield f".gitlab-ci.yml: `include: [{{local: {workflow.name}}}]`"


def _check(root: Path, found: RepositoryFiles, given: dict[str, Any]) -> bool:
    """Check the existing files; return whether one cannot be used."""
    from karat.cli.scoring import evaluation_options, print_reports
    from karat.gates.repository import NEW_GOLD
    from karat.report.catalogue import checked_report
    from karat.results.check import check_files
    from karat.scoring.judged import Rules

    gold = root / (found.gold or NEW_GOLD)
    files = [str(file) for file in (gold, found.run and root / found.run) if file and file.exists()]
    if not files:
        return False
    say("")
    asked = evaluation_options(given)
    rules = Rules(scores=asked["scores"], normalize_ids=asked["normalize_ids"])
    checked = check_files(files, None, asked["columns"], str(gold) if gold.exists() else None, rules)
    print_reports([checked_report(checked)])
    return any(file.error for file in checked)


def _next_commands(
    root: Path, found: RepositoryFiles, facts: GoldFacts, workflow: Workflow, columns: str | None
) -> Iterator[str]:
    from karat.gates.repository import needs_corpus

    run = "run.jsonl" if found.run != "run.jsonl" else "new_run.jsonl"  # never over the user's own log
    texts = workflow.gold if facts.texts or facts.text_field else "QUERIES"
    asked = ["karat", "run", workflow.retriever, "--queries", workflow.queries or texts]
    if facts.text_field is not None and workflow.queries is None:
        asked += ["--map", ",".join(filter(None, [columns, f"query={facts.text_field}"]))]
    asked += ["--corpus", workflow.corpus or "CORPUS"] if needs_corpus(workflow.retriever) else []
    yield ""
    yield "next:" if root.resolve() == Path.cwd() else f"next, in {root}:"
    yield f"  1. {join([*asked, '-o', run])}"
    yield f"  2. {join(['karat', 'eval', run, '--gold', workflow.gold, '-o', 'report.html'])}"
    yield f"  3. {join(['karat', 'gate', run, '--gold', workflow.gold])}"
