"""Reads commit, branch, author and remote of the current git repository."""

from __future__ import annotations

import os
from pathlib import Path

_AUTHORS = ("KARAT_AUTHOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")
_BRANCHES = ("KARAT_BRANCH", "GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")


def code_version() -> str | None:
    """Return the current commit, with `+changes` if files differ from it; None outside git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return None
    return commit + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


def code_date() -> str | None:
    """Return the date of the commit, which, unlike a file's date, survives copying."""
    return _git("log", "-1", "--format=%cs") or None


def code_branch() -> str | None:
    """Return the current branch; CI servers that check out a commit set a variable."""
    found = next(filter(None, map(os.environ.get, _BRANCHES)), "") or _git("rev-parse", "--abbrev-ref", "HEAD")
    return None if found in ("", "HEAD") else found


def code_author() -> str | None:
    """Return who makes a run: CI servers set a variable; otherwise the user of git, or the author of the commit."""
    given = next(filter(None, map(os.environ.get, _AUTHORS)), "")
    return given or _git("config", "user.name") or _git("log", "-1", "--format=%an") or None


def default_branch(folder: Path) -> str | None:
    """Return the branch that changes are merged into: the remote's, else a usual name that exists, else the current
    branch; None outside git."""
    remote = _git("symbolic-ref", "--short", "refs/remotes/origin/HEAD", folder=folder)
    if remote:
        return remote.removeprefix("origin/")
    known = _git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads", "refs/remotes", folder=folder)
    there = {name.removeprefix("origin/") for name in known.splitlines()}
    usual = [name for name in ("main", "master", "trunk", "develop") if name in there]
    return next(iter(usual), None) or _git("symbolic-ref", "--short", "HEAD", folder=folder) or None


def published_commit(folder: Path) -> tuple[str, str] | None:
    """Return the remote's address and its newest known commit; None if unknown."""
    address, commit = _git("remote", "get-url", "origin", folder=folder), _git("rev-parse", "HEAD", folder=folder)
    if address and commit and _git("branch", "--remotes", "--contains", commit, folder=folder):
        return address, commit
    return None


def _git(*arguments: str, folder: Path | None = None) -> str:
    if not _may_be_repository(folder or Path.cwd()):
        return ""
    import subprocess  # slow to load, and most folders with runs are not in a repository

    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, timeout=10, check=False, env=environment, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def _may_be_repository(start: Path) -> bool:
    """Return whether git would find a repository, in this folder or above, or in a variable."""
    if "GIT_DIR" in os.environ:
        return True
    folder = os.path.abspath(start)
    while not os.path.exists(os.path.join(folder, ".git")):
        if folder == (folder := os.path.dirname(folder)):
            return os.path.exists(os.path.join(start, "HEAD"))  # a bare repository
    return True
