"""`karat`: one file a command, loaded when it is asked for."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
from contextvars import copy_context

import click

import karat
from karat.cli.streams import open_streams
from karat.cli.trust import trust_option
from karat.errors import KaratError, shorten

_PARTS = ("main", "options", "say", "scoring", "streams", "trust")  # of several commands, and none themselves


class Commands(click.Group):
    """Every module of this folder that has a `command`. A new command is one new file."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        import karat.cli as folder

        found = (m.name for m in pkgutil.iter_modules(folder.__path__))
        return sorted(name.removesuffix("_command") for name in found if name not in _PARTS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for module in (name, f"{name}_command"):
            try:
                found = importlib.import_module(f"karat.cli.{module}")
            except ModuleNotFoundError as error:
                if error.name == f"karat.cli.{module}":
                    continue
                raise
            command = getattr(found, "command", None)
            return command if isinstance(command, click.Command) else None
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from karat.errors import did_you_mean

            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{error.message}\nhint: {hint}" if hint else error.message, ctx) from None


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from karat.cli.say import say
        from karat.data.native import reader_name

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
    """How good is our retriever, how sure are we of that, where does it lose, may this change ship?

    Start with `karat eval RUN --gold GOLD`; `karat COMMAND --help` tells more about each.

    Exit codes: 0 all is well, 1 it may not ship, 2 Karat could not judge (bad input or configuration).
    """


def main() -> None:
    """The command line. Its exit code is 0, 1, 2 or 130, whatever happens; only a verdict says 1."""
    open_streams()
    # Nearly all that a command makes stays until it ends; to look through it for garbage every 700 objects, and once
    # more at the end, would be a tenth of a short command.
    gc.set_threshold(100_000)
    error: BaseException | None = None
    try:
        found = copy_context().run(karat_command.main, standalone_mode=False)  # what it sets holds for this call
        code = found if isinstance(found, int) else 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 2
    except BaseException as raised:  # polars' PanicException is no Exception
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
    """Say what went wrong. Returns the exit code."""
    if isinstance(error, KaratError):
        _say(str(error))
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
        _say("not enough memory\nhint: use a machine with more, or a smaller file")
    elif os.environ.get("KARAT_TRACEBACK"):
        raise error
    else:
        what = f"{type(error).__name__}: {shorten(str(error), 300)}" if str(error) else type(error).__name__
        _say(f"Karat failed unexpectedly: {what}\nhint: this is a bug; KARAT_TRACEBACK=1 shows where it happened")
    return 2


def _say(message: str) -> None:
    from karat.cli.say import say

    first, *rest = message.split("\n")
    say(first, err=True, label="error: ", fg="red", bold=True)
    for line in rest:
        say(line, err=True)


if __name__ == "__main__":
    main()
