"""One model behind one endpoint: every fault of a network is met here, and no key is ever written out."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from karat.data.tokens import estimate_tokens
from karat.errors import ConfigError, shorten
from karat.llm.base import Halt, Messages, NoReply, Reply, Request
from karat.net.secrets import Secrets
from karat.net.waiting import TooSlow
from karat.net.web import Web, WebError, check_url

OPENAI = "https://api.openai.com/v1"
KEYS = ("KARAT_LLM_KEY", "OPENAI_API_KEY")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_AGAIN = (408, 409, 425, 429)  # and whatever is the server's own fault
_WRONG = {
    401: "the key is wrong or has expired: " + " or ".join(KEYS) + " holds it",
    403: "the key may not use this model",
    404: "is the model's name right, and does the address end as the provider says (often /v1)?",
    405: "the address is not that of a chat endpoint; it often ends in /v1",
}
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_PATIENCE = 120.0  # seconds that a server may ask to wait
_UNSUPPORTED = re.compile(r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed", re.I)
_OTHER_NAME = "max_completion_tokens"
_SPENT = "insufficient_quota"  # a 429 that no waiting mends
_ADDRESS = "such as http://localhost:11434/v1 (--base-url, or OPENAI_BASE_URL); the key belongs into KARAT_LLM_KEY"


class Chat:
    """Asks a model; safe to use from many threads. `timeout` is for one try, of which there are `retries` more."""

    def __init__(self, model: str, base_url: str | None = None, *, timeout: float = 60.0, retries: int = 5) -> None:
        self.model, self.timeout, self.retries = model, timeout, retries
        self.url = check_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI, _ADDRESS)
        self._secrets = Secrets()
        self._headers = self._authorization()
        self._web = Web(self._secrets, retries=0, extra="llm")
        self._settings: dict[str, str] = {"temperature": "temperature", "max_tokens": "max_tokens"}
        self._not_before = 0.0
        self._lock = threading.Lock()

    def _authorization(self) -> dict[str, str]:
        name = next((name for name in KEYS if os.environ.get(name, "").strip()), None)
        if name is not None:
            key = self._secrets.get(name)
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise ConfigError(
                    "no usable key", code="bad-key", field=name, expected="printable ASCII characters without spaces"
                )
            return {"Authorization": f"Bearer {key}"}
        if urlsplit(self.url).hostname in _LOOPBACK:
            return {}  # servers on one's own machine seldom ask for one
        hint = f"set it: export {KEYS[0]}=… ({KEYS[1]} is read too)"
        raise ConfigError(f"no key for {self.url}", code="no-key", hint=hint)

    def ask(self, request: Request) -> Reply:
        """Raises NoReply where this request is lost, Halt where all of them would be."""
        for attempt in range(self.retries + 1):
            self._wait_for_all()
            settings = self._settings
            try:
                return self._try(request, settings)
            except TooSlow as error:
                failed, wait = f"{self.url}: {error}", None
            except WebError as error:
                failed, wait = error.what, error.wait
                self._refuse_hopeless(error)
                if error.status == 400 and self._adapted(error.what, settings):
                    wait = 0.0
                elif error.status is not None and error.status not in _AGAIN and error.status < 500:
                    raise NoReply(failed) from None
                elif error.status == 429:
                    self._hold_all(wait)
            if attempt < self.retries:
                time.sleep(_back_off(attempt) if wait is None else wait)
        raise NoReply(f"{failed} (asked {self.retries + 1} times)", lost=True)

    def _try(self, request: Request, settings: dict[str, str]) -> Reply:
        values: dict[str, Any] = {"temperature": 0, "max_tokens": request.max_tokens}
        chosen = {sent: values[name] for name, sent in settings.items()}
        body = {"model": self.model, "messages": request.messages, **chosen}
        url = f"{self.url}/chat/completions"
        found = self._web.send("POST", url, body, _Choice, headers=self._headers, timeout=self.timeout).read
        return found.reply(request.messages)

    def _refuse_hopeless(self, error: WebError) -> None:
        if error.status in _WRONG:
            raise Halt(error.what, hint=_WRONG[error.status]) from None
        if error.status == 429 and _SPENT in error.what:
            raise Halt(error.what, hint="the account has no money left; the same command goes on from here") from None
        if error.wait is not None and error.wait > _PATIENCE:
            what = f"{error.what}; it asks to wait {error.wait:,.0f} s"
            raise Halt(what, hint="the same command goes on from here") from None

    def _adapted(self, said: str, used: dict[str, str]) -> bool:
        """Some models take no temperature, some call the limit by another name: from now on as they want it."""
        named = next((name for name, sent in used.items() if sent in said), None)
        if named is None or not _UNSUPPORTED.search(said):
            return False
        with self._lock:
            if self._settings is used:  # else another thread was told the same
                renamed = used[named] == "max_tokens" and _OTHER_NAME in said
                without = {name: sent for name, sent in used.items() if name != named}
                self._settings = {**without, named: _OTHER_NAME} if renamed else without
        return True

    def _hold_all(self, wait: float | None) -> None:
        """Whoever is told to slow down speaks for all."""
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + (wait or 0.0))

    def _wait_for_all(self) -> None:
        left = self._not_before - time.monotonic()
        if left > 0:
            time.sleep(left + random.uniform(0.0, 0.1))  # not all in the same moment


def _back_off(attempt: int) -> float:
    return float(min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.5))


class _Choice:
    """The first choice of an answer, in whatever dialect it was given."""

    def __init__(self, content: Any) -> None:
        try:
            choice = content["choices"][0]
            self.message = choice["message"]
            self.text = _text(self.message.get("content"))
            self.refusal = _text(self.message.get("refusal"))
        except (TypeError, KeyError, IndexError, AttributeError):
            # Some send an error with status 200; it is worth another try as any failure of theirs is.
            raise WebError(f"no answer of a chat model: {shorten(content, 200)}", status=502) from None
        self.finish = choice.get("finish_reason")
        self.usage = content.get("usage") or {}

    def reply(self, messages: Messages) -> Reply:
        if self.finish == "content_filter" and not self.refusal:
            self.refusal = "the provider's content filter"
        asked, said = (self._tokens(name) for name in ("prompt_tokens", "completion_tokens"))
        counted = asked is not None and said is not None
        return Reply(
            text=self.text or None,
            refusal=self.refusal or None,
            is_cut=self.finish == "length",
            prompt_tokens=sum(estimate_tokens(m["content"]) for m in messages) if asked is None else asked,
            completion_tokens=estimate_tokens(self.text or "") if said is None else said,
            estimated=not counted,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _tokens(self, name: str) -> int | None:
        value = self.usage.get(name) if isinstance(self.usage, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _text(content: Any) -> str:
    """Plain text; some send a list of its parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
