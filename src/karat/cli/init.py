"""`karat init`: the files with which a repository starts to gate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

_GOLD = ("gold.yaml", "gold.yml", "gold.jsonl", "gold.json")


@click.command("init", short_help="Write criteria, a gold template and a CI workflow into a repository.")
@click.argument("folder", default=".")
@click.option("--gitlab", is_flag=True, help="A GitLab pipeline instead of a GitHub workflow.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
def command(folder: str, gitlab: bool, dry_run: bool) -> None:
    """Write ship-criteria.yaml with its schema, gold.yaml and a CI workflow into FOLDER. What exists is kept.

    \b
    karat init
    karat init --gitlab --dry-run
    """
    from karat.errors import ConfigError

    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise ConfigError(
            "no folder",
            code="not-a-folder",
            file=folder,
            hint="name the folder of your repository, or none for this one",
        )
    for name, text in _files(root, gitlab):
        click.echo(f"{_put(root / name, text, dry_run)} {name}")
    for line in _next_steps(root, gitlab):
        click.echo(line, err=True)


def _files(root: Path, gitlab: bool) -> Iterator[tuple[str, str]]:
    """(path in the repository, text). The workflow names the criteria and the gold set that are there already."""
    from karat import __version__
    from karat.gates.criteria import DEFAULT_FILES
    from karat.schemas import schema_text

    criteria = _present(root, DEFAULT_FILES)
    gold = _present(root, _GOLD)
    yield criteria, _template("ship-criteria.yaml")
    yield str(Path(criteria).parent / "ship-criteria.schema.json"), schema_text("ship-criteria")
    yield gold, _template("gold.yaml")
    workflow = _template("gitlab.yml" if gitlab else "github.yml")
    for mark, value in {"@version@": __version__, "@gold@": gold, "@criteria@": criteria}.items():
        workflow = workflow.replace(mark, value)
    yield (".gitlab-ci.karat.yml" if gitlab else ".github/workflows/karat.yml"), workflow


def _present(root: Path, names: tuple[str, ...]) -> str:
    """The one that exists, else the first."""
    return next((name for name in names if (root / name).exists()), names[0])


def _template(name: str) -> str:
    from importlib import resources

    return (resources.files("karat") / "templates" / name).read_text(encoding="utf-8")


def _put(file: Path, text: str, dry_run: bool) -> str:
    """Write it unless something stands there; what was done, in one word."""
    from karat.files.atomic_write import write_whole

    if file.exists() or file.is_symlink():
        return "kept"
    if dry_run:
        return "would write"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text.encode())
    return "wrote"


def _next_steps(root: Path, gitlab: bool) -> Iterator[str]:
    where = root.resolve()
    if not (where / ".git").exists() and any((folder / ".git").exists() for folder in where.parents):
        yield "warning: this is not the top of the repository, and CI reads its files only there"
    yield "next:"
    place = "JOB" if gitlab else "STEP"
    yield f"  1. put your own questions into the gold set, and your own command into the place marked YOUR {place}"
    yield f"  2. karat eval run.jsonl --gold {_present(root, _GOLD)}: see where you stand, then set the floors"
    if gitlab:
        yield "  3. include .gitlab-ci.karat.yml in .gitlab-ci.yml"
