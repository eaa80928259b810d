"""`--trust-config`: an option of `karat` and of every command that can open a history or run a retriever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click


def _trust(_: click.Context, __: click.Parameter, asked: bool) -> None:
    if asked:
        from karat.settings import trust_config

        trust_config()


trust_option: Final = click.option(
    "--trust-config",
    is_flag=True,
    expose_value=False,
    callback=_trust,
    help="Let karat.yaml name servers, code and outside folders, also in CI.",
)


def listed_retrievers() -> dict[str, Any]:
    """Return the retrievers of karat.yaml by name."""
    from karat.settings import load_config

    return dict(load_config().retrievers or {})


def require_trusted(listed: Mapping[str, Any]) -> None:
    """Require trust in karat.yaml if its retrievers run code or call servers, which may get environment variables."""
    from karat.retrievers.specs import is_self_contained
    from karat.settings import config_file, require_trust

    file = config_file()
    outside = next((name for name, spec in listed.items() if not is_self_contained(spec)), None)
    if file is not None and outside is not None:
        hint = "if you trust the file: karat --trust-config …; or name the retriever on the command line"
        require_trust(file, f"retrievers.{outside}", "a retriever that runs code or calls a server", hint)
