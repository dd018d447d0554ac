"""S3 server for tests: moto in a process of its own, with injected faults.

Prints its port, and ends with its standard input. POST /-/faults with JSON sets the current faults, none at first:
- errors: share of requests that are answered with 500 or 503 (of `seed`)
- slow: seconds that each request takes longer
- cut: number of uploads of parts that lose their connection halfway, from the next one on
- drop: the same for uploads of whole files
- hide: text; listings omit objects with it in their name, as stale listings do
- deny: methods that are answered with 403
- conditions: "ignored" or "refused", as by stores that lack conditional writes
"""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import run_wsgi_app

Environ = dict[str, Any]
Start = Callable[..., Any]
_ERROR = "<Error><Code>{code}</Code><Message>{message}</Message></Error>"
_ENTRIES = re.compile(rb"<(Contents|CommonPrefixes)>.*?</\1>", re.DOTALL)


class Faulty:
    """A WSGI application before moto's."""

    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.conditional = threading.Lock()
        self.set({})

    def set(self, faults: dict[str, Any]) -> None:
        self.errors, self.slow, self.cut = faults.get("errors", 0.0), faults.get("slow", 0.0), faults.get("cut", 0)
        self.drop = faults.get("drop", 0)
        self.hide, self.deny = faults.get("hide", ""), faults.get("deny", [])
        self.conditions = faults.get("conditions", "")
        self.chance = random.Random(faults.get("seed", 0))  # noqa: S311 - a dice

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/-/faults":
            self.set(json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
            start("204 No Content", [])
            return []
        if self.slow:
            time.sleep(self.slow)
        if environ["REQUEST_METHOD"] in self.deny:
            return refused(environ, start, "403 Forbidden", "AccessDenied", "Access Denied")
        if self.chance.random() < self.errors:
            if self.chance.random() < 0.5:
                return refused(environ, start, "503 Slow Down", "SlowDown", "Please reduce your request rate.")
            return refused(environ, start, "500 Internal Server Error", "InternalError", "We had an internal error.")
        if environ["REQUEST_METHOD"] == "PUT" and self._is_cut_off(environ):
            environ["wsgi.input"].read(1000)
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError
        if environ["REQUEST_METHOD"] == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
            return self._put_if_absent(environ, start)
        return self._answer(environ, start)

    def _put_if_absent(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if self.conditions == "refused":
            return refused(environ, start, "501 Not Implemented", "NotImplemented", "A header is not implemented.")
        if self.conditions == "ignored":
            del environ["HTTP_IF_NONE_MATCH"]
        with self.conditional:  # moto compares and stores in two steps
            parts, status, headers = run_wsgi_app(self.moto, environ, buffered=True)
        start(status, headers.to_wsgi_list())
        return parts

    def _is_cut_off(self, environ: Environ) -> bool:
        if self.cut and "partNumber=" in environ["QUERY_STRING"]:
            self.cut -= 1
            return True
        if self.drop and not environ["QUERY_STRING"] and int(environ.get("CONTENT_LENGTH") or 0) > 1000:
            self.drop -= 1
            return True
        return False

    def _answer(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if not (self.hide and "list-type=2" in environ["QUERY_STRING"]):
            return self.moto(environ, start)
        parts, status, headers = run_wsgi_app(self.moto, environ)
        hidden = self.hide.encode()
        body = _ENTRIES.sub(lambda found: b"" if hidden in found[0] else found[0], b"".join(parts))
        headers["Content-Length"] = str(len(body))
        start(status, headers.to_wsgi_list())
        return [body]


def refused(environ: Environ, start: Start, status: str, code: str, message: str) -> Iterable[bytes]:
    """Return an answer of the store itself.

    The request body is read first, or the client would see a broken connection.
    """
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    body = b"" if environ["REQUEST_METHOD"] == "HEAD" else _ERROR.format(code=code, message=message).encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


class Quiet(WSGIRequestHandler):
    """A request handler without logs that keeps connections open as S3 does."""

    protocol_version = "HTTP/1.1"

    def log(self, *_message: Any) -> None:
        """Drop log messages."""


def main() -> None:
    server = make_server("127.0.0.1", 0, Faulty(), threaded=True, request_handler=Quiet)
    print(server.port, flush=True)  # noqa: T201 - the parent process waits for this line
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
