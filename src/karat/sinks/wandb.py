"""Weights & Biases, through its client. A run of W&B is one result."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from karat.errors import ConfigError, MissingExtra, shorten
from karat.errors.redaction import keep_secret
from karat.settings import require_trust
from karat.sinks.base import Delivery, Parcel, Receipt, SendError, Sink, files_listed

_PROJECT = "karat"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# What the client would collect and send by itself.
_QUIET = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
    "host": "",
}


class WandB(Sink):
    """One project."""

    name = "wandb"
    about = "Weights & Biases: wandb, wandb:PROJECT or wandb:ENTITY/PROJECT"
    takes_files = True

    def __init__(self, entity: str, project: str, mode: str, folder: Path) -> None:
        self._entity, self._project, self._mode, self._folder = entity, project, mode, folder

    @classmethod
    def open(cls, where: str, environment: Mapping[str, str]) -> WandB:
        entity, slash, project = where.rpartition("/")
        if where and not all(_NAME.fullmatch(part) for part in ([entity, project] if slash else [project])):
            expected = "wandb:PROJECT or wandb:ENTITY/PROJECT, with letters, digits, `_`, `-` and `.`"
            raise ConfigError("invalid name of a project", code="bad-place", expected=expected, got=where)
        mode = environment.get("WANDB_MODE", "").strip().lower() or "online"
        if mode in ("disabled", "dryrun") or mode not in ("online", "offline", "shared"):
            expected = "online or offline"
            raise ConfigError(
                "W&B would send nothing", code="bad-value", field="WANDB_MODE", expected=expected, got=mode
            )
        found = find_spec("wandb")
        if found is None or found.origin is None:  # a folder `wandb` of offline runs is not the package
            raise MissingExtra("sending to W&B", "wandb", "wandb")
        keep_secret(environment.get("WANDB_API_KEY", "").strip())
        folder = Path(environment.get("WANDB_DIR") or ".").absolute()
        settings = folder / "wandb" / "settings"
        if mode != "offline" and settings.is_file():
            hint = "remove the file, or use --trust-config if you trust it"
            require_trust(settings, "base_url", "settings of W&B, such as the server that gets the key", hint)
        named = project or environment.get("WANDB_PROJECT", "").strip() or _PROJECT
        return cls(entity or environment.get("WANDB_ENTITY", "").strip(), named, mode, folder)

    @property
    def title(self) -> str:
        return f"W&B project {self._entity + '/' if self._entity else ''}{self._project}"

    def plan(self, parcel: Parcel) -> str:
        lines = [
            f"would send to {self.title} ({self._mode})",
            f"run {parcel.name}, id {_id(parcel)}",
            *(f"metric {name} {value:.6g}" for name, value in parcel.measures.items()),
            *(f"config {name} {value}" for name, value in parcel.parameters.items()),
            f"files {files_listed(parcel)}",
        ]
        return "\n".join(lines)

    def send(self, parcel: Parcel, how: Delivery) -> Receipt:
        logging.getLogger("wandb").setLevel(logging.ERROR)
        try:
            return self._send(parcel, how.timeout)
        except SendError:
            raise
        except Exception as error:  # the client raises many kinds of errors
            said = shorten(" ".join(str(error).split()), 300) or type(error).__name__
            hint = "check WANDB_API_KEY and the network, or set WANDB_MODE=offline and send it later with `wandb sync`"
            raise SendError(f"{self.title}: {said}", hint=hint) from None

    def _send(self, parcel: Parcel, timeout: float) -> Receipt:
        import wandb

        how = {**_QUIET, "mode": self._mode, "init_timeout": timeout, "root_dir": str(self._folder)}
        started = wandb.init(
            entity=self._entity or None,
            project=self._project,
            id=_id(parcel),
            name=shorten(parcel.name, 128),
            resume="allow",
            reinit="create_new",  # beside a run of the caller
            job_type="karat",
            config={**parcel.parameters, **parcel.labels},
            settings=wandb.Settings(**how),
        )
        try:
            for name, value in parcel.measures.items():
                started.summary[name] = value
            if started.step == 0:  # of a run that was sent before, the values are in its history
                started.log(parcel.measures, step=0)
            _add_files(started, parcel)
        finally:
            started.finish()
        if self._mode == "offline":
            folder = os.path.relpath(Path(started.dir).parent)
            return Receipt(f"wrote {folder}; send it with `wandb sync {folder}`")
        return Receipt(f"sent: {started.url}")


def _add_files(run: Any, parcel: Parcel) -> None:
    """Add the files to the run's own folder, from which the client sends them."""
    folder = Path(run.dir)
    for name, content in parcel.files.items():
        (folder / name).write_bytes(content)
        run.save(str(folder / name), base_path=str(folder), policy="now")


def _id(parcel: Parcel) -> str:
    """The same result has the same id, so it is one run however often it is sent."""
    return f"karat-{parcel.id[:24]}"
