"""Requests to one model at one endpoint, with retries and error handling. Keys are never shown."""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
import time
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import msgspec

from karat.data.prices import estimate_tokens
from karat.errors import ConfigError, KaratError, shorten
from karat.net.http import Http, HttpError, Retry, Secrets, check_token, check_url, is_loopback
from karat.net.timeouts import TooSlow

Messages: TypeAlias = list[dict[str, str]]
OPENAI = "https://api.openai.com/v1"
KEYS = ("KARAT_LLM_KEY", "OPENAI_API_KEY")
_AGAIN = (200, 408, 409, 425, 429, *range(500, 600))  # 200: some servers send errors or web pages with it
_WRONG = {
    401: "the key is wrong or has expired: check " + " or ".join(KEYS),
    403: "the key may not use this model",
    404: "check the model's name, and that the address ends as the provider says (often /v1)",
    405: "the address is not that of a chat endpoint; it often ends in /v1",
}
_STILL_ANSWERING = 409  # the server is still working on the same request
_KEY = "Idempotency-Key"
_FIRST_WAIT = 0.5
_PATIENCE = 120.0  # seconds that a server may ask to wait
_UNSUPPORTED = re.compile(r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed", re.I)
_OTHER_NAME = "max_completion_tokens"
_SPENT = "insufficient_quota"  # a 429 for which waiting does not help
_ADDRESS = "such as http://localhost:11434/v1 (--base-url, or OPENAI_BASE_URL); put the key into KARAT_LLM_KEY"


class Request(NamedTuple):
    """One conversation, the length limit of the reply, and the code that the reply must contain.

    `fresh`: a word that makes the request differ from earlier ones, for servers that reply only once.
    """

    messages: Messages
    max_tokens: int
    code: str = ""
    fresh: str = ""

    def answered(self, said: str, then: str, *, longer: bool) -> Request:
        """Return the request extended by the model's reply and the next message."""
        more = [{"role": "assistant", "content": said}, {"role": "user", "content": then}]
        return self._replace(messages=[*self.messages, *more], max_tokens=self.max_tokens * (2 if longer else 1))


class Reply(msgspec.Struct, omit_defaults=True):
    """A reply of a model. `text` is None if it has none; `refusal` is the reason, if given."""

    text: str | None
    prompt_tokens: int
    completion_tokens: int
    time: str  # ISO 8601
    refusal: str | None = None
    is_cut: bool = False  # by the length limit
    estimated: bool = False  # the server did not count the tokens
    lost: int = 0  # earlier attempts without a response, which may have been charged


class NoReply(KaratError):
    """This request failed after all attempts. `lost`: no response, or the server was busy."""

    code = "no-reply"

    def __init__(self, what: str, *, lost: bool = False) -> None:
        super().__init__(what)
        self.lost = lost


class Halt(KaratError):
    """All requests would fail: the key, address or model is wrong, or the quota is used up."""

    code = "halted"


class Chat:
    """Sends requests to a model; thread-safe. `timeout` is for one attempt, followed by up to `retries` more."""

    def __init__(self, model: str, base_url: str | None = None, *, timeout: float = 60.0, retries: int = 5) -> None:
        self.model = model
        self.timeout = timeout
        self.retries = retries
        self.url: str = check_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI, _ADDRESS)
        self._secrets = Secrets()
        self._headers = self._authorization()
        self._http = Http(self._secrets, extra="llm")
        self._settings: dict[str, str] = {"temperature": "temperature", "max_tokens": "max_tokens"}
        self._not_before = 0.0
        self._lock = threading.Lock()

    def _authorization(self) -> dict[str, str]:
        name = next((name for name in KEYS if os.environ.get(name, "").strip()), None)
        if name is not None:
            return {"Authorization": f"Bearer {check_token(self._secrets.get(name), name, 'key')}"}
        if is_loopback(self.url):
            return {}  # local servers rarely need a key
        hint = f"set it: export {KEYS[0]}=… ({KEYS[1]} is read too)"
        raise ConfigError(f"no key for {self.url}", code="no-key", hint=hint)

    def ask(self, request: Request) -> Reply:
        """Return the reply. Raises NoReply if this request failed, Halt if all would fail."""
        retry = Retry(self.retries + 1, statuses=_AGAIN, first=_FIRST_WAIT)
        tries = _Tries()

        def once() -> Reply:
            with tries:
                return self._ask_once(request, tries.refused)

        try:
            return msgspec.structs.replace(retry.during(once), lost=tries.lost)
        except (HttpError, TooSlow) as error:
            raise NoReply(error.what, lost=retry.again(error)) from None

    def _ask_once(self, request: Request, refused: int) -> Reply:
        left = self._not_before - time.monotonic()
        if left > 0:
            time.sleep(left + random.uniform(0.0, 0.1))  # not all at the same moment
        settings, values = self._settings, {"temperature": 0, "max_tokens": request.max_tokens}
        chosen = {sent: values[name] for name, sent in settings.items()}
        body = {"model": self.model, "messages": request.messages, **chosen}
        url = f"{self.url}/chat/completions"
        headers = {**self._headers, _KEY: _idempotency_key(url, body, request.fresh, refused)}
        try:
            answer = self._http.send("POST", url, body, headers=headers, timeout=self.timeout)
            return self._http.read(answer, lambda content: _reply(content, request.messages))
        except HttpError as error:
            self._refuse_hopeless(error)
            if error.status == 400 and self._adapted(error.what, settings):
                return self._ask_once(request, refused)  # ends, since there is little to adapt
            if error.status == 429:
                with self._lock:  # one thread slows down all
                    self._not_before = max(self._not_before, time.monotonic() + (error.wait or 0.0))
            raise

    def _refuse_hopeless(self, error: HttpError) -> None:
        if error.status in _WRONG:
            raise Halt(error.what, hint=_WRONG[error.status]) from None
        if error.status == 429 and _SPENT in error.what:
            raise Halt(
                error.what, hint="the account has no credit left; add some, then run the same command to continue"
            ) from None
        if error.wait is not None and error.wait > _PATIENCE:
            what = f"{error.what}; the server asks to wait {error.wait:,.0f} s"
            raise Halt(what, hint="run the same command later to continue") from None

    def _adapted(self, said: str, used: dict[str, str]) -> bool:
        """Adapt to models without temperature, or with another name for the length limit."""
        named = next((name for name, sent in used.items() if sent in said), None)
        if named is None or not _UNSUPPORTED.search(said):
            return False
        with self._lock:
            if self._settings is used:  # else another thread has adapted them
                renamed = used[named] == "max_tokens" and _OTHER_NAME in said
                without = {name: sent for name, sent in used.items() if name != named}
                self._settings = {**without, named: _OTHER_NAME} if renamed else without
        return True


