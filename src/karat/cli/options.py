"""Options of commands: those from option lists (`karat.options`), and others that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_origin

import click

from karat.cli.help import KaratCommand
from karat.cli.trust import trust_option
from karat.errors import ConfigError, KaratError
from karat.labels.options import LabelOptions
from karat.options.option import MISSING, Option, options_in
from karat.scoring.options import Options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1_000_000_000


class NeedsGold(KaratCommand):
    """A command with a required --gold. If it is missing, the error shows the command to type."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if error.param is None or error.param.name != "gold":
                raise
            raise click.UsageError(
                f"the gold set is missing\nhint: {with_gold(ctx.command_path, given)}", ctx
            ) from None


def with_gold(command: str, given: Sequence[str]) -> str:
    """The command to type if the gold set is missing. Of a saved result, the run and gold set that it was made from."""
    import shlex

    from karat.results.references import is_saved
    from karat.results.saved import read_saved

    run, gold = given if len(given) == 2 else (given[0], "GOLD")
    if is_saved(run):
        try:
            saved = read_saved(run)[0]
        except KaratError:
            saved = None
        run, gold = ("RUN", "GOLD") if saved is None else (saved.run, saved.gold)
        run, gold = run if os.path.exists(run) else "RUN", gold if os.path.exists(gold) else "GOLD"
    return shlex.join([*command.split(), run, "--gold", gold])


