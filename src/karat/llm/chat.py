"""One model behind one endpoint: what is said to it, what it says, and every fault on the way. No key is ever shown."""

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
_AGAIN = (200, 408, 409, 425, 429, *range(500, 600))  # 200: some send an error, or a page, as if all were well
_WRONG = {
    401: "the key is wrong or has expired: " + " or ".join(KEYS) + " holds it",
    403: "the key may not use this model",
    404: "is the model's name right, and does the address end as the provider says (often /v1)?",
    405: "the address is not that of a chat endpoint; it often ends in /v1",
}
_STILL_ANSWERING = 409  # what a server says that is not done with the same request yet
_KEY = "Idempotency-Key"
_FIRST_WAIT = 0.5
_PATIENCE = 120.0  # seconds that a server may ask to wait
_UNSUPPORTED = re.compile(r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed", re.I)
_OTHER_NAME = "max_completion_tokens"
_SPENT = "insufficient_quota"  # a 429 that no waiting mends
_ADDRESS = "such as http://localhost:11434/v1 (--base-url, or OPENAI_BASE_URL); the key belongs into KARAT_LLM_KEY"


class Request(NamedTuple):
    """One conversation, how long the answer may be, and the code that it has to carry.

    `fresh`: a word that makes it unlike the same request of another time, for servers that answer only once.
    """

    messages: Messages
    max_tokens: int
    code: str = ""
    fresh: str = ""

    def answered(self, said: str, then: str, *, longer: bool) -> Request:
        """The conversation goes on: what the model said, and what it is told about that."""
        more = [{"role": "assistant", "content": said}, {"role": "user", "content": then}]
        return self._replace(messages=[*self.messages, *more], max_tokens=self.max_tokens * (2 if longer else 1))


class Reply(msgspec.Struct, omit_defaults=True):
    """What a model said. `text` is None where it said nothing; `refusal` is what it said instead."""

    text: str | None
    prompt_tokens: int
    completion_tokens: int
    time: str  # ISO 8601
    refusal: str | None = None
    is_cut: bool = False  # it had more to say
    estimated: bool = False  # the server did not count the tokens
    lost: int = 0  # tries before that got no answer, and may have been charged


class NoReply(KaratError):
    """This one request failed, whatever was tried. `lost`: nobody answered, or nobody had time to."""

    code = "no-reply"

    def __init__(self, what: str, *, lost: bool = False) -> None:
        super().__init__(what)
        self.lost = lost


class Halt(KaratError):
    """No request will do better: the key, the address or the model is wrong, or the money is spent."""

    code = "halted"


class Chat:
    """Asks a model; safe to use from many threads. `timeout` is for one try, of which there are `retries` more."""

    def __init__(self, model: str, base_url: str | None = None, *, timeout: float = 60.0, retries: int = 5) -> None:
        self.model, self.timeout, self.retries = model, timeout, retries
        self.url = check_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI, _ADDRESS)
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
            return {}  # servers on one's own machine seldom ask for one
        hint = f"set it: export {KEYS[0]}=… ({KEYS[1]} is read too)"
        raise ConfigError(f"no key for {self.url}", code="no-key", hint=hint)

    def ask(self, request: Request) -> Reply:
        """Raises NoReply where this request is lost, Halt where all of them would be."""
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
            time.sleep(left + random.uniform(0.0, 0.1))  # not all in the same moment
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
                return self._ask_once(request, refused)  # there is little to adapt, so this ends
            if error.status == 429:
                with self._lock:  # whoever is told to slow down speaks for all
                    self._not_before = max(self._not_before, time.monotonic() + (error.wait or 0.0))
            raise

    def _refuse_hopeless(self, error: HttpError) -> None:
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


class _Tries:
    """How often a request was refused, and how often nobody answered."""

    def __init__(self) -> None:
        self.refused = self.lost = 0

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, (HttpError, TooSlow)):
            self.lost += error.status is None
            self.refused += error.status not in (None, _STILL_ANSWERING)


def _idempotency_key(url: str, body: dict[str, Any], fresh: str, refused: int) -> str:
    """The same for the same request, also in another process: a server that keeps such keys then gives the answer that
    got lost, and charges nothing. Another one after a refusal, which some servers would repeat."""
    return hashlib.sha256(msgspec.json.encode((url, body, fresh, refused))).hexdigest()[:32]


def _reply(content: Any, messages: Messages) -> Reply:
    """The first choice of an answer, in whatever dialect it was given."""
    try:
        choice = content["choices"][0]
        text, refusal = (_text(choice["message"].get(name)) for name in ("content", "refusal"))
    except (TypeError, KeyError, IndexError, AttributeError):
        raise HttpError(f"no answer of a chat model: {shorten(content, 200)}") from None
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
    """Plain text; some send a list of its parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
