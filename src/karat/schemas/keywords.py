"""The lists of options as keywords: what editors complete and type checkers check in `evaluate(run, gold, k=…)`."""

from __future__ import annotations

import re
from pathlib import Path

from karat.labels.options import JudgeOptions
from karat.llm.options import ModelOptions
from karat.options.option import MISSING, options_in
from karat.scoring.options import Options
from karat.systems.synthesize.options import SynthesisOptions

FILE = Path(__file__).parents[1] / "options" / "keywords.py"
_OTHERWISE = {"k", "corpus"}  # what means something else in a ladder
_MODEL = set(options_in(ModelOptions))
# Who takes them → the list, what it is built on, and its names.
_KEYWORDS: dict[str, tuple[type, str, set[str]]] = {
    "ladder": (Options, "TypedDict, total=False", set(options_in(Options)) - _OTHERWISE),
    "evaluate": (Options, "LadderKeywords, total=False", _OTHERWISE),
    "model": (ModelOptions, "TypedDict, total=False", _MODEL),
    "judge": (JudgeOptions, "ModelKeywords, total=False", set(options_in(JudgeOptions)) - _MODEL),
    "synthesis": (SynthesisOptions, "ModelKeywords, total=False", set(options_in(SynthesisOptions)) - _MODEL),
}
_MODULES = {
    "Callable": "collections.abc",
    "Iterable": "collections.abc",
    "Mapping": "collections.abc",
    "PathLike": "os",
    "TYPE_CHECKING": "typing",
    "Any": "typing",
    "Literal": "typing",
    "Required": "typing",
    "TypedDict": "typing",
    "Method": "karat.statistics.sampling",
    "Sampling": "karat.statistics.sampling",
}
_HEAD = '''"""Options as keywords, for editors and type checkers. Written by `make docs` from the lists of options."""

from __future__ import annotations
'''


def generate_keywords() -> str:
    """The text of `options/keywords.py`; a test holds the file to it."""
    classes = [_keywords(name, *what) for name, what in _KEYWORDS.items()]
    words = ["TYPE_CHECKING", *(word for text in classes for word in re.findall(r"[A-Z]\w+", text))]
    used = {word: _MODULES[word] for word in words if word in _MODULES}
    modules = sorted(set(used.values()))
    imports = {m: f"from {m} import {', '.join(w for w in _MODULES if used.get(w) == m)}\n" for m in modules}
    own = [f"    {line}" for module, line in imports.items() if module.startswith("karat")]
    others = [line for module, line in imports.items() if not module.startswith("karat")]
    return f"{_HEAD}\n{''.join(others)}\nif TYPE_CHECKING:\n{''.join(own)}{''.join(classes)}"


def _keywords(name: str, kind: type, base: str, names: set[str]) -> str:
    lines = [f"\n\nclass {name.title()}Keywords({base}):", f'    """Those of `{name}`."""', ""]
    for each in options_in(kind).values():
        if each.name in names:
            said = each.written_type.replace("'", '"')
            lines.append(f"    {each.name}: " + (f"Required[{said}]" if each.default is MISSING else said))
    return "\n".join(lines) + "\n"
