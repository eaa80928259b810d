"""Labels: pairs of query and passage to judge, labels by humans and models, and their agreement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.lazy import public

if TYPE_CHECKING:
    from karat.labels.agreement import Agreement as Agreement
    from karat.labels.agreement import find_agreement as find_agreement
    from karat.labels.calibration import calibrate as calibrate
    from karat.labels.calibration_file import Calibration as Calibration
    from karat.labels.clicks import ClickLabels as ClickLabels
    from karat.labels.clicks import labels_from_clicks as labels_from_clicks
    from karat.labels.files import read_labels as read_labels
    from karat.labels.judge.judge import Judgements as Judgements
    from karat.labels.judge.judge import judge_pool as judge_pool
    from karat.labels.labelled_gold import read_labelling as read_labelling
    from karat.labels.labelled_gold import with_labels as with_labels
    from karat.labels.pool import make_pool as make_pool

__all__ = [
    "Agreement",
    "Calibration",
    "ClickLabels",
    "Judgements",
    "calibrate",
    "find_agreement",
    "judge_pool",
    "labels_from_clicks",
    "make_pool",
    "read_labelling",
    "read_labels",
    "with_labels",
]
_WHERE = {
    "Agreement": "karat.labels.agreement",
    "Calibration": "karat.labels.calibration_file",
    "ClickLabels": "karat.labels.clicks",
    "Judgements": "karat.labels.judge.judge",
    "find_agreement": "karat.labels.agreement",
    "calibrate": "karat.labels.calibration",
    "judge_pool": "karat.labels.judge.judge",
    "labels_from_clicks": "karat.labels.clicks",
    "make_pool": "karat.labels.pool",
    "read_labelling": "karat.labels.labelled_gold",
    "read_labels": "karat.labels.files",
    "with_labels": "karat.labels.labelled_gold",
}
if not TYPE_CHECKING:  # so that type checkers and editors report unknown names
    __getattr__, __dir__ = public(__name__, _WHERE)
