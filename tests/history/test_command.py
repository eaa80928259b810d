"""`karat history`, and runs of the history wherever a saved result is taken."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import run_here

import karat
from karat.files.git import code_author
from karat.history.keep import kept_sections
from karat.history.location import open_store
from karat.history.store import Store
from karat.results.kept_run import KeptRun
from karat.results.save import saved_form
from karat.results.saved import read_result

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., karat.KaratError]
HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
GOLD, OLD, NEW = (str(HELPDESK / name) for name in ("gold.jsonl", "bm25.jsonl", "bm25_rerank.jsonl"))


def repository(folder: Path) -> None:
    """On a branch, with a commit."""
    for command in ("init -q -b topic", "-c user.name=n -c user.email=e commit -q --allow-empty -m first"):
        subprocess.run(["git", *command.split()], check=True, cwd=folder)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    repository(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two runs, the older tagged first and pinned as main."""
    folder = tmp_path_factory.mktemp("filled")
    repository(folder)
    for run, tag in ((OLD, "first"), (NEW, "second")):
        done = run_here("eval", run, "--gold", GOLD, "--save", "--tag", tag, cwd=folder)
        assert done.returncode == 0, done.stderr
        with open_store(str(folder / ".karat")) as store:
            assert re.search(rf"{store.find('latest')[:10]} .*{re.escape(str(folder / '.karat'))}", done.stderr)
    with open_store(str(folder / ".karat")) as store:
        store.pin(store.find("first"), "main", "baseline")
    return folder


