"""Which code made the numbers."""

from __future__ import annotations

import os

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


def _git(*arguments: str) -> str:
    if not _may_be_repository():
        return ""
    import subprocess  # takes as long to load as git to start, and most folders with runs are in no repository

    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=10, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _may_be_repository() -> bool:
    """Whether git would find a repository; it looks in this folder and in those above, unless a variable names one."""
    if "GIT_DIR" in os.environ:
        return True
    folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")):
        if folder == (folder := os.path.dirname(folder)):
            return os.path.exists("HEAD")  # a bare repository
    return True
