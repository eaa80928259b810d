"""MLflow, over its REST API. A run of MLflow is one result."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from karat.errors import ConfigError, shorten
from karat.net.http import Http, HttpError, Secrets, check_token, check_url
from karat.sinks.base import Delivery, Parcel, Receipt, SendError, Sink, files_listed, require_encryption, said_in

RESULT, VERDICT = "karat.result", "karat.verdict"  # tags with the ids of what a run contains
_EXPERIMENT = "karat"
_API = "api/2.0/mlflow"
_PROXY = "api/2.0/mlflow-artifacts/artifacts"
_LARGEST_ANSWER = 16 << 20
_PARAMETERS, _METRICS = 100, 800  # per request; the server takes 100 and 1,000
_FINISHED = "FINISHED"
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_TYPES = {"html": "text/html", "json": "application/json"}


class MLflow(Sink):
    """One experiment of one server."""

    name = "mlflow"
    about = "an MLflow server: mlflow, mlflow:EXPERIMENT or mlflow:http://host:5000#EXPERIMENT"
    takes_files = True

    def __init__(self, address: str, experiment: str, number: str, credentials: str, secret: str) -> None:
        self._address, self._experiment, self._number = address, experiment, number
        self._http = Http(Secrets(secret), extra=None, largest=_LARGEST_ANSWER)
        self._headers = {"Accept": "application/json", **({"Authorization": credentials} if credentials else {})}

    @classmethod
    def open(cls, where: str, environment: Mapping[str, str]) -> MLflow:
        typed, _, experiment = where.partition("#") if "://" in where else ("", "", where)
        address = typed or environment.get("MLFLOW_TRACKING_URI", "").strip()
        field = None if typed else "MLFLOW_TRACKING_URI"
        if not address:
            raise ConfigError(
                "the address of the MLflow server is missing",
                code="missing-variable",
                hint="export MLFLOW_TRACKING_URI=http://host:5000, or --send mlflow:http://host:5000",
            )
        if not address.startswith(("http://", "https://")):
            raise ConfigError(
                "Karat sends to an MLflow server, not to its files or database",
                code="bad-address",
                field=field,
                expected="http(s)://host[:port]",
                hint="start one with `mlflow server`",
            )
        hint = "put the password into MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        address = check_url(address, hint, field=field, query=False)
        credentials, secret = _credentials(environment)
        if credentials:
            require_encryption(address, "the token or password of MLflow")
        name, number = _experiment(experiment, environment)
        return cls(address, name, number, credentials, secret)

    @property
    def title(self) -> str:
        return f"MLflow at {self._address}"

    def plan(self, parcel: Parcel) -> str:
        lines = [
            f"would send to {self.title}, experiment {self._experiment or self._number}",
            f"run {parcel.name}, tag {RESULT} {parcel.id[:12]}…",
            *(f"metric {name} {value:.6g}" for name, value in parcel.measures.items()),
            *(f"parameter {name} {value}" for name, value in parcel.parameters.items()),
            f"files {files_listed(parcel)}",
        ]
        return "\n".join(lines)

    def send(self, parcel: Parcel, how: Delivery) -> Receipt:
        return how.during(self.title, lambda: self._send(parcel, how.timeout), self._address)

    def _send(self, parcel: Parcel, timeout: float) -> Receipt:
        """Send it, or what is missing of it. Looks for the run first, so a retry creates no second one."""
        experiment = self._found_experiment(timeout)
        run = self._found_run(experiment, parcel, timeout)
        complete = run is not None and _field(run, "info", "status") == _FINISHED
        if run is None:
            run = self._created_run(experiment, parcel, timeout)
        page = f"{self._address}/#/experiments/{experiment}/runs/{_run_id(run)}"
        if complete and parcel.verdict_id in ("", _tags(run).get(VERDICT)):
            return Receipt(f"already there: {page}")
        started = _field(run, "info", "start_time")
        for part in _batches(parcel, int(started) if str(started).isdigit() else 0):
            self._call("POST", f"{_API}/runs/log-batch", timeout, {"run_id": _run_id(run), **part})
        warning = self._sent_files(run, parcel, timeout)
        # Last, so that a run that was cut off is recognised and completed.
        done = [{"key": VERDICT, "value": parcel.verdict_id}] if parcel.verdict_id else []
        self._call("POST", f"{_API}/runs/log-batch", timeout, {"run_id": _run_id(run), "tags": done})
        end = {"run_id": _run_id(run), "status": _FINISHED, "end_time": _now()}
        self._call("POST", f"{_API}/runs/update", timeout, end)
        return Receipt(f"{'updated' if complete else 'sent'}: {page}", warning)

    def _found_experiment(self, timeout: float) -> str:
        """Return the id of the experiment; create it if it does not exist."""
        if self._number:
            found = self._call("GET", f"{_API}/experiments/get?{urlencode({'experiment_id': self._number})}", timeout)
        else:
            named = f"{_API}/experiments/get-by-name?{urlencode({'experiment_name': self._experiment})}"
            found = self._call("GET", named, timeout, unless="RESOURCE_DOES_NOT_EXIST")
            if not found:
                new = {"name": self._experiment}
                self._call("POST", f"{_API}/experiments/create", timeout, new, unless="RESOURCE_ALREADY_EXISTS")
                found = self._call("GET", named, timeout)
        number = str(_field(found, "experiment", "experiment_id"))
        if _field(found, "experiment", "lifecycle_stage") == "deleted":
            raise SendError(
                f"{self.title}: the experiment {shorten(self._experiment or number, 80)!r} was deleted",
                code="experiment-deleted",
                hint=f"`mlflow experiments restore --experiment-id {shorten(number, 40)}` restores it; or use another",
            )
        return number

    def _found_run(self, experiment: str, parcel: Parcel, timeout: float) -> dict[str, Any] | None:
        asked = {"experiment_ids": [experiment], "filter": f"tags.`{RESULT}` = '{parcel.id}'", "max_results": 1}
        runs = _field(self._call("POST", f"{_API}/runs/search", timeout, asked), "runs")
        found = runs[0] if isinstance(runs, list) and runs else None
        return found if isinstance(found, dict) else None

    def _created_run(self, experiment: str, parcel: Parcel, timeout: float) -> dict[str, Any]:
        tags = {RESULT: parcel.id, "mlflow.runName": shorten(parcel.name, 200), "mlflow.source.name": "karat"}
        commit = parcel.parameters.get("code_version", "").removesuffix("+changes")
        if _COMMIT.fullmatch(commit):
            tags["mlflow.source.git.commit"] = commit
        asked = {"experiment_id": experiment, "start_time": _now(), "tags": _pairs(tags)}
        made = self._call("POST", f"{_API}/runs/create", timeout, asked).get("run")
        if not isinstance(made, dict):
            raise self._not_mlflow()
        return made

    def _sent_files(self, run: dict[str, Any], parcel: Parcel, timeout: float) -> str:
        """Send the files through the server; return a warning if it does not take them."""
        place = str(_field(run, "info", "artifact_uri") or "")
        parts = urlsplit(place)
        if parts.scheme != "mlflow-artifacts" or parts.netloc not in ("", urlsplit(self._address).netloc):
            kept = f"{parts.scheme}://{parts.netloc}" if parts.netloc else parts.scheme or "a folder of the server"
            return (
                f"{' and '.join(parcel.files)} were not sent: this experiment keeps its files in {shorten(kept, 100)}, "
                "and Karat sends files through the server only. Use an experiment that was created on a server started "
                "with `mlflow server --artifacts-destination …`"
            )
        for name, content in parcel.files.items():
            target = f"{_PROXY}/{quote(parts.path.strip('/'))}/{name}"
            self._call("PUT", target, timeout, content, kind=_TYPES[name.rpartition(".")[2]])
        return ""

    def _call(
        self, method: str, path: str, timeout: float, payload: Any = None, *, unless: str = "", kind: str = ""
    ) -> dict[str, Any]:
        """Return the JSON object of a response; an empty one for an error with the code `unless`."""
        headers = {**self._headers, **({"Content-Type": kind} if kind else {})}
        answer = self._http.send(method, f"{self._address}/{path}", payload, headers=headers, timeout=timeout)
        if answer.status // 100 == 2:
            try:
                found = answer.json() if answer.content.strip() else {}
            except ValueError:
                found = None
            if not isinstance(found, dict):
                raise self._not_mlflow()
            return found
        code = said_in(answer, ["error_code"])
        if unless and code == unless:
            return {}
        error = self._http.refusal(answer, said_in(answer, ["message", "error_code"]))
        error.what = error.what.replace(f"{self._address}/", "/")
        if answer.status in (401, 403):
            hint = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            hint = "start the server with --allowed-hosts" if "host header" in error.what.lower() else hint
            raise SendError(f"{self.title}: {error.what}", code="denied", hint=hint)
        if answer.status // 100 == 3 or (answer.status == 404 and not code.isupper()):
            raise self._not_mlflow(error)
        raise error

    def _not_mlflow(self, error: HttpError | None = None) -> SendError:
        what = "the response is not from an MLflow server" + ("" if error is None else f": {error.what}")
        return SendError(
            f"{self.title}: {what}", code="not-mlflow", hint="check the address, and its path if it has one"
        )


def _credentials(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the header, and the secret in it; both empty if there is none."""
    token = check_token(environment.get("MLFLOW_TRACKING_TOKEN", ""), "MLFLOW_TRACKING_TOKEN")
    if token:
        return f"Bearer {token}", token
    user, password = (environment.get(f"MLFLOW_TRACKING_{name}", "") for name in ("USERNAME", "PASSWORD"))
    if not user:
        return "", ""
    packed = b64encode(f"{user}:{password}".encode("utf-8", "surrogatepass")).decode()
    return f"Basic {packed}", password


