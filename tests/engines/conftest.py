"""Tests against real engines and other tools' own packages. Only `make test-engines` runs them."""

from __future__ import annotations

import os

# They need packages of gigabytes and start servers, so `make test` does not even collect them.
collect_ignore_glob = [] if os.environ.get("KARAT_ENGINES") == "1" else ["test_*.py"]
