"""Compiles the native reader where there is a C compiler; elsewhere the wheel is plain Python and works the same."""

import os
import re
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeReader(BuildHookInterface):
    """Writes the library beside its source, where wheels and editable installs both find it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        spec = spec_from_file_location("build", Path(self.root, "src/karat/files/native/build.py"))
        assert spec is not None
        assert spec.loader is not None
        build = module_from_spec(spec)
        spec.loader.exec_module(build)
        reason = "KARAT_PURE is set" if os.environ.get("KARAT_PURE", "0") not in ("", "0") else build.compile_reader()
        if reason is not None:
            self.app.display_warning(f"no native reader, plain Python only: {reason}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_of(build.LIBRARY)}"
        build_data["artifacts"].append(build.LIBRARY.relative_to(self.root).as_posix())


def platform_of(library: Path) -> str:
    """The tag of this platform; on Linux with the oldest glibc that has all that the library calls (PEP 600)."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    needed = [tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())]
    if not needed or not platform.startswith("linux_"):
        return platform
    major, minor = max(needed)
    return platform.replace("linux", f"manylinux_{major}_{minor}", 1)
