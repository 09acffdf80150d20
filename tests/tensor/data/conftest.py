"""A mirror on this machine, and an environment that points at no data of the user's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tensor.data.fetch import Url


@pytest.fixture(autouse=True)
def no_data_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMOLGRAD_DATA", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@dataclass
class MirrorServer:
    """What a server on 127.0.0.1 answers, and what it was asked."""

    port: int
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str, body: bytes, status: int = 200) -> Url:
        """Have the server send ``body`` for ``path``; return the address as a mirror."""
        self.answers[path] = status, body
        return Url(f"http://127.0.0.1:{self.port}/{path}")


@pytest.fixture
def server() -> Iterator[MirrorServer]:
    """A server of files; the path ``stall`` is answered only when the test is over."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/")
            mirror.asked.append(path)
            if path == "stall":
                mirror.released.wait(30)
            status, body = mirror.answers[path]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **mirror.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        mirror = MirrorServer(listening.server_port)
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield mirror
        mirror.released.set()
        listening.shutdown()
        thread.join()
