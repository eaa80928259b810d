"""The command line in this process, for tests that look at what it prints and at how it ends.

It takes the place of `subprocess.run` where a process of its own is not the point: starting one takes half a second.
"""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest


def run_here(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `karat` in a folder. Anything but a clean end is an exception."""
    from karat.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    given = {"NO_COLOR": "1", "KARAT_TRACEBACK": "1", **environment}  # a bug is an exception here
    for file in cwd.glob("*.py"):  # other folders have modules of the same name
        sys.modules.pop(file.stem, None)
    with pytest.MonkeyPatch.context() as changed, patch.dict(os.environ, given), redirect_stdout(out):
        changed.chdir(cwd)
        changed.syspath_prepend(str(cwd))  # as `python -m` does
        changed.setattr(sys, "argv", ["karat", *arguments])
        changed.setattr("click.core._detect_program_name", lambda: "karat")
        with redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    gc.unfreeze()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(["karat", *arguments], int(ended.value.code or 0), *texts)
