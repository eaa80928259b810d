"""`karat send`, and `--send` of other commands: send results and verdicts to other services."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from karat.cli.help import KaratCommand
from karat.cli.options import F
from karat.cli.say import say, say_text
from karat.cli.trust import trust_option

if TYPE_CHECKING:
    from karat.errors import KaratError
    from karat.gates.verdict_form import Verdicts
    from karat.sinks.base import Delivery, Parcel, Sink


def _seconds(flag: str, default: int, limits: click.IntRange, about: str) -> Callable[[F], F]:
    return click.option(flag, metavar="SECONDS", type=limits, default=default, show_default=True, help=about)


@click.command(
    "send", cls=KaratCommand, short_help="Send results and verdicts to MLflow, W&B, Slack, Teams or a webhook."
)
@click.argument("place")
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Show what would be sent without sending anything.")
@_seconds("--patience", 30, click.IntRange(0, 3600), "Time to keep retrying while the service is busy or down.")
@_seconds("--timeout", 60, click.IntRange(1, 3600), "Time to wait for one response.")
@trust_option
def command(place: str, files: tuple[str, ...], dry_run: bool, patience: int, timeout: int) -> None:
    """Send saved results, or verdicts of `karat gate`, to PLACE.

    FILE is what `karat eval … -o result.json` or `karat gate … -o verdict.json` wrote, or history:NAME for a run of the
    history with its latest verdict. A result that MLflow or W&B already has is not sent twice.

    \b
    karat send mlflow result.json                          # server: MLFLOW_TRACKING_URI
    karat send mlflow:http://host:5000#helpdesk result.json
    karat send wandb:helpdesk history:latest               # key: WANDB_API_KEY, or WANDB_MODE=offline
    karat send slack verdict.json                          # address: SLACK_WEBHOOK_URL
    karat send teams verdict.json                          # address: TEAMS_WEBHOOK_URL
    karat send webhook verdict.json                        # address: KARAT_WEBHOOK_URL
    """
    from msgspec.structs import replace

    from karat.history.location import named
    from karat.sinks.base import PATIENCE, Delivery

    sinks = open_sinks([place])
    parcels = [parcel for file in files for parcel in _parcels(named(file) or file)]
    if dry_run:
        for parcel in parcels:
            say_text(sinks[0].plan(parcel))
        return
    raise_first(deliver(sinks, parcels, Delivery(timeout, replace(PATIENCE, limit=patience)), main=True))


def open_sinks(places: Sequence[str], *, forks: bool = False) -> list[Sink]:
    """Open places before any work, so that wrong settings show early. A name may be one of `places` in karat.yaml.

    `forks`: in CI, only warn of an empty variable, because secrets do not reach pull requests from forks."""
    if not places:
        return []
    from karat.errors import ConfigError
    from karat.settings import trusted_place
    from karat.sinks.base import SINKS, open_sink

    found = []
    for place in dict.fromkeys(places):
        own = None if SINKS.get(place.partition(":")[0]) else trusted_place(place)
        try:
            found.append(open_sink(own or place))
        except ConfigError as error:
            if not (forks and error.code == "missing-variable" and os.environ.get("CI")):
                raise
            error.hint = "nothing is sent there; this is normal for a pull request from a fork"
            warn_of([error])
    return found


def deliver(
    sinks: Sequence[Sink], parcels: Sequence[Parcel], how: Delivery | None = None, *, main: bool = False
) -> list[KaratError]:
    """Send every parcel to every sink; return the errors. `main`: this is what the command is for."""
    from karat.errors import KaratError
    from karat.files.progress import working
    from karat.sinks.base import Delivery

    errors: list[KaratError] = []
    for parcel in parcels:
        for sink in sinks:
            try:
                with working(f"sending to {sink.title}"):
                    receipt = sink.send(parcel, how or Delivery())
            except KaratError as error:
                errors.append(error)
                continue
            if receipt.warning:
                say(receipt.warning, err=True, always=True, label="warning: ", fg="yellow", bold=True)
            say(f"{parcel.name}: {sink.title}: {receipt.done}", err=not main)
    return errors


def raise_first(errors: Sequence[KaratError]) -> None:
    """Raise the first error, with the next one."""
    if errors:
        errors[0].also = errors[1] if len(errors) > 1 else None
        raise errors[0]


def warn_of(errors: Sequence[KaratError]) -> None:
    """Print errors as warnings, for a command whose exit code says something else."""
    for error in errors:
        for line, text in enumerate(str(error).split("\n")):
            say(text, err=True, always=True, label="" if line else "warning: ", fg="yellow", bold=True)


def _parcels(file: str) -> Iterator[Parcel]:
    from karat.errors import InputError
    from karat.files.git import code_branch
    from karat.results.references import is_saved
    from karat.results.results import Results
    from karat.results.save import load, restore
    from karat.results.saved import read_saved
    from karat.sinks.base import Parcel

    if file.startswith("history:"):
        yield _of_history(file.removeprefix("history:"))
    elif (verdicts := _verdicts(file)) is not None:
        yield Parcel(verdicts=verdicts, branch=code_branch())
    elif is_saved(file):
        yield from (Parcel(result=restore(saved), branch=code_branch()) for saved in read_saved(file))
    elif file.endswith(".parquet"):
        found = load(file)
        yield from (Parcel(result=one) for one in (found.values() if isinstance(found, Results) else [found]))
    else:
        raise InputError(
            "not a saved result and not a verdict",
            code="not-a-result",
            file=file,
            expected="a file of `karat eval … -o result.json` or `karat gate … -o verdict.json`",
        )


def _of_history(name: str) -> Parcel:
    """A run of the history, with its latest verdict."""
    from karat.history.keep import restored
    from karat.history.location import open_store
    from karat.sinks.base import Parcel

    with open_store() as store:
        run_id = store.find(name)
        row, kept, judged = store.row(run_id), store.kept(run_id), store.judgements(run_id)
    verdicts = _decoded(judged[0].document.encode(), f"history:{name}") if judged else None
    return Parcel(result=restored(kept), verdicts=verdicts, branch=row.head.branch)


def _verdicts(file: str) -> Verdicts | None:
    """The verdict in a file; None if it is something else."""
    import re

    from karat.formats.base import Source

    if not file.endswith(".json"):
        return None
    with Source(file).open() as stream:
        start = stream.read(200)
        if re.match(rb'\s*\{\s*"schema"\s*:\s*"karat/gates/', start) is None:
            return None
        return _decoded(start + stream.read(), file)


def _decoded(text: bytes, label: str) -> Verdicts:
    import msgspec

    from karat.errors import InputError
    from karat.files.decode_errors import DECODE_ERRORS
    from karat.gates.verdict_form import Verdicts

    try:
        return msgspec.json.decode(text, type=Verdicts)
    except DECODE_ERRORS as error:
        hint = "save it again: karat gate … -o verdict.json"
        raise InputError(f"not a verdict: {error}", code="not-a-verdict", file=label, hint=hint) from error