@pytest.fixture
def kept(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The same, for one test to change."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with open_store() as store:
        yield store


def test_what_is_saved_is_what_was_measured(kept: Store) -> None:
    result = karat.evaluate(NEW, GOLD)
    saved = kept.kept(kept.find("second")).saved()
    wanted = saved_form(result)
    assert (saved.scores, saved.summary, saved.queries) == (wanted.scores, wanted.summary, wanted.queries)
    row = kept.row(kept.find("second"))
    assert row.head.branch == "topic"
    assert len(row.head.code_version or "") == 12
    assert row.head.cases == 100
    assert row.measures["recall@5"].mean == result.means["recall@5"]
    assert "pt-BR" in kept.segments(row.id)["language"]


def test_first_ranks_are_those_of_the_first_relevant_hit(kept: Store) -> None:
    rows = kept.kept(kept.find("second")).rows
    ranks, mrr = rows["first_rank"].to_list(), rows["score/mrr"].to_list()
    known = [(rank, value) for rank, value in zip(ranks, mrr, strict=True) if value is not None]
    assert len(known) == 259
    assert [0.0 if rank is None else 1 / rank for rank, _ in known] == pytest.approx([value for _, value in known])


def test_saving_again_says_so(kept: Store, karat_command: Command) -> None:
    code, _, err = karat_command("eval", NEW, "--gold", GOLD, "--save")
    assert (code, kept.find("second")[:10] in err) == (0, True)
    assert kept.count() == 2


def test_the_list(kept: Store, karat_command: Command, karat_refuses: Refuses) -> None:
    code, out, _ = karat_command("history", "list")
    assert code == 0
    assert "bm25 + static" in out
    assert "baseline main" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100
    code, out, _ = karat_command("history", "list", "--tag", "first", "--json")
    [row] = json.loads(out)["rows"]
    assert (row["head"]["system"], row["pins"][0]["name"]) == ("bm25", "main")
    assert json.loads(karat_command("history", "list", "--until", "2001-01-01", "--json")[1])["rows"] == []
    error = karat_refuses("history", "list", "--since", "some day")
    assert (error.code, error.field, error.got) == ("bad-value", "--since", "some day")


def test_show_makes_the_report_again(kept: Store, tmp_path: Path, karat_command: Command) -> None:
    code, out, _ = karat_command("history", "show", "second", "-o", "report.html", "-o", "result.json")
    assert code == 0
    now = karat_command("eval", NEW, "--gold", GOLD)[1]
    scores = [line for line in now.splitlines() if re.match(r"(recall|ndcg|precision)@\d", line)]
    assert scores
    assert set(scores) <= set(out.splitlines())
    page = (tmp_path / "report.html").read_text()
    assert 'id="over-k"' in page
    assert 'id="triage"' in page
    assert read_result(tmp_path / "result.json").scores == kept.kept(kept.find("second")).saved().scores


def test_a_report_that_another_version_wrote_is_made_anew(kept: Store) -> None:
    import msgspec

    run = kept.kept(kept.find("second"))
    changes = {"sections": [{"blocks": "in another shape"}], "sweep": {"curves": 3}, "triage": {"cases": 4}}
    kept.save(KeptRun.of(msgspec.structs.replace(run.document, **changes), run.rows), tags=["other"])
    names = [section.name for section in kept_sections(kept, kept.find("other"))]
    assert sorted(names) == sorted(section.name for section in kept_sections(kept, kept.find("second")))


def test_compare_gate_and_power_start_from_the_history(kept: Store, karat_command: Command) -> None:
    code, out, _ = karat_command("compare", "main", "history:second", "--json")
    direct = karat.compare(OLD, NEW, GOLD)
    [pair] = json.loads(out)["pairs"]
    assert code == 0
    assert [d["delta"] for d in pair["differences"]] == [d.delta for d in direct.pairs[0].differences]
    gates = ("--gate", "recall@5 drop <= 0.02")
    code, out, _ = karat_command("gate", NEW, "--gold", GOLD, "--baseline", "main", *gates)
    assert (code, bool(re.search(r"33\.2%.*36\.8%", out))) == (0, True)
    code, out, _ = karat_command("gate", "history:second", "--baseline", "history:first", *gates)
    assert (code, bool(re.search(r"33\.2%.*36\.8%", out))) == (0, True)
    assert karat_command("eval", "power", "history:second", "-m", "recall@5")[0] == 0
    assert karat.compare("history:first", "history:second").pairs[0].queries == 287


def test_an_anchor_of_the_history(kept: Store, tmp_path: Path, karat_command: Command, karat_refuses: Refuses) -> None:
    assert karat_command("history", "pin", "second", "release", "--kind", "anchor")[0] == 0
    gates = ("--gate", "recall@5 drop <= 0.02")
    code, out, _ = karat_command("gate", OLD, "--gold", GOLD, "--baseline", "main", "--anchor", "release", *gates)
    assert code == 1
    assert "history:release" in " ".join(out.split())
    (tmp_path / "c.yaml").write_text("anchor: history:release\ngates: [{metric: recall@5, regression_max: 0.02}]\n")
    code, out, _ = karat_command("gate", OLD, "--gold", GOLD, "--criteria", "c.yaml")
    assert (code, "history:release" in out) == (1, True)
    error = karat_refuses("gate", OLD, "--gold", GOLD, "--anchor", "relase", *gates)
    assert (error.code, error.file) == ("no-such-file", "relase")
    error = karat_refuses("gate", OLD, "--gold", GOLD, "--anchor", "history:relase", *gates)
    assert error.code == "unknown-run"
    assert " release" in str(error.hint)


def test_gate_saves_the_panel_and_its_verdict(kept: Store, karat_command: Command) -> None:
    gates = ("--gate", "recall@5 >= 0.9", "--gate", "ndcg@7 >= 0.1")
    code, _, err = karat_command("gate", NEW, "--gold", GOLD, "--save", *gates)
    row = kept.row(kept.find("latest"))
    assert (code, row.id[:10] in err) == (1, True)
    assert row.outcome == "fail"
    assert {"recall@5", "ndcg@7", "mrr", "latency_p90"} <= set(row.measures)
    [judged] = kept.judgements(row.id)
    assert [v["outcome"] for v in json.loads(judged.document)["verdicts"]] == ["fail", "pass"]
    karat_command("gate", NEW, "--gold", GOLD, "--save", "--gate", "recall@5 >= 0.1")
    assert kept.row(kept.find("second")).outcome == "pass"  # nothing new was measured: it is the run that was there


def test_other_options_make_another_run(here: Path, karat_command: Command) -> None:
    """As docs/history.md says."""
    lines = [Path(name).read_text().splitlines(keepends=True)[::12] for name in (GOLD, OLD)]
    for name, some in zip(("gold.jsonl", "run.jsonl"), lines, strict=True):
        (here / name).write_text("".join(some))
    options = ("run.jsonl", "--gold", "gold.jsonl", "--resamples", "200", "--save")
    corpus, gate = ("--corpus", str(HELPDESK / "corpus.jsonl")), ("--gate", "recall@5 >= 0.0")
    assert karat_command("eval", *options, *corpus)[0] == 0
    assert karat_command("gate", *options, *corpus, *gate)[0] == 0
    assert open_store().count() == 1
    assert karat_command("gate", *options, *gate)[0] == 0
    assert open_store().count() == 2


def test_the_configuration_may_ask_for_it(here: Path, karat_command: Command) -> None:
    (here / "karat.yaml").write_text("save: true\nstore: deep/history\n")
    assert karat_command("eval", OLD, "--gold", GOLD)[0] == 0
    assert (here / "deep" / "history" / "history.db").is_file()
    assert karat_command("eval", NEW, "--gold", GOLD, "--no-save")[0] == 0
    assert open_store().count() == 1


def test_a_history_further_up_is_found(kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert open_store().count() == 2


def test_the_branch_of_a_ci_server(here: Path, karat_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_REF_NAME", "12/merge")
    monkeypatch.setenv("GITHUB_HEAD_REF", "feature")
    karat_command("eval", OLD, "--gold", GOLD, "--save", "-m", "mrr")
    assert open_store().runs().rows[0].head.branch == "feature"


def test_the_author_of_a_run(
    here: Path, made_run: Callable[..., KeptRun], karat_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables come first, then the user of git, then the author of the commit."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    assert code_author() == "n"
    subprocess.run(["git", "config", "user.name", "Zoë Q"], check=True, cwd=here)
    assert code_author() == "Zoë Q"
    monkeypatch.setenv("GITHUB_ACTOR", "octo")
    assert code_author() == "octo"
    monkeypatch.setenv("KARAT_AUTHOR", "ada")
    assert karat_command("eval", OLD, "--gold", GOLD, "--resamples", "100", "--save")[0] == 0
    with open_store() as store:
        store.save(made_run(1), author="grace")
    code, out, _ = karat_command("history", "list", "--author", "ada", "--json")
    assert (code, [row["head"]["author"] for row in json.loads(out)["rows"]]) == (0, ["ada"])


def test_trends(kept: Store, karat_command: Command) -> None:
    code, out, _ = karat_command("history", "trend", "recall@5", "--json")
    assert (code, [p["system"] for p in json.loads(out)]) == (0, ["bm25", "bm25 + static rerank"])
    code, out, _ = karat_command("history", "trend", "recall@5", "--where", "language=pt-BR")
    assert (code, "0.400 [0.35, 0.46]" in out) == (0, True)
    assert json.loads(karat_command("history", "trend", "bpref", "--json")[1]) == []
    assert karat_command("history", "trend", "recall@5", "--where", "language")[0] == 2
    assert karat_command("history", "trend", "recal@5")[0] == 2


def test_pins_tags_and_delete(kept: Store, karat_command: Command, karat_refuses: Refuses) -> None:
    assert "baseline" in karat_command("history", "pins")[1]
    code, out, _ = karat_command("history", "pin", "second", "main")
    assert (code, kept.find("first")[:10] in out) == (0, True)  # what it was before
    error = karat_refuses("history", "delete", "second")
    assert error.code == "pinned-run"
    assert "karat history unpin main" in str(error.hint)
    assert karat_command("history", "unpin", "main")[0] == 0
    assert karat_command("history", "tag", "second", "v1", "v2")[0] == 0
    assert karat_command("history", "untag", "v1", "v2")[0] == 0
    assert kept.row(kept.find("v1")).tags == ["second", "v1"]
    assert karat_command("history", "delete", "v1")[0] == 0
    assert kept.count() == 1
    assert karat_refuses("history", "show", "v1").code == "unknown-run"
    assert karat_command("history", "pin", "first")[0] == 2


def test_order(kept: Store, karat_command: Command, karat_refuses: Refuses) -> None:
    run = kept.find("second")
    assert karat_command("history", "rename", "second", "First try")[0] == 0
    assert karat_command("history", "note", "second", "one\ntwo")[0] == 0
    row = json.loads(karat_command("history", "list", "--tag", "second", "--json")[1])["rows"][0]
    assert (row["title"], row["note"]) == ("First try", "one\ntwo")
    assert "First try" in karat_command("history", "list")[1]
    out = karat_command("history", "show", "second")[1]
    assert "First try" in out
    code, out, _ = karat_command("history", "delete", "second")
    assert (code, f"karat history restore {run[:10]}" in out) == (0, True)
    assert karat_refuses("history", "show", run[:10]).code == "unknown-run"
    assert karat_refuses("history", "restore", "abcdef").code == "unknown-run"
    assert run[:10] in karat_command("history", "deleted")[1]
    assert [one["run"]["id"] for one in json.loads(karat_command("history", "deleted", "--json")[1])] == [run]
    assert karat_command("history", "restore", run[:8])[0] == 0
    assert kept.row(run).title == "First try"
    found = json.loads(karat_command("history", "audit", "--run", run[:8], "--json")[1])["entries"]
    assert [one["action"] for one in found] == ["restore", "delete", "note", "rename"]
    assert {one["who"].partition(":")[0] for one in found} == {"cli"}
    assert "rename" in karat_command("history", "audit")[1]
    assert "rename" not in karat_command("history", "audit", "--action", "delete")[1]
    assert f"--after {json.loads(karat_command('history', 'audit', '-n', '1', '--json')[1])['after']}" in " ".join(
        karat_command("history", "audit", "-n", "1")[1].split()
    )


def test_retention(kept: Store, karat_command: Command) -> None:
    for tag in ("first", "second"):
        kept.untag(kept.find(tag), [tag])
    rule = ("--days", "7", "--keep-last", "2")
    assert "all runs" in karat_command("history", "retention")[1]
    out = karat_command("history", "retention", *rule, "--dry-run")[1]
    assert "would delete 0 of 2 runs" in out
    assert "all runs" in karat_command("history", "retention")[1]
    kept.write(lambda c: c.execute("UPDATE runs SET saved_at = '2020-01-01T00:00:00.000000Z'"))
    assert "deletes 1 of 2 runs" in karat_command("history", "retention", "--days", "7")[1], "the other is pinned"
    assert json.loads(karat_command("history", "retention", "--json")[1])["rule"] == {"keep_last": None, "days": 7}
    assert kept.count() == 2
    assert "deleted 1 run by the rule" in karat_command("history", "clean")[1]
    assert json.loads(karat_command("history", "clean", "--json")[1]) == {
        **dict.fromkeys(("deleted", "removed", "texts", "leftovers"), 0)
    }
    assert kept.count() == 1
    assert "saved: keep all runs" in karat_command("history", "retention", "--keep-all")[1]
    assert karat_command("history", "retention", "--keep-all", "--days", "3")[0] == 2
    assert karat_command("history", "retention", "--days", "0")[0] == 2


def test_export_import_and_check(kept: Store, tmp_path: Path, karat_command: Command) -> None:
    code, _, err = karat_command("history", "export", "--all", "-o", "runs.zip")
    assert (code, "2 runs" in err) == (0, True)
    assert re.findall(r"\d+", karat_command("history", "import", "runs.zip", "--store", "other")[1]) == ["2", "2"]
    code, out, _ = karat_command("history", "check", "--store", "other")
    assert (code, re.findall(r"\d+", out)) == (0, ["2", "0"])  # runs, broken
    assert karat_command("history", "export", "-o", "runs.zip")[0] == 2
    assert open_store("other").ids() == kept.ids()


def test_a_run_of_the_history_is_no_run_to_score(kept: Store, karat_refuses: Refuses) -> None:
    assert karat_refuses("eval", "history:second", "--gold", GOLD).code == "no-hits-kept"


def test_a_saved_result_can_be_kept_too(here: Path, karat_command: Command) -> None:
    karat_command("eval", OLD, "--gold", GOLD, "-o", "result.json")
    assert karat_command("gate", "result.json", "--gate", "recall@5 >= 0.1", "--save")[0] == 0
    row = open_store().runs().rows[0]
    assert (row.head.system, row.outcome, row.head.cases) == ("bm25", "pass", 0)


def test_systems_without_a_name_are_called_by_their_files(here: Path, karat_command: Command) -> None:
    (here / "gold.json").write_text('{"q1": ["a"], "q2": ["b"]}')
    for name, hits in (("old", ["c", "b"]), ("new", ["b"])):
        lines = [{"query_id": "q1", "topk": ["a"]}, {"query_id": "q2", "topk": hits}]
        (here / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert karat_command("eval", f"{name}.jsonl", "-g", "gold.json", "--save", "--tag", name)[0] == 0
    points = json.loads(karat_command("history", "trend", "mrr", "--json")[1])
    assert [point["system"] for point in points] == ["old.jsonl", "new.jsonl"]
    compared = json.loads(karat_command("compare", "history:old", "history:new", "--json")[1])
    assert (compared["baseline"], compared["pairs"][0]["candidate"]) == ("old.jsonl", "new.jsonl")


def test_an_unknown_run_lists_pins_and_tags(kept: Store, karat_refuses: Refuses) -> None:
    hint = karat_refuses("history", "show", "zzzz").hint or ""
    assert {"main", "first", "second"} <= set(re.findall(r"\w+", hint))
