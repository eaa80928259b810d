"""Help pages: options in groups. --help shows the common ones, --help-all shows all. Also what shells complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from karat.cli.say import be_quiet, say_rendered

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FIRST_PAGE = 15  # options on the page of --help
_ALL = "karat.help_all"

# Group → the names of its options. Options in no group come first.
GROUPS: dict[str, tuple[str, ...]] = {
    "What to score": (
        *("gold", "queries", "corpus", "metrics", "k", "segments", "criteria", "gates", "baseline", "by_document"),
        *("corpus_size", "bm25", "raw", "original", "routes", "quality", "prices", "depth", "reference"),
    ),
    "How to score": (
        *(
            "like",
            "missing",
            "min_score",
            "top_k",
            "no_future",
            "forbid",
            "scores",
            "ties",
            "score_width",
            "no_relevant",
            "doc_of",
        ),
        *("normalize_ids", "no_answer", "fuzzy_threshold", "rerank_depth", "target_false_evidence", "context"),
    ),
    "Extra labels": (*("labels", "gold_labels", "calibration", "bounds", "pool", "borrow", "max_grade", "gold_scale"),),
    "Statistics": ("level", "method", "resamples", "seed", "cluster"),
    "Output": ("outputs", "as_json", "brief", "explain", "quiet", "save", "tags", "places", "send_on", "trusted"),
    "Desk": ("desk_folder", "retrievers"),
    "Alerts": ("alerts", "kinds", "branches", "public_url"),
    "Access": (
        "token_file",
        "metrics_token_file",
        "users",
        "names",
        "user_header",
        "proxies",
        "proxy_role",
        "path_prefix",
    ),
    "Reading files": (
        *("columns", "system", "run_format", "gold_format", "target", "split", "hits", "query_from"),
        *("engine", "spark_master"),
    ),
}
# The common options of commands with many, the most important first.
_USUAL = (
    *(
        "live",
        "gold",
        "metrics",
        "criteria",
        "gates",
        "baseline",
        "corpus",
        "outputs",
        "as_json",
        "segments",
        "k",
        "brief",
    ),
    *("save", "labels", "queries", "model", "columns", "system", "changes", "explain", "like", "quiet", "level"),
    *("demo", "host", "port", "users", "token_file", "names", "pools", "store", "output"),
)


# Options of version 0.1 → what to type now, by the end of the command's path.
RENAMED = {
    ("calibrate", "--judge"): "--labels",
    ("calibrate", "--k"): "--depth",
    ("pool", "--labels"): "--labelled",
    ("pool", "--k"): "--depth",
    ("serve", "--judge"): "--labels",
    ("stress", "--queries"): "--sample",
    ("baseline", "--baseline"): "--retriever",
    ("baseline", "-b"): "--retriever",
    ("baseline", "-k"): "--depth",
    ("run", "-k"): "--depth",
    ("comment", "--host"): "--service",
    ("trend", "--segment"): "--where",
    ("pin", "--baseline"): "RUN NAME",
    ("pin", "--anchor"): "RUN NAME --kind anchor",
    **{(name, "--chunk-tokens"): "--chunk-words" for name in ("run", "baseline", "synthesize")},
}


class _TextOrFile(click.ParamType):  # type: ignore[type-arg]
    """A text that shells complete as the name of a file, as most are."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        below = below_starting(ctx, incomplete) if isinstance(param, click.Argument) else []
        if not below:
            return [CompletionItem(incomplete, type="file")]
        # Beside other words, bash completes no files by itself.
        files = (entry.name + "/" * entry.is_dir() for entry in os.scandir() if entry.name.startswith(incomplete))
        shown = sorted(name for name in files if incomplete or not name.startswith("."))
        return [*below, *map(CompletionItem, shown)]


def below_starting(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The sub-commands that may come next: only as the first word after the command."""
    from click.shell_completion import CompletionItem

    command, given = ctx.command, click.core.ParameterSource.COMMANDLINE
    if not isinstance(command, KaratCommand) or any(ctx.get_parameter_source(name) is given for name in ctx.params):
        return []
    return [CompletionItem(name, help=about) for name, about in command.below().items() if name.startswith(incomplete)]


def _nothing_below() -> dict[str, str]:
    return {}


class KaratCommand(click.Command):
    """A command of Karat. `below`: the names of its sub-commands, with one line each."""

    below: Callable[[], dict[str, str]] = staticmethod(_nothing_below)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for each in self.params:
            if each.type is click.STRING:
                each.type = _TextOrFile()
        quiet = click.Option(
            ["--quiet"],
            is_flag=True,
            expose_value=False,
            callback=lambda context, option, asked: be_quiet() if asked else None,
            help="Print only results and errors.",
        )
        self.params.append(quiet)
        if len(self._shown()) > FIRST_PAGE:
            self.params.append(_help_all_option("Show all options."))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*below_starting(ctx, incomplete), *super().shell_complete(ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            new = RENAMED.get((ctx.command_path.split()[-1], error.option_name))
            if new is None:
                raise
            raise click.UsageError(f"{error.option_name} is now {new}", ctx) from None

    def _shown(self) -> list[click.Option]:
        return [each for each in self.params if isinstance(each, click.Option) and not each.hidden]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = self._shown()
        if len(shown) > FIRST_PAGE and not help_all_asked(ctx):
            usual = [name for name in _USUAL if any(each.name == name for each in shown)][: FIRST_PAGE - 1]
            left = len(shown) - 1 - len(usual)  # --help-all itself is not counted
            shown = [each for each in shown if each.name in usual]
        else:
            left, shown = 0, [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        if below := self.below():
            with formatter.section("Sub-commands"):
                formatter.write_dl([*below.items()])
        for title, options in _grouped(shown):
            records = [record for each in options if (record := each.get_help_record(ctx)) is not None]
            with formatter.section(title):
                formatter.write_dl(records)
        if left:
            formatter.write_paragraph()
            formatter.write_text(f"`{ctx.command_path} --help-all` shows {left} more options.")


class KaratGroup(click.Group):
    """A command that only has sub-commands. --help-all shows each of them with all its options."""

    command_class: type[click.Command] | None = KaratCommand
    help_all: str = "Show every sub-command with all its options."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_help_all_option(self.help_all))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        for name in self.list_commands(ctx) if help_all_asked(ctx) else ():
            command = self.get_command(ctx, name)
            assert command is not None
            below = click.Context(command, info_name=name, parent=ctx)
            formatter.write("\n\n")
            command.format_usage(below, formatter)
            formatter.write_paragraph()
            formatter.write_text(command.get_short_help_str(200))
            command.format_options(below, formatter)


def _help_all_option(about: str) -> click.Option:
    shape: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False}
    return click.Option(["--help-all"], callback=_help_all, help=about, **shape)


def help_all_asked(context: click.Context) -> bool:
    return bool(context.meta.get(_ALL))


def _help_all(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.meta[_ALL] = True
        say_rendered(f"{context.get_help()}\n")
        context.exit()


def _grouped(options: Iterable[click.Option]) -> Iterator[tuple[str, list[click.Option]]]:
    """Yield the groups that have options; up to eight options make one group."""
    left = list(options)
    if len(left) > 8:
        parts = {
            title: [each for name in names for each in left if each.name == name] for title, names in GROUPS.items()
        }
    else:
        parts = {}
    grouped = {id(each) for part in parts.values() for each in part}
    if others := [each for each in left if id(each) not in grouped]:
        yield "Options", others
    yield from ((title, part) for title, part in parts.items() if part)
