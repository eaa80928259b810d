"""JSON Schemas, generated from the structs that read and write the files, and shipped as files."""

from __future__ import annotations

from importlib import resources

_KINDS = {
    "agreement": "karat.labels.agreement:Agreement",
    "calibration": "karat.labels.calibration_file:Calibration",
    "clicks": "karat.labels.clicks:ClickModel",
    "comparison": "karat.results.comparison.compare:Comparison",
    "corpus": "karat.formats.corpus:CorpusEntry",
    "drift": "karat.results.comparison.drift:Drift",
    "gates": "karat.gates.verdict_form:Verdicts",
    "gold": "karat.formats.gold_records:GoldEntry",
    "labels": "karat.labels.files:Label",
    "leaderboard": "karat.results.leaderboard:SavedLeaderboard",
    "ladder": "karat.systems.ladder:Ladder",
    "merging": "karat.labels.merge:Merging",
    "plan": "karat.results.power:Plan",
    "pool": "karat.labels.files:PoolEntry",
    "pooling": "karat.labels.pool:Pooling",
    "prices": "karat.data.prices:Prices",
    "result": "karat.results.saved:SavedResult",
    "run-log": "karat.formats.run_records:RunRecord",
    "selftest": "karat.gates.selftest:SelfTest",
    "ship-criteria": "karat.gates.criteria:CriteriaFile",
    "stress": "karat.systems.stress.stress:Stress",
    "sweep": "karat.results.sweep:Sweep",
    "triage": "karat.results.queries.triage:Triage",
    "tuning": "karat.systems.tuning:Tuning",
    "judgements": "karat.labels.judge.judge:Judgements",
    "synthesis": "karat.systems.synthesize.synthesize:Synthesis",
}
NAMES = tuple(_KINDS)


def schema_text(name: str) -> str:
    """Returns the shipped schema."""
    return (resources.files("karat.schemas") / f"{name}.schema.json").read_text(encoding="utf-8")


def generate(name: str) -> str:
    """Generates the schema from the code; a test compares the shipped file with it."""
    import msgspec  # not needed to print a shipped schema

    from karat.registry import load_callable
    from karat.schemas.comments import describe

    kind = load_callable(_KINDS[name])
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(kind)}
    describe(schema["$defs"])
    if name == "run-log":  # one of two fields is required, which a struct cannot say
        record = schema["$defs"]["RunRecord"]
        record["required"].remove("topk")
        record["anyOf"] = [{"required": ["topk"]}, {"required": ["steps"]}]
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
