"""Photograph the pages of the site and check that nothing is cut off.

``python doc/scripts/screenshots.py doc/_build SHOTS [PATTERN ...]`` opens every page (or those that
match a pattern, such as ``get_started.html``) in headless Chromium at three widths, light and dark.
It writes one picture each to the folder SHOTS and prints what is wrong:

- the page is wider than the window, and which elements stick out;
- a table or a block of code sticks out of its column and cannot be scrolled;
- a block of code wraps its lines;
- an image is missing.

The exit status is 1 if anything was found. Chromium is driven over a pipe: nothing else is needed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = 1400, 800, 400
THEMES = "light", "dark"
CHECK = """(() => {
  const found = [], wide = document.documentElement.clientWidth + 1;
  const say = (what, node) => found.push(
    what + ': <' + node.localName + ' class="' + (node.getAttribute('class') || '') + '"> ' +
    (node.textContent || node.src || '').trim().slice(0, 60).replace(/\\s+/g, ' '));
  const scrolls = node => {
    for (let at = node; at && !at.matches('body, .bd-article-container'); at = at.parentElement)
      if (getComputedStyle(at).overflowX !== 'visible') return true;
    return false;
  };
  const shown = node => node.checkVisibility() && node.getBoundingClientRect().width > 1;
  if (document.scrollingElement.scrollWidth > wide) say('page is too wide', document.body);
  for (const node of document.querySelectorAll('.bd-main *, footer *, header *'))
    if (shown(node) && node.getBoundingClientRect().right > wide && !scrolls(node))
      say('sticks out', node);
  for (const node of document.querySelectorAll('article table'))
    if (shown(node) && node.getBoundingClientRect().width > node.parentElement.clientWidth + 1
        && getComputedStyle(node.parentElement).overflowX !== 'auto') say('table is cut', node);
  for (const node of document.querySelectorAll('article pre')) {
    const style = getComputedStyle(node);
    if (shown(node) && style.whiteSpace !== 'pre') say('code wraps', node);
    if (shown(node) && node.scrollWidth > node.clientWidth + 1 && style.overflowX !== 'auto')
      say('code is cut', node);
  }
  for (const node of document.querySelectorAll('article img'))
    if (node.complete && !node.naturalWidth) say('image is missing', node);
  return found;
})()"""


class Chromium:
    """A headless browser, which reads commands from one pipe and answers on another."""

    def __init__(self) -> None:
        program = shutil.which("chromium") or shutil.which("google-chrome") or "chromium-browser"
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        arguments = (
            "--headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe "
            f"--allow-file-access-from-files --user-data-dir={self.profile.name}"
        )
        # The browser expects its pipes as the descriptors 3 and 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "{program}" {arguments} 3<&{to_browser} 4>&{from_browser}'],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser), os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        self.call("Page.enable")

    def message(self) -> dict:
        """Return the next message of the browser."""
        while b"\0" not in self.buffer:
            read = os.read(self.answers, 1 << 20)
            if not read:
                raise RuntimeError("the browser has ended")
            self.buffer += read
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def call(self, method: str, until: str | None = None, **params: object) -> dict:
        """Return the answer to a command, once the event `until` has happened, too."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        answer = None
        while answer is None or until:
            said = self.message()
            if said.get("id") == self.number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                answer = said["result"]
            elif said.get("method") == until:
                until = None
        return answer

    def page(self, url: str, width: int, theme: str) -> list[str]:
        """Open a page and return what is wrong with it."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.call("Page.navigate", until="Page.loadEventFired", url=url)
        answer = self.call("Runtime.evaluate", expression=CHECK, returnByValue=True)["result"]
        return answer["value"] if "value" in answer else [answer["description"]]

    def picture(self) -> bytes:
        """Return a picture of the page, to its end or to 16,000 pixels."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000)}
        shot = self.call(
            "Page.captureScreenshot",
            format="jpeg", quality=60, captureBeyondViewport=True, clip={**clip, "scale": 1},
        )  # fmt: skip
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """End the browser."""
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()


def main() -> int:
    """Check the pages that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("html", type=Path, help="folder of the built site")
    parser.add_argument("shots", type=Path, help="folder for the pictures")
    parser.add_argument("patterns", nargs="*", default=["**/*.html"])
    arguments = parser.parse_args()
    pages = sorted({page for one in arguments.patterns for page in arguments.html.glob(one)})
    browser, failures = Chromium(), 0
    try:
        for page in pages:
            name = str(page.relative_to(arguments.html).with_suffix("")).replace("/", ".")
            for width in WIDTHS:
                for theme in THEMES:
                    found = browser.page(page.resolve().as_uri(), width, theme)
                    picture = arguments.shots / f"{name}.{width}.{theme}.jpg"
                    picture.parent.mkdir(parents=True, exist_ok=True)
                    picture.write_bytes(browser.picture())
                    for line in found:
                        failures += 1
                        print(f"{name}, {width} pixels, {theme}: {line}")
    finally:
        browser.close()
    print(f"{len(pages)} pages, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
