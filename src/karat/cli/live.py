"""Retrievers that a command runs itself: what to say of a run, and `karat compare --live`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from karat.cli.options import Count, all_of
from karat.cli.say import say
from karat.cli.trust import listed_retrievers, require_trusted, trust_option
from karat.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.systems.run import Finished

max_errors_option: Final = click.option(
    "--max-errors",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="Exit with code 2 if a larger share of the queries failed, earlier attempts included.",
)
_ONLY_LIVE = (
    *("queries", "keep", "overwrite", "retry_failed", "list_depth", "workers", "timeout", "warm_up", "max_errors"),
)
_PASSED = ("keep", "overwrite", "retry_failed", "workers", "timeout", "warm_up")
live_options: Final = all_of(
    click.option("--live", is_flag=True, help="RUNS are retrievers, as in `karat run`: ask them now, side by side."),
    click.option("--queries", "-q", help="With --live: gold set, or file of queries.  [default: --gold]"),
    click.option("--keep", metavar="FOLDER", help="With --live: save the run logs here, or continue those there."),
    click.option("--overwrite", is_flag=True, help="With --keep: start again instead of continuing."),
    click.option("--retry-failed", is_flag=True, help="With --keep: ask the queries again that failed earlier."),
    click.option("--list-depth", type=Count(1), default=50, show_default=True, help="With --live: hits per query."),
    click.option("--workers", type=Count(1), default=1, show_default=True, help="With --live: concurrent queries."),
    click.option("--timeout", type=float, default=30.0, show_default=True, metavar="S", help="With --live: per query."),
    click.option("--warm-up", type=Count(0), default=3, show_default=True, help="With --live: untimed queries."),
    max_errors_option,
    trust_option,
)


class Live(NamedTuple):
    """What was asked: the runs (files, or records if they are not kept), and the gold set if there is one."""

    runs: list[Any]
    gold: str | None


def take_live(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of --live from those of a command, and return them. Without --live they have no effect."""
    taken = {name: options.pop(name) for name in ("live", *_ONLY_LIVE)}
    context = click.get_current_context()
    given = (
        name for name in _ONLY_LIVE if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    )
    useless = next(given, None)
    if useless is not None and not taken["live"]:
        option = "--" + useless.replace("_", "-")
        raise ConfigError(
            f"{option} needs --live", code="only-with-live", hint="karat compare --live A B --queries GOLD"
        )
    return taken


def ask_live(specs: Sequence[str], gold: str | None, live: Mapping[str, Any], options: Mapping[str, Any]) -> Live:
    """Ask the retrievers, and say how it went."""
    from pathlib import Path

    from karat.cli.scoring import mapped_fields, read_chunks
    from karat.files.progress import counting, working
    from karat.formats.questions import is_bare, read_questions
    from karat.systems.side_by_side import run_side_by_side

    asked = live["queries"] or gold
    if asked is None:
        raise ConfigError("the queries are missing", code="no-queries", hint="add --queries GOLD")
    listed = listed_retrievers()
    require_trusted({name: listed[name] for name in specs if name in listed})
    how = {name: options[name] for name in ("target", "split") if options.get(name) is not None}
    if options.get("gold_format") is not None:
        how["format"] = options["gold_format"]
    with working("reading"):
        fields = mapped_fields(options.get("columns"))
        questions = read_questions(asked, columns=fields, **how)
        has_no_gold = gold is None and not Path(asked).is_dir() and is_bare(asked, columns=fields, **how)
        corpus = options.get("corpus")
        searched = None if corpus is None else read_chunks(corpus, None, None, fields)
    try:
        found = run_side_by_side(
            [listed.get(spec, spec) for spec in specs],
            questions,
            systems=[spec if spec in listed else None for spec in specs],
            corpus=searched,
            k=live["list_depth"],
            progress=counting,
            **{name: live[name] for name in _PASSED},
        )
    except KeyboardInterrupt:
        again = "; run the same command without --overwrite to continue" if live["keep"] else ""
        say(f"stopped{again}", err=True)
        raise
    for done in found:
        tell(done, done.run if live["keep"] else None)
    for done in found:
        refuse_failures(done, done.run if live["keep"] else None, live["max_errors"])
    return Live([done.run for done in found], None if has_no_gold else gold or asked)


def tell(done: Finished, output: str | None) -> None:
    """Say what a run found strange, and where it is."""
    from karat.results.numbers import counted

    named = "" if output else f"{done.system}: "
    for note in done.notes:
        say(f"note: {named}{note}", err=True)
    before = f", {done.queries - done.asked:,} already done" if done.asked < done.queries else ""
    what = f"wrote {output}" if output else f"asked {done.system}"
    say(f"{what}: {counted(done.asked)} in {done.seconds:.1f} s{before}", err=True)


def refuse_failures(done: Finished, output: str | None, most: float) -> None:
    """Raise ConfigError if too many queries failed: an outage must not be scored as if nothing was found."""
    if done.failed_share > most:
        failed = done.failed + done.failed_before
        raise ConfigError(
            f"{failed:,} of {done.queries:,} queries failed: {done.first_error}",
            code="too-many-errors",
            file=output,
            hint="fix the cause, then run the same command with --retry-failed" if output else "fix the cause",
        )
