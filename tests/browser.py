"""Pictures of web pages from a headless Chromium, through a small client of its DevTools protocol.

screenshot(server.ui_url, Path("dashboard.png"), wait_for="document.body.innerText.includes('Completed')")

with browser() as page:
    page.open(url)
    page.click(text="Task Runs")
    page.screenshot(path)
"""

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

QUIET = [
    "--headless",
    "--no-sandbox",  # root, and most containers, cannot have it
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers give 64 MB
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


class Page:
    """One tab. `evaluate` runs JavaScript; everything else is built on it."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ids = itertools.count(1)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command."""
        wanted = next(self._ids)
        self._socket.send(json.dumps({"id": wanted, "method": method, "params": params}))
        while (message := json.loads(self._socket.recv(timeout=60))).get("id") != wanted:
            pass  # an event
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return dict(message["result"])

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, url: str, wait_s: float = 20) -> None:
        """Go to a page and wait until it has loaded and, for a second, has fetched nothing more."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState == 'complete'", wait_s)
        self.settle(wait_s)

    def wait(self, condition: str, wait_s: float = 20) -> None:
        """Wait until the JavaScript condition holds."""
        deadline = time.monotonic() + wait_s
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                text = self.evaluate("document.body.innerText")
                raise TimeoutError(f"not within {wait_s} s: {condition}; the page says:\n{text}")
            time.sleep(0.1)

    def settle(self, wait_s: float = 20, quiet_s: float = 1.0) -> None:
        """Wait until no fetch has started for a while, at most `wait_s`: pages that poll never rest."""
        deadline, fetched, since = time.monotonic() + wait_s, -1, time.monotonic()
        while time.monotonic() < min(deadline, since + quiet_s):
            time.sleep(0.1)
            now = self.evaluate("performance.getEntriesByType('resource').length")
            if now != fetched:
                fetched, since = now, time.monotonic()

    def click(self, selector: str = "*", *, text: str | None = None, wait_s: float = 20) -> None:
        """Click the innermost element that the CSS selector finds and whose text is `text`, once it is there."""
        same_text = "true" if text is None else f"element.innerText?.trim() == {json.dumps(text)}"
        element = f"[...document.querySelectorAll({json.dumps(selector)})].findLast(element => {same_text})"
        self.wait(element, wait_s)
        self.evaluate(f"{element}.click()")
        self.settle()

    def screenshot(self, path: Path) -> None:
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(picture))


@contextmanager
def browser(*, width: int = 1400, height: int = 900) -> Iterator[Page]:
    from websockets.sync.client import connect

    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        path = chromium_path()
        if path is None:
            raise RuntimeError("Chromium is missing: apt-get install chromium, or set CHROME to its path")
        command = [path, *QUIET, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        chromium = subprocess.Popen(
            [*command, "--remote-debugging-port=0", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": profile},
            start_new_session=True,
        )
        try:
            with connect(_tab(Path(profile), chromium), max_size=None, proxy=None) as socket:
                page = Page(socket)
                # The window would count a browser's frame in; the picture shall have exactly this size.
                page.call(
                    "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
                )
                yield page
        finally:
            os.killpg(chromium.pid, signal.SIGKILL)  # it has many processes, and nothing worth saving
            chromium.wait()


def screenshot(
    url: str, path: Path, *, width: int = 1400, height: int = 900, wait_for: str = "true", wait_s: float = 20
) -> None:
    """A picture of the page, once it has settled and the JavaScript condition `wait_for` holds."""
    with browser(width=width, height=height) as page:
        page.open(url, wait_s)
        page.wait(wait_for, wait_s)
        page.screenshot(path)


def chromium_path() -> str | None:
    """Where Chromium is, if it is."""
    return os.environ.get("CHROME") or shutil.which("chromium") or shutil.which("google-chrome")


def _tab(profile: Path, chromium: "subprocess.Popen[bytes]", wait_s: float = 30) -> str:
    """The DevTools address of the first tab. Chromium writes its port into the profile once it listens."""
    import httpx

    deadline, port_file = time.monotonic() + wait_s, profile / "DevToolsActivePort"
    while time.monotonic() < deadline and chromium.poll() is None:
        if port_file.exists() and (lines := port_file.read_text().split()):
            targets = httpx.get(f"http://127.0.0.1:{lines[0]}/json/list", trust_env=False).json()
            if pages := [target for target in targets if target["type"] == "page"]:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise RuntimeError("Chromium did not start")
