"""Loads the native library (json.c, trec.c, parquet.c, lists.c, blocks.c, draws.c) on first use. Without it, Karat
reads with plain Python.

`KARAT_PURE=1` disables it, if it is set before the first use. A library built from another source than the one next to
it is ignored.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).with_name("_reader.so")
_ABI = 10
_POINTER, _WHOLE = ctypes.c_void_p, ctypes.c_int64
# Arguments and result of every function.
_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "karat_lines": ([_POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_table": ([_POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_pack": ([_POINTER, _WHOLE, _POINTER, _POINTER, _WHOLE, _WHOLE, _POINTER, _POINTER], None),
    "karat_join": ([_POINTER, _POINTER, _POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_has": ([_POINTER, _WHOLE, _WHOLE], _WHOLE),
    "karat_hash": ([_POINTER, _WHOLE, _WHOLE, _POINTER], None),
    "karat_hash_cut": ([_POINTER, _WHOLE, _WHOLE, _WHOLE, _POINTER], None),
    "karat_cut": ([_POINTER, _WHOLE, _WHOLE, _WHOLE], None),
    "karat_hash_lines": ([_POINTER, _WHOLE, _WHOLE, _POINTER], None),
    "karat_seen": ([_POINTER, _WHOLE, _POINTER, ctypes.c_uint64], _WHOLE),
    "karat_match": ([_POINTER] * 3 + [_WHOLE] + [_POINTER] * 5, _WHOLE),
    "karat_ties": ([_POINTER, _WHOLE, _POINTER, _WHOLE, _POINTER, _POINTER], None),
    "karat_descend": ([_POINTER, _WHOLE, _POINTER, _WHOLE], _WHOLE),
    "karat_ranks": ([_POINTER, _POINTER, _WHOLE], _WHOLE),
    "karat_firsts": ([_POINTER, _WHOLE, _POINTER, ctypes.c_uint64, _POINTER], None),
    "karat_distinct": ([_POINTER, _POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_repeats": ([_POINTER, _POINTER, _WHOLE], _WHOLE),
    "karat_index": ([_POINTER, _WHOLE, _POINTER, ctypes.c_uint64, _POINTER, _WHOLE], None),
    "karat_find": (
        [
            _POINTER,
            _POINTER,
            ctypes.c_uint64,
            _POINTER,
            _WHOLE,
            _POINTER,
            _POINTER,
            _POINTER,
            _WHOLE,
            _POINTER,
            _POINTER,
        ],
        _WHOLE,
    ),
    "karat_mark": (
        [
            *(_POINTER, _POINTER, ctypes.c_uint64, _POINTER, _WHOLE, _POINTER, _POINTER),
            *(_WHOLE, _WHOLE, _WHOLE, _POINTER, _WHOLE, _POINTER, _POINTER),
        ],
        None,
    ),
    "karat_confirm": ([_POINTER, _WHOLE, _WHOLE, _POINTER, _WHOLE, _POINTER, _POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_list_hashes": ([_POINTER, _POINTER, _POINTER, _WHOLE, _POINTER, _WHOLE, _POINTER], None),
    "karat_matched": ([_POINTER, _WHOLE, _POINTER, _WHOLE, _WHOLE], _WHOLE),
    "karat_seed": ([_POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_exponential": ([_POINTER, _WHOLE, _POINTER], None),
    "karat_gamma": ([_POINTER, ctypes.c_double, _WHOLE, _POINTER], None),
    "karat_snappy": ([_POINTER, _WHOLE, _POINTER, _WHOLE], _WHOLE),
    "karat_page_next": ([_POINTER, _POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_page_take": ([_POINTER, _POINTER, _POINTER, _POINTER, _WHOLE], _WHOLE),
    "karat_page_texts": ([_POINTER, _WHOLE, _WHOLE, _POINTER, _POINTER], _WHOLE),
    "karat_page_ids": ([_POINTER, _WHOLE, _WHOLE, _POINTER, _POINTER], _WHOLE),
    "karat_page_numbers": ([_POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_page_stretches": ([_POINTER, _WHOLE, _POINTER], _WHOLE),
    "karat_order": ([_POINTER, _POINTER, _WHOLE, _WHOLE, _POINTER, _POINTER], None),
}


@cache
def _loaded(path: str) -> Any:
    from karat.files.native.build import checksum

    try:
        library = ctypes.CDLL(path)
        for name in ("karat_abi", "karat_source"):
            getattr(library, name).restype = _WHOLE
        if library.karat_abi() != _ABI or library.karat_source() != checksum():
            return None
        for name, (arguments, answer) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, answer
    except (OSError, AttributeError):
        return None
    return library


_CHOSEN: list[Any] = []  # the library, or None; empty before the first use


def native() -> Any:
    """The library, or None."""
    if not _CHOSEN:
        plain = os.environ.get("KARAT_PURE", "0") not in ("", "0")
        _CHOSEN.append(None if plain else _loaded(os.environ.get("KARAT_READER") or str(LIBRARY)))
    return _CHOSEN[0]


def reader_name() -> str:
    return "plain reader" if native() is None else "native reader"
