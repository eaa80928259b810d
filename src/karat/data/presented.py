"""Shared methods of result objects: text summary, notebook view, export to files and frames. How they look is defined
in `karat.report.present`."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def above(module: str, name: str) -> Any:
    """A function of a module that builds on this object; loaded when called, since imports point downward."""
    return getattr(import_module(module), name)


def _present(name: str) -> Any:
    return above("karat.report.present", name)


class Presented:
    """Base class of result objects."""

    __slots__ = ()

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it to a file, by extension: `.html` is a page, `.json` the full data, `.md` text; `.csv` and `.parquet`
        hold one table: name it as in `NAME=out.csv`."""
        written: Path = _present("save")(self, path)
        return written

    @property
    def table_names(self) -> list[str]:
        """The table names that `to_polars`, `to_pandas` and `save` accept."""
        names: list[str] = _present("table_names")(self)
        return names

    def to_polars(self, table: str | None = None) -> pl.DataFrame:
        """One of its tables; by default the main one."""
        frame: pl.DataFrame = _present("frame")(self, table)
        return frame

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """The same for pandas; needs no other package."""
        frame: pd.DataFrame = _present("pandas_frame")(self, table)
        return frame

    def __str__(self) -> str:
        text: str = _present("text")(self)
        return text

    def __repr__(self) -> str:
        lines: str = _present("few_lines")(self)
        return lines

    def _repr_html_(self) -> str:
        view: str = _present("view")(self)
        return view
