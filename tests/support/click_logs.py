"""Simulated click logs whose truth is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from karat.statistics.position_bias import Clicks, Showings

Array = np.ndarray


class Simulated(NamedTuple):
    examination: Array  # by position
    attraction: Array  # by item
    item: Array  # of each showing
    position: Array
    clicked: Array
    listed: Array  # the list of each showing


def simulate(
    rng: np.random.Generator,
    *,
    queries: int = 60,
    lists: int = 40,
    length: int = 8,
    items: int = 12,
    attraction: tuple[float, float] = (0.5, 1.5),
    good_first: float = 1.0,
    steepness: float = 0.8,
) -> Simulated:
    """Each query has some items, and its lists show the best of them by a noisy score. `good_first`: how much the score
    depends on the attraction; 0: lists in random order."""
    examination = 1 / np.arange(1, length + 1) ** steepness
    attractions = rng.beta(*attraction, (queries, items))
    query = np.repeat(np.arange(queries), lists)
    score = good_first * attractions[query] + rng.normal(0, 0.4, (len(query), items))
    order = np.argsort(-score, axis=1)[:, :length]
    clicked = rng.random(order.shape) < attractions[query[:, None], order] * examination
    return Simulated(
        examination,
        attractions.ravel(),
        (query[:, None] * items + order).ravel(),
        np.tile(np.arange(length), len(query)),
        clicked.ravel(),
        np.repeat(np.arange(len(query)), length),
    )


def counted(log: Simulated) -> tuple[Showings, Clicks]:
    length, items = len(log.examination), len(log.attraction)
    cell, place, shown = np.unique(log.item * length + log.position, return_inverse=True, return_counts=True)
    clicks = np.bincount(place, log.clicked, len(cell))
    showings = Showings(cell // length, cell % length, shown.astype(np.float64), clicks, items, length)
    at = log.clicked
    return showings, Clicks(log.item[at], log.position[at], log.listed[at])


def textbook_em(shown: Array, clicked: Array, rounds: int = 1000) -> Array:
    """The usual EM of the position-bias model, with examination and attraction as hidden events: item × position."""
    examination, attraction = np.full(shown.shape[1], 0.5), np.full(len(shown), 0.5)
    examination[0] = 1
    missed = shown - clicked
    for _ in range(rounds):
        left = np.maximum(1 - np.outer(attraction, examination), 1e-12)
        seen = clicked + missed * examination * (1 - attraction[:, None]) / left
        liked = clicked + missed * attraction[:, None] * (1 - examination) / left
        examination = seen.sum(axis=0) / np.maximum(shown.sum(axis=0), 1e-12)
        attraction = liked.sum(axis=1) / np.maximum(shown.sum(axis=1), 1e-12)
        examination[0] = 1
    return examination
