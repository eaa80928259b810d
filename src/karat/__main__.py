"""Start the command line: the script `karat`, and `python -m karat`."""

from __future__ import annotations

import gc
import sys


def run() -> None:
    """Run the command line, and end the process."""
    # Most objects live until the command ends. Collecting garbage every 700 objects, and again at the end, would take
    # a tenth of the time of a short command.
    gc.set_threshold(100_000)
    try:
        from karat.cli.main import run as run_commands
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    run_commands()


if __name__ == "__main__":
    run()
