"""A headless browser for tests of pages, driven by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
_SECONDS = 60.0


class Browser:
    """One window. Opening a page again in `new_window()` shows what the browser keeps beyond a tab."""

    def __init__(self, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        # The browser reads commands from descriptor 3 and answers on 4. (bash: sh need not take numbers above 9.)
        shell = ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash"]
        self._process = subprocess.Popen(
            [*shell, PROGRAM, *options, f"--user-data-dir={profile}"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._count = 0
        self._session = ""
        self.new_window()

    def new_window(self) -> None:
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def open(self, url: str) -> None:
        self._ask("Page.navigate", self._session, url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        found = self._ask("Runtime.evaluate", self._session, expression=script, returnByValue=True)
        return found["result"].get("value")

    def text(self) -> str:
        return str(self.run("document.body ? document.body.innerText : ''"))

    def wait(self, script: str) -> None:
        """Until this is true in the page."""
        deadline = time.monotonic() + _SECONDS
        while not self.run(script):
            assert time.monotonic() < deadline, f"{script} is not true of: {self.text()}"
            time.sleep(0.05)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", self._session)["data"]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def _ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        os.write(
            self._commands, json.dumps({**message, **({"sessionId": session} if session else {})}).encode() + b"\0"
        )
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                found: dict[str, Any] = answer["result"]
                return found

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._answers, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        whole, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(whole)
        return found