def _experiment(typed: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return name or id of the experiment. The address of its page in a browser ends with its id.

    >>> _experiment("helpdesk", {}), _experiment("/experiments/3/runs/ab", {}), _experiment("", {})
    (('helpdesk', ''), ('', '3'), ('karat', ''))
    """
    if typed:
        page = re.fullmatch(r"/experiments/(\d{1,40})(?:[/?].*)?", typed)
        return ("", page[1]) if page else (typed, "")
    name, number = (environment.get(f"MLFLOW_EXPERIMENT_{kind}", "").strip() for kind in ("NAME", "ID"))
    return ("", number) if number and not name else (name or _EXPERIMENT, "")


def _batches(parcel: Parcel, time: int) -> Iterator[dict[str, Any]]:
    """Yield parts of a run that one request may have. With the time of the run, a repeated metric is the same one."""
    yield {"tags": _pairs(parcel.labels)}
    parameters, measures = iter(parcel.parameters.items()), iter(parcel.measures.items())
    while some := dict(islice(parameters, _PARAMETERS)):
        yield {"params": _pairs(some)}
    while more := dict(islice(measures, _METRICS)):
        yield {"metrics": [{"key": key, "value": value, "timestamp": time, "step": 0} for key, value in more.items()]}


def _pairs(given: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in given.items()]


def _tags(run: dict[str, Any]) -> dict[str, str]:
    tags = _field(run, "data", "tags")
    pairs = [tag for tag in tags if isinstance(tag, dict)] if isinstance(tags, list) else []
    return {str(tag.get("key")): str(tag.get("value")) for tag in pairs}


def _run_id(run: dict[str, Any]) -> str:
    return str(_field(run, "info", "run_id") or _field(run, "info", "run_uuid"))


def _field(found: Any, *names: str) -> Any:
    """Return a field of nested objects; None if there is none."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _now() -> int:
    return int(time.time() * 1000)
