"""A real Chromium for tests of pages, driven by its DevTools protocol over a WebSocket.

`Chromium` is one process; `page()` opens a tab in a profile of its own, which keeps what went
wrong: messages of errors, exceptions, requests that failed, and every URL that was asked for.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_WAIT_S = 60.0


def find_chromium() -> str | None:
    """A Chromium on the PATH; `CHROMIUM` names another."""
    found = (os.environ.get("CHROMIUM"), *map(shutil.which, _NAMES))
    return next((path for path in found if path), None)


class Chromium:
    """Owns the process.  Its profile is in `folder`."""

    def __init__(self, path: str, folder: Path) -> None:
        self._log = folder / "chromium.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update",
                    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
                    f"--user-data-dir={folder / 'profile'}", "about:blank",
                ],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._url = self._await_url(folder / "profile" / "DevToolsActivePort")

    def _await_url(self, file: Path) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                port, path = file.read_text().split()
                return f"ws://127.0.0.1:{port}{path}"
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self.stop()
        pytest.fail(f"Chromium did not start:\n{self._log.read_text(errors='replace')[-3000:]}")

    def stop(self) -> None:
        """Ends the process and all of its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @contextlib.contextmanager
    def page(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Page]:
        """A new tab with cookies and storage of its own."""
        with connect(self._url, max_size=64 << 20, open_timeout=30) as socket:
            page = Page(socket)
            page.size(width, height, dark=dark)
            yield page
            page.call("Target.disposeBrowserContext", browserContextId=page.context, whole=True)


class Page:
    """One tab.

    Attributes:
        troubles: errors of the console, exceptions and failed requests, as text.
        urls: everything that was asked for.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._session = ""
        self.troubles: list[str] = []
        self.urls: list[str] = []
        self.context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=self.context)
        found = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, *, whole: bool = False, **params: Any) -> dict[str, Any]:
        """A command and its answer; `whole`: of the browser, not of this tab."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session and not whole:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            found = json.loads(self._socket.recv(timeout=60))
            if found.get("id") == number:
                assert "error" not in found, f"{method}: {found['error']}"
                result: dict[str, Any] = found["result"]
                return result
            self._heard(found)

    def _heard(self, event: dict[str, Any]) -> None:
        name, told = event.get("method"), event.get("params", {})
        if name == "Network.requestWillBeSent":
            self.urls.append(told["request"]["url"])
        elif name == "Runtime.exceptionThrown":
            self.troubles.append(str(told["exceptionDetails"]))
        elif name == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.troubles.append(str(told["args"]))
        elif name == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.troubles.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window, and whether the reader likes it dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Goes there; use `wait` for what it shows."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, f"{script}: {found['exceptionDetails']}"
        return found["result"].get("value")

    def wait(self, script: str, what: str = "") -> None:
        """Until the expression is true, as JavaScript sees it."""
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):  # the page is being replaced
                if self.run(f"!!({script})"):
                    return
            time.sleep(0.03)
        text = self.run("document.body.innerText")
        raise AssertionError(
            f"{what or script}: not so in {_WAIT_S:g} s.  The page says:\n{text}\n{self.troubles}"
        )

    def text(self, selector: str) -> str:
        """The text that an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return int(self.run(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def click(self, selector: str) -> None:
        """As a mouse does, in the middle of the element, once it keeps its place."""
        place = self.run(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'});"
            "const look = () => { const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2] };"
            "let before = [], now = look();"
            "while (before.join() !== now.join()) {"
            "await new Promise((r) => setTimeout(r, 50)); before = now; now = look() }"
            "return now })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind, x=place[0], y=place[1], button="left", clickCount=1,
            )  # fmt: skip

    def drag(self, selector: str, start: float, end: float) -> None:
        """As a mouse does, over the middle of an element, between two shares of its width."""
        box = self.run(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            f"return [b.x, b.y + b.height / 2, b.width] }})(document.querySelector({selector!r}))"
        )
        steps = (("mousePressed", start), ("mouseMoved", (start + end) / 2),
                 ("mouseMoved", end), ("mouseReleased", end))  # fmt: skip
        for kind, share in steps:
            self.call(
                "Input.dispatchMouseEvent",
                type=kind, x=box[0] + share * box[2], y=box[1], button="left", buttons=1,
                clickCount=1,
            )  # fmt: skip

    def key(self, key: str, *, ctrl: bool = False) -> None:
        """One key, as its name in JavaScript: `Enter`, `Tab`, `7`, `/`."""
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowRight": 39, "ArrowLeft": 37}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        given: dict[str, Any] = {"key": key, "modifiers": 2 if ctrl else 0}
        given["windowsVirtualKeyCode"] = code
        if text and not ctrl:
            self.call("Input.dispatchKeyEvent", **given, type="keyDown", text=text)
        else:
            self.call("Input.dispatchKeyEvent", **given, type="rawKeyDown")
        self.call("Input.dispatchKeyEvent", **given, type="keyUp")

    def write(self, text: str) -> None:
        """Types text into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A PNG of the page, `whole` as long as it is."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
