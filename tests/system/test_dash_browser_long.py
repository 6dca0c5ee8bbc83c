"""The page of larder dash in a headless Chromium, driven by chromedriver over plain HTTP: what it
shows, its states, a phone's width, dark and light, values under pointer and keys, and that names stay
text; and a report at 1280 pixels. Both pages are looked at by axe-core where LARDER_AXE names its axe.min.js."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import browser_kit  # noqa: E402
from ports import free_port  # noqa: E402
from see_kit import Dash, end, start_job, wait_for, write_idx  # noqa: E402

if browser_kit.missing():
    print("no chromium with chromedriver")
    sys.exit(77)


class Browser(browser_kit.Browser):
    def status(self):
        return self.run("return document.getElementById('status').dataset.state")

    def text(self, where):
        return self.run(f"return document.getElementById('{where}').innerText")


def check(browser, folder):
    port = free_port()
    address = "127.0.0.1:%d" % port
    dash = Dash("--http", address)
    job = other = None
    try:
        browser.open(dash.url)
        wait_for(lambda: browser.status() in ("none", "live", "ended"))
        if browser.status() == "none":  # another job of this user may be running
            assert "No job yet" in browser.text("none")
            browser.shoot("none")
        name = os.path.join(folder, "<img src=x onerror=document.title=1>")
        os.mkdir(name)
        write_idx(name)
        job = start_job(name, "--on-bad", "skip")
        wait_for(lambda: str(job.pid) in browser.text("jobs"))
        browser.run(f"document.getElementById('job').value = '{job.pid}.1';"
                    "document.getElementById('job').dispatchEvent(new Event('change'))")
        wait_for(lambda: browser.status() == "live")
        wait_for(lambda: "epoch" in browser.text("ledger") and "%" in browser.text("t-hits"))
        wait_for(lambda: browser.run("return document.querySelectorAll('#c-scores rect').length > 10"))
        wait_for(lambda: browser.run("return document.querySelectorAll('#c-accuracy path').length > 0"))
        for chart in ("c-rate", "c-kinds", "c-read", "c-stall", "c-loss"):
            wait_for(lambda: browser.run(f"return document.querySelectorAll('#{chart} path').length") > 0)
        wait_for(lambda: browser.run("return document.querySelectorAll('#c-map rect').length") > 10)
        assert len(browser.text("verdict")) > 20 and len(browser.text("audit")) > 10
        charts(browser)
        assert browser.axe() == [], browser.axe()
        # What a job says is text, whatever it says.
        assert "<img src=x" in browser.text("jobs")
        assert browser.run("return document.images.length") == 0
        assert browser.run("return document.title").startswith("larder")
        browser.shoot("live-light")
        # Every curve is bounded, also after a day's worth of looks.
        assert browser.run("const c = curveOf('x.1'); for (let i = 0; i < 90000; i++)"
                           "addPoint(c, i, [1, 2, 3, 4, 5, 6, 0.5, 1]);"
                           "const n = c.times.length; curves.delete('x.1'); return n") <= 512
        looks(browser)
        # By keyboard alone: j goes to the next job.
        other = start_job(name, recipe="lru")
        wait_for(lambda: str(other.pid) in browser.text("jobs"))
        before = browser.run("return chosen")
        browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'j'}))")
        wait_for(lambda: browser.run("return chosen") != before)
        browser.run(f"choose('{job.pid}.1')")
        end(job)
        wait_for(lambda: browser.status() == "ended")
        assert "has ended" in browser.text("ended")
        assert str(job.pid) not in browser.text("jobs")
        # Others run, and nobody asked for one of them.
        wait_for(lambda: "other" in browser.text("ended"))
        kept, now = browser.run("chosen = keyOf(state.ended[0]); show(); show(); return [chosen === keyOf(state.ended[0]), "
                                "document.getElementById('now').checkVisibility()]")  # at once: others end meanwhile
        assert kept and not now, "of an ended job there is no now"
        browser.shoot("ended")
        code, _ = dash.close()
        wait_for(lambda: browser.status() == "lost")
        browser.shoot("lost")
        dash = Dash("--http", address)  # comes back by itself
        wait_for(lambda: browser.status() != "lost")
        wait_for(lambda: str(other.pid) in browser.text("jobs"))
        assert browser.complaints() == [], browser.complaints()
        assert code == 143, code
    finally:
        for p in (job, other):
            if p:
                end(p)
        dash.close()


def charts(browser):
    """Numbers at the left, a grid, and what stands under the pointer or was read by arrow keys."""
    at = "document.querySelectorAll('#c-rate %s').length"
    wait_for(lambda: browser.run("return " + at % ".tick") >= 2)
    assert browser.run("return " + at % ".gridline") == browser.run("return " + at % ".tick")
    assert browser.run("return " + at % ".readout") == 0
    browser.run("const b = document.getElementById('c-rate'), r = b.querySelector('svg').getBoundingClientRect();"
                "b.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + r.width / 3, clientY: r.top + 9}))")
    words = browser.run("return document.querySelector('#c-rate .readout').textContent")
    assert " ago: samples " in words and words.endswith("/s"), words
    time.sleep(2.5)  # the page has been drawn again meanwhile
    assert browser.run("return " + at % ".readout") == 1
    browser.shoot("pointer")
    browser.run("document.getElementById('c-rate').dispatchEvent(new PointerEvent('pointerleave'))")
    assert browser.run("return " + at % ".readout") == 0
    key = "const b = document.getElementById('c-kinds'); b.focus(); b.dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}));"
    browser.run(key % "ArrowLeft")
    heard = browser.run("return document.getElementById('said').textContent")
    assert "hits " in heard and "misses " in heard, heard
    browser.run(key % "Escape")
    assert browser.run("return document.querySelectorAll('#c-kinds .readout').length") == 0
    assert browser.run("return JSON.stringify([ticksOf(0, 1), ticksOf(0, 4700), ticksOf(0.2, 0.2)])") == \
        "[[0,0.2,0.4,0.6,0.8,1],[0,1000,2000,3000,4000],[0.2]]"
    wait_for(lambda: "the last" in browser.text("h-now"))
    assert browser.text("verdict-now") and browser.text("verdict") != browser.text("verdict-now")


def report(browser, folder):
    """What was served from where is seen without scrolling, names do not cover one another."""
    data = os.path.join(folder, "data")
    os.mkdir(data)
    write_idx(data)
    for recipe in ("minio", "lru", "quiver", "rotate:h=0.5", "rotate:h=0.8"):
        for seed in ("1", "2"):
            subprocess.run([os.environ["LARDER"], "train", data, "--recipe", recipe, "--epochs", "2", "--batch", "64",
                            "--seed", seed, "--quiet", "--out", f"{folder}/runs/{recipe}-{seed}"], check=True,
                           stdout=subprocess.DEVNULL)
    runs = sorted(os.path.join(folder, "runs", n) for n in os.listdir(os.path.join(folder, "runs")))
    page = os.path.join(folder, "r.html")
    subprocess.run([os.environ["LARDER"], "report", *runs, "-o", page], check=True, stdout=subprocess.DEVNULL)
    browser.devtools("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.open("file://" + page)
    right = browser.run("const out = {}; for (const th of document.querySelector('table').querySelectorAll('thead th'))"
                        "out[th.textContent] = th.getBoundingClientRect().right; return out")
    for name in ("acc %", "hits %", "subst %", "repeats %", "misses %"):
        assert right[name] <= 1280, (name, right)
    charts = browser.run("return [...document.querySelectorAll('.charts svg')].map((svg) => "
                         "[...svg.querySelectorAll('text[font-size=\"11\"]')]"
                         ".map((t) => { const r = t.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; }))")
    assert max(map(len, charts)) >= 3, charts
    for boxes in charts:
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3], (a, b)
    assert browser.axe() == [], browser.axe()
    browser.shoot("report")
    for count in (2, 6, 14):
        many_names(browser, folder, runs[0], [f"rotate:h=0.8,until=0.{k:02}" for k in range(count)])
    many_names(browser, folder, runs[0], ["W" * 200, "m" * 200, "番" * 80, "lru"])


def many_names(browser, folder, run, names):
    """A report of runs with these names: each is in every legend, nothing runs out of its picture or over other text."""
    copies = tempfile.mkdtemp(dir=folder)
    for k, name in enumerate(names):
        copy = shutil.copytree(run, os.path.join(copies, str(k)))
        with open(os.path.join(copy, "meta.json"), "r+") as f:
            meta = dict(json.load(f), name=name, recipe=name)
            f.seek(0)
            f.write(json.dumps(meta) + "\n")
            f.truncate()
    page = os.path.join(copies, "r.html")
    subprocess.run([os.environ["LARDER"], "report", *(f"{copies}/{k}" for k in range(len(names))), "-o", page], check=True,
                   stdout=subprocess.DEVNULL)
    browser.open("file://" + page)
    charts = browser.run("const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };"
                         "return [...document.querySelectorAll('.charts svg')].map((svg) => ({box: box(svg), texts:"
                         "[...svg.querySelectorAll('text')].map((t) => ({box: box(t), turned: t.hasAttribute('transform'),"
                         "name: t.querySelector('title') ? t.querySelector('title').textContent : t.textContent}))}))")
    assert len(charts) > 6
    for chart in charts:
        assert {t["name"] for t in chart["texts"]} >= set(names), (names, chart)
        left, top, right, bottom = chart["box"]
        for i, t in enumerate(chart["texts"]):
            a = t["box"]
            assert a[0] >= left and a[1] >= top and a[2] <= right and a[3] <= bottom, (t, chart["box"])
            for u in chart["texts"][:i]:
                b = u["box"]  # lines of 17 pixels may touch; 1 is for rounding
                assert t["turned"] or u["turned"] or a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] - 1 or b[1] >= a[3] - 1, (t, u)
    browser.shoot(f"report-{len(names)}")


def looks(browser):
    """A phone: nothing runs out of the page. Dark: other colours."""
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.devtools("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert browser.run("return getComputedStyle(document.body).backgroundColor") != light
    browser.shoot("live-dark")
    browser.devtools("Emulation.setDeviceMetricsOverride", width=375, height=812,
                     deviceScaleFactor=1, mobile=True)
    time.sleep(1.5)
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "too wide"
    browser.shoot("phone")
    browser.devtools("Emulation.clearDeviceMetricsOverride")
    browser.devtools("Emulation.setEmulatedMedia", features=[])


def main():
    folder = tempfile.mkdtemp()
    browser = None
    try:
        browser = Browser(os.path.join(folder, "profile"))
        report(browser, folder)
        check(browser, folder)
    finally:
        if browser:
            browser.close()
        shutil.rmtree(folder, ignore_errors=True)


main()
