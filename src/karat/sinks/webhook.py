"""Webhooks: an address, from the environment, that takes messages as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from karat.errors import ConfigError, KaratError
from karat.errors.redaction import keep_secret
from karat.net.http import Http, HttpError, Response, Secrets, check_url
from karat.net.timeouts import TooSlow
from karat.sinks.base import Delivery, Parcel, Receipt, SendError, Sink, require_encryption, said_in
from karat.sinks.message import Message, message_of

_LARGEST_ANSWER = 1 << 20
_TELLING = 16  # characters of a part of an address that is a secret by itself
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Hook(Sink):
    """An address that takes messages. Whoever knows it may post there, so it is a secret."""

    service: ClassVar[str]
    variable: ClassVar[str]  # the environment variable with the address

    def __init__(self, variable: str, url: str, environment: Mapping[str, str]) -> None:
        self._variable, self._url, self._environment = variable, url, environment
        self._http = Http(Secrets(*_secrets_of(url)), extra=None, largest=_LARGEST_ANSWER)

    @classmethod
    def open(cls, where: str, environment: Mapping[str, str]) -> Hook:
        if where and not _VARIABLE.fullmatch(where):
            for part in _secrets_of(where):
                keep_secret(part)
            raise ConfigError(
                f"after `{cls.name}:` comes the name of an environment variable",
                code="bad-place",
                hint=f"the address is a secret: export {cls.variable}=…, and use `{cls.name}`",
            )
        variable = where or cls.variable
        url = environment.get(variable, "").strip()
        if not url:
            hint = f"create a webhook in {cls.service}, then: export {variable}=https://…"
            what = f"the environment variable {variable} is not set"
            raise ConfigError(what, code="missing-variable", hint=hint)
        for part in _secrets_of(url):
            keep_secret(part)
        try:
            check_url(url, None, field=variable)
        except ConfigError as error:
            error.got = None  # a secret, even if it is not an address
            raise
        require_encryption(url, f"the message and its address in {variable}")
        return cls(variable, url, environment)

    @property
    def title(self) -> str:
        return f"{self.service} ({self._variable})"

    def body(self, message: Message) -> Any:
        """Return the JSON that the service expects."""
        raise NotImplementedError

    def plan(self, parcel: Parcel) -> str:
        shown = json.dumps(self._body(parcel), ensure_ascii=False, indent=2)
        return f"would post to {self.title}:\n{shown}"

    def send(self, parcel: Parcel, how: Delivery) -> Receipt:
        return self.post(message_of(parcel, self._environment), how)

    def post(self, message: Message, how: Delivery) -> Receipt:
        """Send a message that is not made from a parcel."""
        content = self.body(message)
        return how.during(self.title, lambda: self._post(content, how.timeout))

    def _body(self, parcel: Parcel) -> Any:
        return self.body(message_of(parcel, self._environment))

    def _post(self, content: Any, timeout: float) -> Receipt:
        try:
            answer = self._http.send("POST", self._url, content, timeout=timeout)
        except (HttpError, TooSlow) as error:
            error.what = error.what.partition(": ")[2]  # without the hidden address
            raise
        if answer.status // 100 == 2:
            return Receipt("posted")
        raise self._refused(answer)

    def _refused(self, answer: Response) -> KaratError:
        error = self._http.refusal(answer, said_in(answer, ["message", "error"]))
        error.what = error.what.removeprefix(f"{answer.where}: ")
        if answer.status // 100 == 3 or answer.status in (401, 403, 404, 410):
            hint = f"the webhook was removed, or the address in {self._variable} is wrong: create a new one"
            return SendError(f"{self.title}: {error.what}", code="denied", hint=hint)
        return error


class Webhook(Hook):
    """Any server: gets the message itself."""

    name = "webhook"
    about = "any server that takes JSON: its address is in KARAT_WEBHOOK_URL, or in VARIABLE with webhook:VARIABLE"
    service = "the webhook"
    variable = "KARAT_WEBHOOK_URL"

    def body(self, message: Message) -> Any:
        return msgspec.to_builtins(message)


def _secrets_of(url: str) -> list[str]:
    """Return the address and the parts of it that a server or a message may repeat."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    pieces = [parts.path, parts.query, *parts.path.split("/"), *parts.query.split("&")]
    pieces += [value for _, _, value in (one.partition("=") for one in parts.query.split("&"))]
    return [url, url.partition("?")[0], *(piece for piece in pieces if len(piece) >= _TELLING)]