def all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine several decorators into one; help shows the options in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class Count(click.IntRange):
    """A whole number of at least `least` and at most a billion."""

    def __init__(self, least: int) -> None:
        super().__init__(min=least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number > _MOST:
            self.fail(f"{value} is too large: at most {_MOST:,}.", param, ctx)
        return number


class _Percentage(click.ParamType):  # type: ignore[type-arg]
    """A number that may be written in percent: 0.03, 3% and 3pp are the same."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip().lower()
        number = text.removesuffix("%").removesuffix("pp").rstrip()
        try:
            return float(number) / (1 if number == text else 100)
        except ValueError:
            self.fail(f"{value!r} is not a number; write 0.03 or 3%.", param, ctx)


PERCENTAGE: Final[click.ParamType[Any]] = _Percentage()


class _Limited:
    """A number with limits, checked by the option list, so that errors are the same as in Python."""

    parse: click.ParamType[Any]

    def __init__(self, option: Option) -> None:
        low, high = option.ge if option.gt is None else option.gt, option.le if option.lt is None else option.lt
        super().__init__(low, high, option.gt is not None, option.lt is not None)  # type: ignore[call-arg]
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = self.parse.convert(value, param, ctx)
        try:
            self._option.check(number)
        except ConfigError as error:
            error.field = param.opts[0] if param else None
            raise
        return number


class _Whole(_Limited, click.IntRange):
    parse = click.INT


class _Number(_Limited, click.FloatRange):
    parse = click.FLOAT


class ListedOption(click.Option):
    """An option from an option list."""


def options_of(kind: type, *names: str, **changes: Any) -> Callable[[F], F]:
    """Add the named options of a list. `changes` overrides how a command declares them."""

    def add(command: F) -> F:  # declared only by commands that are loaded
        known = options_in(kind)
        return all_of(*(_declared(known[name], **changes) for name in names))(command)

    return add


def _declared(option: Option, **changes: Any) -> Callable[[F], F]:
    flags = option.typed
    about, kind = option.about, option.plain_type
    if option.name == "columns":
        about += " Repeat for other files."
    if option.repeats:
        about = f"{about.removesuffix('.')}; repeat for more."
    elif option.instead:
        about += f"  [default: {option.instead}]"
    said: dict[str, Any] = {"help": about, "metavar": option.metavar}
    if kind is bool:
        said["is_flag"] = True
        if option.instead:  # karat.yaml may switch it on
            flags = [f"{flag}/{flag.replace('--', '--no-', 1)}" for flag in flags]
    elif option.repeats:
        said |= {"multiple": True, "callback": _named_runs if get_origin(kind) is Mapping else None}
    else:
        given = option.default is not MISSING and option.default is not None and not option.instead
        said |= {"type": _type(option), "default": option.default if given else None, "show_default": given}
    if option.name == "columns":  # one map per file may be given
        said |= {"multiple": True, "callback": _joined_maps, "default": None, "show_default": False}
    if "default" in changes:
        changes["show_default"] = True
    return click.option(*flags, option.name, cls=ListedOption, **{**said, **changes})


def _type(option: Option) -> Any:
    if option.choices:
        return _choice(option.choices)
    if option.plain_type not in (int, float):
        return str  # of the types that it accepts, a command line can only give text
    if option.limits == [None] * 4:
        return option.plain_type
    return _Whole(option) if option.plain_type is int else _Number(option)


def _choice(choices: tuple[Any, ...]) -> click.ParamType[Any]:
    """A choice of texts or numbers."""
    if isinstance(choices[0], str):
        return click.Choice(choices)
    return _Numbers([str(choice) for choice in choices])


class _Numbers(click.Choice):  # type: ignore[type-arg]
    """A choice of whole numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return int(super().convert(str(value), param, ctx))


def _joined_maps(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> str | None:
    return ",".join(given) or None


def _named_runs(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, run in pairs:
        if not (name and equals and run):
            raise click.BadParameter(f"{name + equals + run!r} is not of the form NAME=RUN", ctx, option)
    return {name: run for name, _, run in pairs}


def named_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options given on the command line; the others keep the defaults of their lists."""
    source = click.get_current_context().get_parameter_source
    return {name: value for name, value in options.items() if source(name) is click.core.ParameterSource.COMMANDLINE}


def input_files(options: Mapping[str, Any], *kinds: type) -> list[str]:
    """Return the input files among the options; no output may overwrite them."""
    found: list[str] = []
    for option in (option for kind in kinds or (Options, LabelOptions) for option in options_in(kind).values()):
        value = options.get(option.name)
        if option.is_input and value:
            found += [value] if isinstance(value, str) else value.values() if isinstance(value, Mapping) else value
    return found


class _MetricName(click.ParamType):  # type: ignore[type-arg]
    """One or more metrics, separated by commas, with shell completion."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from karat.scoring.metrics.reference import describe_all

        before, comma, last = incomplete.rpartition(",")
        names = [each.written.replace("@k", "@5") for each in describe_all()]
        return [CompletionItem(before + comma + name) for name in names if name.startswith(last)]


metric_option: Final = click.option(
    "--metric",
    "-m",
    "metrics",
    type=_MetricName(),
    multiple=True,
    help="Metric, such as recall@5; repeat or separate with commas. `karat metrics` lists them.",
)

gold_option: Final = click.option(
    "--gold",
    "-g",
    required=True,
    help="Gold set: a file in any format, a BEIR folder, or run:FILE (the first hits of a run).",
)
run_and_gold: Final = all_of(click.argument("run"), gold_option)

READING = ("columns", "run_format", "gold_format", "target", "split", "system", "hits", "query_from")
query_options: Final = options_of(Options, "columns", "gold_format", "target", "split")
reading_options: Final = options_of(Options, *READING)
ranking_options: Final = options_of(
    Options,
    *("k", "missing", "min_score", "scores", "ties", "score_width", "no_relevant", "doc_of", "normalize_ids"),
    *("no_future", "forbid", "top_k"),
    *("prices", "no_answer", "fuzzy_threshold", "corpus", "depth", "reference"),
)
statistics_options: Final = options_of(Options, "method", "level", "resamples", "seed", "cluster")
grade_option: Final = options_of(LabelOptions, "max_grade")

gate_options: Final = all_of(
    click.argument("run"),
    click.option("--gold", "-g", help="Gold set; not needed if RUN is a saved result."),
    click.option("--criteria", "-c", metavar="FILE", help="File with gates.  [default: ship-criteria.yaml]"),
    click.option("--gate", "gates", multiple=True, help="A gate, such as 'recall@5 >= 0.85'; repeat for more."),
    click.option("--baseline", "-b", metavar="RUN", help="Run or saved result to compare with."),
)

save_options: Final = all_of(
    trust_option,
    click.option("--save/--no-save", default=None, help="Save to the history.  [default: karat.yaml, else no]"),
    click.option("--tag", "tags", multiple=True, metavar="NAME", help="Save with this tag; repeat for more."),
)

send_option: Final = click.option(
    "--send",
    "places",
    multiple=True,
    metavar="PLACE",
    help="Send it to mlflow, wandb, slack, teams or webhook (see `karat send`); repeat for more.",
)

store_option: Final = all_of(
    click.option(
        "--store",
        metavar="PLACE",
        help="History: folder or postgresql:// URL.  [default: KARAT_STORE, karat.yaml, .karat]",
    ),
    trust_option,
)

chunk_options: Final = all_of(
    click.option("--chunk-words", "tokens", type=int, help="Words per chunk, for a folder of texts.  [default: 200]"),
    click.option("--chunk-overlap", "overlap", type=int, help="Words shared with the previous chunk.  [default: 40]"),
)

dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Only show the number of calls and the estimated cost."
)

json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of tables.")


def output_option(about: str) -> Callable[[F], F]:
    return click.option("--output", "-o", "outputs", multiple=True, metavar="FILE", help=about)


report_output: Final = output_option(
    "Write out.html, out.json or out.md. NAME=out.csv or NAME=out.parquet writes one table. Repeat for more."
)

# For commands whose -o is their main output.
table_option: Final = click.option(
    "--report",
    "--table",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write what is shown as out.html, out.json or out.md, or one table: NAME=out.csv or NAME=out.parquet. Repeat "
    "for more.",
)

report_options: Final = all_of(json_option, report_output, reading_options)
