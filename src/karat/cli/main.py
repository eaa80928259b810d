"""`karat`: one file per command, loaded when it is used."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import NoReturn

import click

import karat
from karat.cli.help import KaratCommand, KaratGroup, help_all_asked
from karat.cli.streams import open_streams
from karat.cli.trust import trust_option
from karat.errors import KaratError, shorten
from karat.errors.spelling import typed

# Group → name → module. To add a command, add a file and its name here.
COMMANDS: dict[str, dict[str, str]] = {
    "Measure": {"eval": "eval_command", "compare": "compare", "gate": "gate"},
    "Make runs": {"run": "run_command", "baseline": "baseline", "stress": "stress"},
    "Make gold": {"labels": "labels", "synthesize": "synthesize"},
    "Save and show": {"history": "history", "send": "send", "serve": "serve", "mcp": "mcp"},
    "Check and set up": {"check": "check", "convert": "convert", "metrics": "metrics", "init": "init"},
}
# Sub-commands of a command that also works by itself: `karat eval RUN` and `karat eval sweep RUN`.
BELOW: dict[str, dict[str, str]] = {
    "eval": {"sweep": "sweep", "tune": "tune", "triage": "triage", "power": "power"},
    "gate": {"selftest": "selftest", "comment": "comment"},
    "serve": {"users": "users"},
    "check": {"schema": "schema"},
}
# Commands of version 0.1 → what to type now.
MOVED = {
    **{name: f"eval {name}" for name in BELOW["eval"]},
    **{name: f"gate {name}" for name in BELOW["gate"]},
    **{name: f"labels {name}" for name in ("pool", "label", "judge", "agree", "calibrate", "merge")},
    "push": "history push",
    "users": "serve users",
    "schema": "check schema",
}
_MODULES = {name: module for part in COMMANDS.values() for name, module in part.items()}


def load_command(module: str) -> click.Command:
    found: click.Command = importlib.import_module(f"karat.cli.{module}").command
    return found


class Commands(KaratGroup):
    """The commands in groups. Each is loaded when it is used."""

    help_all = "Show every command and sub-command."

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_MODULES]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _MODULES:
            return None
        found = load_command(_MODULES[name])
        if isinstance(found, KaratCommand):
            found.below = partial(_below, name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, part in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([*self._lines(ctx, part)])

    def _lines(self, ctx: click.Context, part: dict[str, str]) -> Iterator[tuple[str, str]]:
        for name, module in part.items():
            if not help_all_asked(ctx):
                yield name, _about(name, module)
                continue
            found = load_command(module)
            yield name, found.get_short_help_str(200)
            yield from ((f"{name} {each}", about) for each, about in _below(name).items())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        first, *rest = args
        module = BELOW.get(first, {}).get(rest[0]) if rest and not os.path.exists(rest[0]) else None
        if module is not None:
            return f"{first} {rest[0]}", load_command(module), rest[1:]
        if first in MOVED:
            raise click.UsageError(f"`karat {first}` is now `karat {MOVED[first]}`\nhint: {_moved(first, rest)}", ctx)
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from karat.errors import did_you_mean

            hint = did_you_mean(first, self.list_commands(ctx))
            raise click.UsageError(f"{error.message}\nhint: {hint}" if hint else error.message, ctx) from None


def _moved(first: str, rest: list[str]) -> str:
    """What to type instead of a command of version 0.1, which took saved results where it now takes a run."""
    import shlex

    words = f"karat {MOVED[first]}"
    if first in ("triage", "sweep") and rest and not {"-g", "--gold"} & {word.partition("=")[0] for word in rest}:
        from karat.cli.options import with_gold

        return with_gold(words, rest)
    return shlex.join([*words.split(), *rest])


def _about(name: str, module: str) -> str:
    below = f" Sub-command{'s' * (len(BELOW[name]) > 1)}: {', '.join(BELOW[name])}." if name in BELOW else ""
    return load_command(module).get_short_help_str(200) + below


def _below(name: str) -> dict[str, str]:
    """The sub-commands of a command, with one line each."""
    every = every_command(name)
    return {
        words.removeprefix(f"{name} "): one.get_short_help_str(200) for words, one in every.items() if words != name
    }


def every_command(only: str | None = None) -> dict[str, click.Command]:
    """Every command by the words that call it: `eval`, `eval sweep`, `labels pool` …

    `only`: this command and its sub-commands."""
    found: dict[str, click.Command] = {}
    for name, module in _MODULES.items() if only is None else [(only, _MODULES[only])]:
        command = load_command(module)
        if isinstance(command, click.Group):
            context = click.Context(command)
            listed = {each: command.get_command(context, each) for each in command.list_commands(context)}
            found |= {f"{name} {each}": one for each, one in listed.items() if one is not None}
        else:
            found[name] = command
        found |= {f"{name} {each}": load_command(other) for each, other in BELOW.get(name, {}).items()}
    return found


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from karat.cli.say import say
        from karat.files.native import reader_name

        say(f"karat, version {karat.__version__}, {reader_name()}")
        context.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@trust_option
def karat_command() -> None:
    """Evaluate retrieval: how good is it, how certain is that, where does it fail, and can a change ship?

    Start with `karat eval RUN --gold GOLD`. `karat COMMAND --help` describes each command.

    Exit codes: 0 success, 1 a gate failed, 2 could not judge (bad input or usage).
    """


def run() -> None:
    """Run the command line, and end the process."""
    try:
        main()
    except SystemExit as end:
        _leave(end)
        raise


def _leave(end: SystemExit) -> None:
    """End the process at once, unless a thread is running. Python would first free every object, which takes a tenth of
    the time of a short command. What was registered for the end of the process is still done."""
    if threading.active_count() > 1 or not isinstance(end.code, int):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # it may be closed, or a broken pipe
            stream.flush()
    os._exit(end.code)


def main() -> None:
    """Run the command line. The exit code is always 0, 1, 2 or 130; only a verdict exits with 1."""
    with typed():
        _main()


def _main() -> NoReturn:
    open_streams()
    error: BaseException | None = None
    try:
        found = copy_context().run(
            karat_command.main, standalone_mode=False
        )  # context variables apply to this call only
        code = found if isinstance(found, int) else 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 2
    except BaseException as raised:  # polars' PanicException is not an Exception
        error, code = raised, _told(raised)
    try:
        sys.stdout.flush()
    except OSError as full:
        _say(f"the output could not be written: {full.strerror or full}")
        code = 2
    gc.freeze()
    ended = SystemExit(code)
    ended.__context__ = error
    raise ended


def _told(error: BaseException) -> int:
    """Print the error and return the exit code."""
    if isinstance(error, KaratError):
        _say(str(error), error.code)
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        _say("interrupted")
        return 130
    if isinstance(error, OSError):
        _say(f"{error.filename or 'a file'}: {error.strerror or error}")
    elif isinstance(error, MemoryError):
        _say("not enough memory\nhint: use a machine with more memory, or a smaller file")
    elif os.environ.get("KARAT_TRACEBACK"):
        raise error
    else:
        what = f"{type(error).__name__}: {shorten(str(error), 300)}" if str(error) else type(error).__name__
        _say(f"Karat failed unexpectedly: {what}\nhint: this is a bug; KARAT_TRACEBACK=1 shows where it happened")
    return 2


def _say(message: str, code: str | None = None) -> None:
    """Print an error; its code is an address in docs/reference/errors.md."""
    from karat.cli.say import say

    first, *rest = message.split("\n")
    say(first, err=True, always=True, label="error: ", code=code, fg="red", bold=True)
    for line in rest:
        say(line, err=True, always=True)


if __name__ == "__main__":
    run()
