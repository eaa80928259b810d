"""Does the answer stand in what was returned."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats
from karat.matching.cover import normalise
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.covering import HitTexts


class AnswerContainment(Metric, frozen=True, kw_only=True):
    """1 when the answer stands in the text of one of the top k hits, else 0.

    The answer is the query's `answer_span`, else its `answer`, word for word apart from case and white space: a
    long `answer` will hardly stand in any text, a span of a few words says more. 0 for a query that the run lacks;
    undefined without either, for a query without an answer, and where no hit in the top k has a text.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "by card or in cash"}, {"chunk_id": "b", "text": "Within 90\\nDays."}]
    >>> gold = [{"query_id": "q", "answer_span": "90 days", "answer": "You have 90 days."}]
    >>> asked = ["answer_containment@1", "answer_containment@2"]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, asked).means
    {'answer_containment@1': 0.0, 'answer_containment@2': 1.0}
    """

    name = "answer_containment"
    cutoff = "required"
    uses_hits = True
    needs = frozenset({"text"})
    aliases = {"answer-containment": "answer_containment", "containment": "answer_containment"}

    def lacks(self, judged: Judged) -> str | None:
        if not any(_answers(judged)):
            return "the gold set has neither answer_span nor answer"
        return HitTexts.of(judged).lacks

    def score(self, judged: Judged) -> Floats:
        limit, texts, answers = self.limit(judged), HitTexts.of(judged), _answers(judged)
        found = np.zeros(judged.n)
        if judged.hits is not None:
            for query, row in zip(*(a.tolist() for a in judged.top(limit)), strict=True):
                if not found[query] and answers[query]:
                    found[query] = answers[query] in (texts.plain(row) or "")
        there = np.fromiter(map(bool, answers), np.bool_, judged.n)
        return np.where(there & texts.known(limit), found, np.nan)


def _answers(judged: Judged) -> list[str]:
    """What must appear for each query; "" where nothing says it."""
    gold = judged.gold
    columns = [gold.fields[name] for name in ("answer_span", "answer") if name in gold.fields]
    said = ((normalise(column[row] or "") for column in columns) for row in judged.queries.tolist())
    answers = [next(filter(None, texts), "") for texts in said]
    return [
        "" if without else answer
        for answer, without in zip(answers, gold.no_answer[judged.queries].tolist(), strict=True)
    ]
