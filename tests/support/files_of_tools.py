"""Files that other tools write, made by the tools themselves. `tests/formats/of_tools/` keeps a copy of each."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

KEPT = Path(__file__).parents[1] / "formats" / "of_tools"

# One of the three questions is answered by its first passage, one by its second, one not at all.
SAMPLES: list[dict[str, Any]] = [
    {
        "query": "How do I clean the pump?",
        "ids": ["pump#1", "pump#2"],
        "texts": ['Rinse it with water, then "dry" it.', "The pump weighs\nthree kilograms."],
        "relevant": ["pump#1"],
        "evidence": ["Rinse it with water"],
        "answer": "With water, it's rinsed.",
    },
    {
        "query": "What's the price, in €?",
        "ids": ["home#1", "shop#4"],
        "texts": ["Welcome to our shop for pumps.", "It's 40 € | with tax."],
        "relevant": ["shop#4"],
        "evidence": ["It's 40 €"],
        "answer": "40 €",
    },
    {
        "query": "Who repairs it?",
        "ids": ["home#1", "pump#2"],
        "texts": ["Welcome to our shop for pumps.", "The pump weighs\nthree kilograms."],
        "relevant": ["repair#1", "repair#2"],
        "evidence": ["Anna repairs every pump"],
        "answer": "Anna",
    },
]


def write_ragas(folder: Path) -> None:
    # ragas imports this module, which newer versions of langchain-community do not have.
    gone = ModuleType("langchain_community.chat_models.vertexai")
    vars(gone)["ChatVertexAI"] = object
    sys.modules.setdefault(gone.__name__, gone)
    from ragas import EvaluationDataset, SingleTurnSample

    made = EvaluationDataset(
        samples=[
            SingleTurnSample(
                user_input=one["query"],
                retrieved_contexts=one["texts"],
                retrieved_context_ids=one["ids"],
                reference_contexts=one["evidence"],
                reference_context_ids=one["relevant"],
                reference=one["answer"],
                response="…",
            )
            for one in SAMPLES
        ]
    )
    made.to_jsonl(folder / "ragas.jsonl")
    made.to_csv(folder / "ragas.csv")
    made.to_hf_dataset().to_parquet(str(folder / "ragas.parquet"))


def write_deepeval(folder: Path) -> None:
    os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
    from deepeval.dataset import EvaluationDataset, Golden
    from deepeval.test_case import LLMTestCase
    from deepeval.test_case.llm_test_case import RetrievedContextData

    texts = [{**one, "texts": [text.replace("|", "/") for text in one["texts"]]} for one in SAMPLES]  # its separator
    goldens = [
        Golden(
            input=one["query"],
            expected_output=one["answer"],
            context=one["evidence"],
            retrieval_context=one["texts"],
            additional_metadata={"relevant_ids": one["relevant"], "retrieved_ids": one["ids"]},
        )
        for one in texts
    ]
    for ending in ("json", "jsonl", "csv"):
        EvaluationDataset(goldens=goldens).save_as(ending, str(folder), file_name="deepeval")
    cases = EvaluationDataset()
    for one in SAMPLES:
        pairs = zip(one["ids"], one["texts"], strict=True)
        context = [RetrievedContextData(source=name, context=text) for name, text in pairs]
        cases.add_test_case(
            LLMTestCase(
                input=one["query"],
                actual_output="…",
                expected_output=one["answer"],
                context=one["evidence"],
                retrieval_context=context,
                metadata={"relevant_ids": one["relevant"]},
            )
        )
    cases.save_as("json", str(folder), file_name="deepeval_cases", include_test_cases=True)


def write_langsmith(folder: Path) -> None:
    from uuid import UUID

    from langsmith.schemas import Example

    with (folder / "langsmith.jsonl").open("w") as stream:
        for at, one in enumerate(SAMPLES):
            example = Example(
                id=UUID(int=at + 1),
                inputs={"question": one["query"]},
                outputs={"answer": one["answer"], "contexts": one["evidence"], "relevant_ids": one["relevant"]},
                metadata={"source": "manual", "dataset_split": ["base"]},
            )
            stream.write(example.model_dump_json() + "\n")


def write_mlflow(folder: Path) -> None:
    from mlflow.entities.dataset_record import DatasetRecord

    records = []
    for at, one in enumerate(SAMPLES):
        found = zip(one["ids"], one["texts"], strict=True)
        wanted = zip(one["relevant"], one["evidence"] * len(one["relevant"]), strict=True)
        record = DatasetRecord(
            dataset_id="d-1",
            dataset_record_id=f"dr-{at}",
            inputs={"question": one["query"]},
            outputs={"retrieved_context": [{"doc_uri": name, "content": text} for name, text in found]},
            expectations={
                "expected_response": one["answer"],
                "expected_retrieved_context": [{"doc_uri": name, "content": text} for name, text in wanted],
            },
            tags={"language": "en"},
            created_time=1,
            last_update_time=1,
        )
        records.append(record.to_dict())
    (folder / "mlflow.json").write_text(json.dumps(records, indent=1))


def write_mteb(folder: Path) -> None:
    from datasets import Dataset

    texts = {name: text for one in SAMPLES for name, text in zip(one["ids"], one["texts"], strict=True)}
    tables: dict[str, list[dict[str, Any]]] = {
        "corpus/corpus": [{"_id": name, "title": "", "text": text} for name, text in texts.items()],
        "queries/queries": [{"_id": f"q{at}", "text": one["query"]} for at, one in enumerate(SAMPLES)],
        "data/test": [
            {"query-id": f"q{at}", "corpus-id": name, "score": 1}
            for at, one in enumerate(SAMPLES)
            for name in one["relevant"]
        ],
    }
    for place, rows in tables.items():
        path = folder / "mteb" / f"{place}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        Dataset.from_list(rows).to_parquet(str(path))


WRITERS: dict[str, Callable[[Path], None]] = {
    "ragas": write_ragas,
    "deepeval": write_deepeval,
    "langsmith": write_langsmith,
    "mlflow": write_mlflow,
    "mteb": write_mteb,
}