class _Tries:
    """How often a request was refused, and how often it got no response."""

    def __init__(self) -> None:
        self.refused = self.lost = 0

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, (HttpError, TooSlow)):
            self.lost += error.status is None
            self.refused += error.status not in (None, _STILL_ANSWERING)


def _idempotency_key(url: str, body: dict[str, Any], fresh: str, refused: int) -> str:
    """Return an idempotency key, the same for the same request, also in another process: a server that supports it then
    repeats a lost reply without charging. It changes after a refusal, which some servers would repeat."""
    return hashlib.sha256(msgspec.json.encode((url, body, fresh, refused))).hexdigest()[:32]


def _reply(content: Any, messages: Messages) -> Reply:
    """Read the first choice of a response, in any dialect of the API."""
    try:
        choice = content["choices"][0]
        text, refusal = (_text(choice["message"].get(name)) for name in ("content", "refusal"))
    except (TypeError, KeyError, IndexError, AttributeError):
        raise HttpError(f"not a reply of a chat model: {shorten(content, 200)}") from None
    finish = choice.get("finish_reason")
    if finish == "content_filter" and not refusal:
        refusal = "the provider's content filter"
    asked, said = (_tokens(content.get("usage"), name) for name in ("prompt_tokens", "completion_tokens"))
    return Reply(
        text=text or None,
        refusal=refusal or None,
        is_cut=finish == "length",
        prompt_tokens=sum(estimate_tokens(m["content"]) for m in messages) if asked is None else asked,
        completion_tokens=estimate_tokens(text) if said is None else said,
        estimated=asked is None or said is None,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _tokens(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _text(content: Any) -> str:
    """Return the text; some servers send a list of parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
