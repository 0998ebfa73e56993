"""Who is let in, and how much of it: token, Host and Origin, sizes, rates, and how many at once.

All of it is looked at before a body is read. A page in the browser cannot send the token, and a name that was made to
lead here (DNS rebinding) is refused by the Host header: an address in digits cannot be made to lead elsewhere, and
`localhost` is the browser's own affair. What is refused is answered as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import ipaddress
import logging
import secrets
import time
from collections.abc import Collection
from urllib.parse import urlsplit

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.store.text import clean_line

log = logging.getLogger("aisp.serve")

MOST_BODY_BYTES = 2 << 20
MOST_PASSED_BYTES = 32 << 20
"""Of a body that is too large, read and thrown away."""
BODY_S = 20.0
"""Patience with a body."""
MOST_AT_ONCE = 400
"""Requests that are being answered, those that wait for a task included."""
MOST_BODIES = 16
"""Bodies that are being read at once."""
FAIR_S = 1.0
"""... of which one that takes longer gives way to the next."""
PROVEN = "aisp.proven"
"""Set in the scope of a request that has brought the token."""
PER_S, BURST = 200.0, 400.0
"""Requests with the token."""
STRANGERS_PER_S, STRANGERS_BURST = 20.0, 40.0
"""Requests without it."""
SEND_S = 20.0
"""Patience with a client that does not read its answer."""


class Bucket:
    """So many a second, and so many at once after a pause."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._left, self._at_s = burst, time.monotonic()

    def take(self) -> float:
        """Take one; 0, or how long to wait for it."""
        now_s = time.monotonic()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return (1 - self._left) / self._per_s
        self._left -= 1
        return 0.0


class Admission:
    """The outermost layer of the application.

    Args:
        token: which every request brings, as a bearer or as the password of HTTP's basic scheme, so that a URL can hold
            it.
        hosts: names beside `localhost` by which this server may be called.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._rate, self._strangers = Bucket(PER_S, BURST), Bucket(STRANGERS_PER_S, STRANGERS_BURST)
        self._at_once = 0
        self._reading: dict[asyncio.Timeout, float] = {}  # since when, the oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":  # there is none
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._app(scope, receive, send)
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            async with asyncio.timeout(SEND_S):
                await send(message)

        self._at_once += 1
        try:
            headers = self._headers(scope)
            self._check_place(headers)
            self._check_token(headers)
            scope[PROVEN] = True
            self._check_rate()
            await self._app(scope, await self._body(headers, receive), sent)
        except RefusalError as error:
            if not begun:
                await _refuse(error, sent)
        except TimeoutError:
            log.warning("a client did not read its answer for %.0f s and was dropped", SEND_S)
        except Exception as error:
            log.exception("%s %s failed", scope["method"], clean_line(scope["path"]))
            if not begun:
                told = f"the server failed ({type(error).__name__})"
                await _refuse(RefusalError(Kind.FAULT, told, "its log has the trace; please report it"), sent)
        finally:
            self._at_once -= 1

    def _headers(self, scope: Scope) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in scope["headers"]:
            key = name.decode("latin-1")
            if key in found and key in ("host", "origin", "authorization", "content-length"):
                raise RefusalError(Kind.INVALID, f"the header {key} is there twice", "send it once")
            found[key] = value.decode("latin-1")
        return found

    def _check_place(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self._known(host):
            fix = "call it by 127.0.0.1 or localhost; `aisp serve --name NAME` lets a name of yours in"
            raise RefusalError(Kind.WRONG_HOST, f"{clean_line(host)!r} is no name of this server", fix)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        foreign = site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate"
        if foreign or (origin is not None and urlsplit(origin).netloc.lower() != host.lower()):
            told = f"a page of {clean_line(origin or 'another site')} asks"
            raise RefusalError(Kind.WRONG_ORIGIN, told, "pages of other sites are refused; ask from a program")

    def _known(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _check_token(self, headers: dict[str, str]) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        found = given.strip().encode("latin-1")
        if scheme.lower() == "basic":
            try:
                found = base64.b64decode(found, validate=True).partition(b":")[2]
            except binascii.Error:
                found = b""
        elif scheme.lower() != "bearer":
            found = b""
        if secrets.compare_digest(found, self._token):
            return
        if wait_s := self._strangers.take():
            raise RefusalError(Kind.TOO_MANY, "too many requests without the token", "wait", retry_s=wait_s)
        fix = "send `Authorization: Bearer TOKEN`, or call http://aisp:TOKEN@HOST:PORT; `aisp serve` says where it lies"
        raise RefusalError(Kind.NO_TOKEN, "the request has no token of this server", fix)

    def _check_rate(self) -> None:
        if wait_s := self._rate.take():
            raise RefusalError(Kind.TOO_MANY, f"more than {PER_S:.0f} requests a second", "wait", retry_s=wait_s)
        if self._at_once > MOST_AT_ONCE:
            raise RefusalError(Kind.TOO_MANY, f"{MOST_AT_ONCE} requests wait for their answers", "wait", retry_s=5)

    def _make_way(self) -> None:
        """Let one more body be read: where there are many, the one that has taken longest gives way to it."""
        if len(self._reading) < MOST_BODIES:
            return
        slowest = next(iter(self._reading))
        if time.monotonic() - self._reading[slowest] < FAIR_S:
            raise RefusalError(Kind.TOO_MANY, f"{MOST_BODIES} bodies are being read", "wait", retry_s=FAIR_S)
        del self._reading[slowest]
        slowest.reschedule(asyncio.get_running_loop().time())

    async def _body(self, headers: dict[str, str], receive: Receive) -> Receive:
        """Read the body, which is then received at once, and behind it what becomes of the connection."""
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise RefusalError(Kind.INVALID, "the header content-length is no number", "send the body's size in bytes")
        too_large = len(length) > 12 or int(length) > MOST_BODY_BYTES
        if length == "0" and "transfer-encoding" not in headers:
            return receive
        self._make_way()
        data, passed = bytearray(), 0
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(BODY_S) as patience:
                self._reading[patience] = begun_s
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    data += message.get("body", b"")
                    if len(data) > MOST_BODY_BYTES:
                        too_large = True
                    if too_large:  # read on for a while: a client that still sends would not hear why
                        passed += len(data)
                        data.clear()
                        if passed > MOST_PASSED_BYTES:
                            break
                    if not message.get("more_body"):
                        break
            if too_large:
                raise _too_large()
        except TimeoutError:
            told = f"the body did not come within {max(1.0, time.monotonic() - begun_s):.0f} s"
            raise RefusalError(Kind.TOO_SLOW, told, "send it at once") from None
        finally:
            self._reading.pop(patience, None)
        read: list[Message] = [{"type": "http.request", "body": bytes(data), "more_body": False}]

        async def received() -> Message:
            return read.pop() if read else await receive()

        return received


def _too_large() -> RefusalError:
    return RefusalError(Kind.TOO_LARGE, f"a body has at most {MOST_BODY_BYTES:,} bytes", "send less source")


async def _refuse(error: RefusalError, send: Send) -> None:
    data = msgspec.json.encode(error.document)
    headers = {"content-type": "application/json", "content-length": str(len(data)), **error.headers}
    if error.kind in (Kind.TOO_LARGE, Kind.TOO_SLOW):
        headers["connection"] = "close"  # the rest of the body is not wanted
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    with contextlib.suppress(OSError):
        await send({"type": "http.response.start", "status": error.status, "headers": raw})
        await send({"type": "http.response.body", "body": data})
