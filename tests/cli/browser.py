"""A page in headless Chromium, by its DevTools protocol over two pipes: no server, no other package.

Everything that a page says or asks for is kept: messages of the console, uncaught exceptions, violations of
its policy, and requests.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import time

PATIENCE_S = 60


def find_browser():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    def __init__(self, folder):
        """`folder`: for its profile, which it may fill."""
        ours, theirs = [], []
        for _ in range(2):
            # Beyond the numbers that the child's ends get.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in os.pipe()]
            ours.append(ends[1])
            theirs.append(ends[0])
        self.to_browser, self.from_browser = ours[0], theirs[1]
        arguments = [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--no-first-run", "--disable-background-networking", "--disable-component-update",
                     "--hide-scrollbars", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        actions = [(os.POSIX_SPAWN_DUP2, theirs[0], 3), (os.POSIX_SPAWN_DUP2, ours[1], 4),
                   (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                   (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        self.process = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=actions)
        os.close(theirs[0])
        os.close(ours[1])
        self.buffer, self.last_id, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        finally:
            os.close(self.to_browser)
            os.close(self.from_browser)
            os.waitpid(self.process, 0)

    def message(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.from_browser, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser has ended" if ready else "the browser does not answer")
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.last_id += 1
        request = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        rest = json.dumps(request).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.to_browser, rest):]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + PATIENCE_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(deadline))

    def evaluate(self, expression):
        """Its value; a promise is awaited. A few frames pass before it and after it, so that layout has settled."""
        frames = "for (let i = 0; i < 3; ++i) await new Promise(done => requestAnimationFrame(done));"
        settled = f"(async () => {{ {frames} const value = await ({expression}); {frames} return value; }})()"
        found = self.call("Runtime.evaluate", expression=settled, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def press(self, key, code, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **({"text": text} if kind == "keyDown" and text else {}))

    def complaints(self):
        """The faults that a page may have; an empty list is a page without faults."""
        bad = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                bad.append(parameters["exceptionDetails"].get("exception", {}).get("description"))
            elif method == "Runtime.consoleAPICalled":
                bad.append(f"console.{parameters['type']}: {parameters['args']}")
            elif method == "Log.entryAdded":
                bad.append(parameters["entry"]["text"])
        return bad

    def requests(self):
        """The addresses that the page asked for, with data and blob addresses left out."""
        asked = [event["params"]["request"]["url"] for event in self.events
                 if event.get("method") == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def view(self, width, height=900, scheme="light", media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
