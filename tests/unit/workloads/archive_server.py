"""A local web server with one file, byte ranges, and the faults of real servers."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Answers of the server and recorded requests."""

    content: bytes
    tag: str | None = '"v1"'
    ranges: bool = True
    cut_after: int | None = None
    """Number of bytes of an answer after which the connection ends."""
    status: int | None = None
    wrong_part: bool = False
    asked: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def served(site: Site) -> Iterator[str]:
    """Start a server and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            site.asked.append(self.headers.get("Range"))
            site.paths.append(self.path)
            if site.status:
                self.send_error(site.status)
                return
            start = self._start()
            if start > 0 and start >= len(site.content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            body = site.content[start:]
            if start:
                said = start + 1 if site.wrong_part else start
                total = len(site.content)
                self.send_header("Content-Range", f"bytes {said}-{total - 1}/{total}")
            self.send_header("Content-Length", str(len(body)))
            if site.tag:
                self.send_header("ETag", site.tag)
            self.end_headers()
            self.wfile.write(body[: site.cut_after])

        def _start(self) -> int:
            match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            same = self.headers.get("If-Range") == site.tag
            return int(match[1]) if match and same and site.ranges else 0

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
