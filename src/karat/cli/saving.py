"""Keeping results in the history, for the commands that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from karat.gates.verdicts import Verdicts
    from karat.history.store import Store
    from karat.results.result import Result


class Keeper:
    """An open history, and how runs of this command are named in it."""

    def __init__(self, store: Store, tags: tuple[str, ...]) -> None:
        self._store, self._tags = store, tags

    def keep(self, result: Result, verdicts: Verdicts | None = None) -> None:
        from karat.files.git import code_branch
        from karat.files.progress import working
        from karat.history.keep import judgement, keep_result
        from karat.history.store import short

        with working("saving"):
            judged = [] if verdicts is None else [judgement(verdicts)]
            kept = keep_result(result)
            saved = self._store.save(kept, branch=code_branch(), tags=self._tags, judgements=judged)
        done = "saved" if saved.new else "was saved before"
        click.echo(f"{result.system or result.run}: {done} as {short(saved.id)} in {self._store.label}", err=True)


def open_for_saving(save: bool | None, tags: tuple[str, ...]) -> Keeper | None:
    """Opened before the work: a history that cannot be written is told at once."""
    from karat.history.opening import open_store
    from karat.history.store import checked_name
    from karat.settings import load_config

    for tag in tags:
        checked_name(tag, "tag")
    wanted = bool(tags) or load_config().save if save is None else save
    return Keeper(open_store(create=True), tags) if wanted else None
