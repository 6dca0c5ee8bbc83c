"""A headless Chromium, driven by chromedriver over plain HTTP."""

import base64
import json
import os
import shutil
import subprocess
import urllib.request

from ports import free_port
from process_kit import wait_for

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--window-size=1200,1600"]


def missing():
    return not shutil.which("chromedriver") or not shutil.which("chromium")


class Browser:
    def __init__(self, folder):
        self.at = "http://127.0.0.1:%d" % free_port()
        self.p = subprocess.Popen(["chromedriver", "--port=" + self.at.rsplit(":", 1)[1]],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = ""
        wait_for(self.awake)
        chrome = {"args": FLAGS + ["--user-data-dir=" + folder]}
        got = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": chrome,
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.base = "/session/" + got["sessionId"]

    def awake(self):
        try:
            return self.call("GET", "/status")["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        r = urllib.request.Request(self.at + self.base + path, data=data, method=method,
                                   headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(r, timeout=240) as answer:
            return json.load(answer)["value"]

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def devtools(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def axe(self):
        """What axe-core finds wrong with this page."""
        file = os.environ.get("LARDER_AXE")
        if not file:
            print("no LARDER_AXE (axe.min.js of the npm package axe-core): accessibility is not checked")
            return []
        with open(file, encoding="utf-8") as f:
            self.run(f.read())
        return self.call("POST", "/execute/async", {"args": [], "script":
                         "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then("
                         "(r) => done(r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target + ' ' + n.failureSummary).join('; '))))"})

    def shoot(self, name):
        out = os.environ.get("LARDER_SHOTS")  # a folder, for those who want to look
        if out:
            with open(os.path.join(out, name + ".png"), "wb") as f:
                f.write(base64.b64decode(self.call("GET", "/screenshot")))

    def complaints(self):
        """But for the network: a server that is gone is part of the test."""
        return [e["message"] for e in self.call("POST", "/se/log", {"type": "browser"})
                if e["level"] == "SEVERE" and "net::ERR" not in e["message"]]

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.p.terminate()
            self.p.wait()
