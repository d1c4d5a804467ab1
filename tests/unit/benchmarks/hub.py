"""A small Hugging Face hub: the two requests with which a file of a data set is fetched, on a real socket."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def hub(files: dict[str, bytes], error: tuple[int, str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """The hub's address and the paths that were asked for. `error`: a status and the hub's own code for it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(send=False)

        def do_GET(self) -> None:
            self.answer(send=True)

        def answer(self, send: bool) -> None:
            asked.append(self.path)
            content = files.get(self.path)
            status, code = error or ((200, "") if content is not None else (404, "EntryNotFound"))
            content = content if status == 200 and content is not None else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"made-up"')
            self.send_header("X-Repo-Commit", self.path.partition("/resolve/")[2].partition("/")[0])
            if code:
                self.send_header("X-Error-Code", code)
            self.end_headers()
            if send:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
