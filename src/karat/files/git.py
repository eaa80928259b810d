"""Which code made the numbers."""

from __future__ import annotations

import os
from pathlib import Path

_BRANCHES = ("KARAT_BRANCH", "GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")


def code_version() -> str | None:
    """The commit of the repository one works in, `+changes` where files differ from it; None outside of git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return None
    return commit + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


def code_date() -> str | None:
    """The day of that commit: unlike the day of a file it is the same wherever the file is copied to."""
    return _git("log", "-1", "--format=%cs") or None


def code_branch() -> str | None:
    """The branch one works on; a CI server that checks out a bare commit says it in a variable."""
    found = next(filter(None, map(os.environ.get, _BRANCHES)), "") or _git("rev-parse", "--abbrev-ref", "HEAD")
    return None if found in ("", "HEAD") else found


def default_branch(folder: Path) -> str | None:
    """The branch that changes are merged into: what the remote says, else a usual name that is there, else the
    branch one works on; None outside of git."""
    remote = _git("symbolic-ref", "--short", "refs/remotes/origin/HEAD", folder=folder)
    if remote:
        return remote.removeprefix("origin/")
    known = _git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads", "refs/remotes", folder=folder)
    there = {name.removeprefix("origin/") for name in known.splitlines()}
    usual = [name for name in ("main", "master", "trunk", "develop") if name in there]
    return next(iter(usual), None) or _git("symbolic-ref", "--short", "HEAD", folder=folder) or None


def published_commit(folder: Path) -> tuple[str, str] | None:
    """Address of the remote, and the newest commit that it is known to have; None where neither is known."""
    address, commit = _git("remote", "get-url", "origin", folder=folder), _git("rev-parse", "HEAD", folder=folder)
    if address and commit and _git("branch", "--remotes", "--contains", commit, folder=folder):
        return address, commit
    return None


def _git(*arguments: str, folder: Path | None = None) -> str:
    if not _may_be_repository(folder or Path.cwd()):
        return ""
    import subprocess  # takes as long to load as git to start, and most folders with runs are in no repository

    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=10, check=False, env=environment, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _may_be_repository(start: Path) -> bool:
    """Whether git would find a repository; it looks in this folder and in those above, unless a variable names one."""
    if "GIT_DIR" in os.environ:
        return True
    folder = os.path.abspath(start)
    while not os.path.exists(os.path.join(folder, ".git")):
        if folder == (folder := os.path.dirname(folder)):
            return os.path.exists(os.path.join(start, "HEAD"))  # a bare repository
    return True
