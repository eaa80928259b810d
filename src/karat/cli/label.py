"""`karat labels label`: label a pool in the terminal."""

from __future__ import annotations

import click

from karat.cli.help import KaratCommand
from karat.cli.options import grade_option
from karat.cli.say import say


@click.command("label", cls=KaratCommand, short_help="Label a pool by hand, one key per grade.")
@click.argument("pool")
@click.option("--output", "-o", required=True, metavar="FILE", help="Labels, JSONL; an existing file is continued.")
@click.option("--annotator", "-a", required=True, metavar="NAME", help="Name of the annotator.")
@grade_option
@click.option("--skipped", "only_skipped", is_flag=True, help="Only pairs that were skipped before.")
def command(pool: str, output: str, annotator: str, max_grade: int, only_skipped: bool) -> None:
    """Show the pairs of POOL one by one. Press a key to grade: 0 irrelevant, 1 partial, 2 strong.

    Every label is saved at once. Run the same command again to continue.

    \b
    karat labels label pool.jsonl -o ann.jsonl --annotator ann
    """
    from contextlib import suppress

    from karat.errors import ConfigError
    from karat.files.atomic_write import refuse_overwriting
    from karat.labels.files import LabelLog, by_key, read_pool
    from karat.labels.screen import keyboard, label_by_keys, terminal_console
    from karat.labels.session import Session

    if not annotator.strip():
        raise ConfigError("the annotator has no name", code="missing-option", hint="give it with --annotator NAME")
    refuse_overwriting(output, [pool])
    pairs = read_pool(pool)
    with keyboard() as keys, LabelLog(output, highest=max_grade) as log:
        session = Session(by_key(pairs), log, annotator.strip(), only_skipped=only_skipped)
        with suppress(KeyboardInterrupt):  # a normal way to end; nothing is lost
            label_by_keys(session, keys, terminal_console(), max_grade)
    left = len(pairs) - len(session.given)
    said = f"{output}: {session.graded:,} of {len(pairs):,} pairs labelled, {session.skipped:,} skipped"
    say(said + (f"; run the same command to label the other {left:,}" if left else ""), err=True)
    if session.skipped and not left:
        say("use --skipped to see the skipped pairs again", err=True)
