"""Values from the environment: `${NAME}` in settings, never in a message."""

from __future__ import annotations

import os
import re
from typing import Any

from karat.errors import ConfigError

_SECRET = re.compile(r"\$\{([A-Za-z_]\w*)\}")


class Secrets:
    """Values from the environment, named in settings and never written out."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def fill(self, template: Any) -> Any:
        """The template with every `${NAME}` put in."""
        if isinstance(template, dict):
            return {name: self.fill(value) for name, value in template.items()}
        if isinstance(template, list):
            return [self.fill(value) for value in template]
        return _SECRET.sub(lambda found: self.get(found[1]), template) if isinstance(template, str) else template

    def get(self, name: str) -> str:
        value = os.environ.get(name, "").strip()
        if not value:
            raise ConfigError(
                f"the environment has no {name}", code="missing-variable", hint=f"set it: export {name}=…"
            )
        self._seen.add(value)
        return value

    def redact(self, text: str) -> str:
        for value in self._seen:
            text = text.replace(value, "***")
        return text
