"""Links from a query to the entities of a knowledge base, in the gold set and in a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

NIL = None  # a mention of something that the knowledge base does not have
_NIL_NAMES = frozenset({"nil", "null"})
Place = Annotated[int, msgspec.Meta(ge=0)]


class Entity(msgspec.Struct, frozen=True, gc=False):
    """One link; `id: null` is a mention without an entity (NIL)."""

    id: str | int | None
    mention: str | None = None
    start: Place | None = None
    end: Place | None = None


Said: TypeAlias = Sequence["str | int | Entity | None"]
Link: TypeAlias = tuple[Any, ...]  # its place, as far as both sides give one, and the entity


class Links(NamedTuple):
    """Links of one query: those of the gold, those of the run, and those that both have."""

    gold: Counter[Link]
    run: Counter[Link]

    @property
    def right(self) -> Counter[Link]:
        return self.gold & self.run

    def only(self, *, nil: bool) -> Links:
        """Links to entities, or mentions without one."""
        return Links(*(Counter({link: n for link, n in side.items() if (link[-1] is NIL) == nil}) for side in self))


def link(gold: Said, run: Said) -> Links:
    """Two links are equal when they name the same entity at the same place. A place is `start` and `end` where
    all links of both sides have them, else the `mention`; where some lack even that, the entity alone counts.

    >>> links = link(["Q1", "Q1", "Q2"], ["Q2", "Q3", "NIL"])
    >>> len(links.gold), links.right.total(), links.only(nil=True).run.total()
    (2, 1, 1)
    """
    gold, run = (list(map(_entity, side)) for side in (gold, run))
    place = _place([*gold, *run])
    return Links(*(_count((*place(entity), entity.id) for entity in side) for side in (gold, run)))


def _entity(said: str | int | Entity | None) -> Entity:
    entity = said if isinstance(said, Entity) else Entity(said)
    name = NIL if entity.id is None or str(entity.id).lower() in _NIL_NAMES else str(entity.id)
    return msgspec.structs.replace(entity, id=name)


def _place(entities: Iterable[Entity]) -> Callable[[Entity], Link]:
    entities = list(entities)
    if all(entity.start is not None and entity.end is not None for entity in entities):
        return lambda entity: (entity.start, entity.end)
    if all(entity.mention is not None for entity in entities):
        return lambda entity: (" ".join((entity.mention or "").casefold().split()),)
    return lambda entity: ()


def _count(links: Iterable[Link]) -> Counter[Link]:
    """Each link once. Mentions without an entity and a place cannot be distinguished: every occurrence counts."""
    counted = Counter(links)
    return Counter({link: n if link == (NIL,) else 1 for link, n in counted.items()})
