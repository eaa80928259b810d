"""Saved results of the history: `history:` with a pin, a tag, an id, or `latest`."""

from __future__ import annotations

import msgspec

from karat.results.references import SavedSource
from karat.results.saved import SavedResult


class History(SavedSource):
    """Runs saved with `--save`, in the configured store."""

    name = "history"

    def read(self, reference: str) -> SavedResult:
        from karat.history.location import open_store
        from karat.history.store import short

        with open_store() as store:
            run_id = store.find(reference)
            saved = store.kept(run_id).saved()
        # A system without a name is called by its file, as in the list of runs.
        return msgspec.structs.replace(saved, system=saved.system or saved.run, run=f"{self.name}:{short(run_id)}")
