"""Forms of an id in which spellings are the same: without case, white space and Unicode form, without file extensions,
and without the difference between `-` and `_`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import normalize

from karat.data.ids import DocRule

_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_EXTENSION = (
    r"(?<=.)\.(?:md|markdown|mdx|txt|text|rst|adoc|org|tex|html?|xml|pdf|docx?|odt|rtf|pptx?|xlsx?|csv|tsv"
    r"|jsonl?|ya?ml|ipynb|py|js|ts|java|go|rs|c|cpp|h|eml|msg|gz|zip)$"
)
_SEPARATORS = re.compile(r"[\s_-]+")


def plain_id(item: str, rule: DocRule | None = None) -> str:
    """An id without differences in case, white space and Unicode form.

    >>> plain_id(" Guides/Leave.MD#P 2")
    'guides/leave.md#p2'
    """
    return _plain(item) or item


def normal_id(item: str, rule: DocRule) -> str:
    """The plain form without file extensions. A file extension may be at the end of the document or of the id.

    >>> normal_id(" Guides/Leave.MD#P 2", DocRule()), normal_id("guides/leave#p2.md", DocRule())
    ('guides/leave#p2', 'guides/leave#p2')
    """
    doc = rule.doc(item)
    if doc == item or not item.startswith(doc):
        return _without_extension(_plain(item)) or item
    return (_without_extension(_plain(doc)) + _without_extension(_plain(item[len(doc) :]))) or item


def loose_id(item: str, rule: DocRule) -> str:
    """The normal form, in which `-`, `_` and white space are also the same. For ids that stay different in this form.

    >>> loose_id("DOC-107.md", DocRule()), loose_id("doc 107", DocRule())
    ('doc_107', 'doc_107')
    """
    doc = rule.doc(item)
    rest = item[len(doc) :] if item.startswith(doc) else ""
    return (_without_extension(_joined(doc if rest else item)) + _without_extension(_joined(rest))) or item


def _joined(text: str) -> str:
    return "_".join(part for part in _SEPARATORS.split(_unicode(text).lower()) if part)


def normal_ids(items: list[str], rule: DocRule) -> list[str]:
    """`normal_id` of each id; faster where only upper and lower case can differ.

    >>> normal_ids(["A#1", "b"], DocRule()), normal_ids(["A.md#1", "b "], DocRule())
    (['a#1', 'b'], ['a#1', 'b'])
    """
    text = "\0".join(items)
    lower = text.lower().split("\0")
    if text.isascii() and "." not in text and text.split() == [text] and len(lower) == len(items):
        return lower
    return [normal_id(item, rule) for item in items]


def _plain(text: str) -> str:
    return "".join(_unicode(text).lower().split())


def _unicode(text: str) -> str:
    return text if text.isascii() else normalize("NFKC", normalize("NFKC", text).casefold()).translate(_UNSEEN)


def _without_extension(doc: str) -> str:
    return re.sub(_EXTENSION, "", doc) if "." in doc else doc


def are_other_files(one: str, other: str, rule: DocRule) -> bool:
    """Whether two ids have different file extensions. An id without one may be either file.

    >>> are_other_files("x.pdf#1", "x.docx#1", DocRule()), are_other_files("x.pdf#1", "X#1", DocRule())
    (True, False)
    """
    pairs = zip(_extensions(one, rule), _extensions(other, rule), strict=True)
    return any(mine and their and mine != their for mine, their in pairs)


def _extensions(item: str, rule: DocRule) -> list[str]:
    """The file extension of the document, and of what follows in the id."""
    doc = rule.doc(item)
    parts = (doc, item[len(doc) :]) if item.startswith(doc) else (item, "")
    found = [re.search(_EXTENSION, _plain(part)) for part in parts]
    return ["" if one is None else one[0] for one in found]


def can_be_loose(ids: Iterable[str], rule: DocRule) -> bool:
    """Whether no two ids differ only in `-`, `_` or white space, so that these can be ignored."""
    forms: dict[str, str] = {}
    pairs = ((loose_id(item, rule), normal_id(item, rule)) for item in set(ids))
    return all(forms.setdefault(loose, form) == form for loose, form in pairs)
