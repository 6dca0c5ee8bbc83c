# release build only
"""docs/ builds as a site without a warning, all its links, anchors and pictures are there, and the check of that finds
what it is there for. In a browser, from the folder and without a server: the search finds pages, nothing is wider than
the window but what scrolls by itself, and light and dark can be chosen. axe-core looks at the pages where LARDER_AXE
names its axe.min.js."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import browser_kit  # noqa: E402
from process_kit import wait_for  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ["docs/index", "docs/guide/share", "docs/questions/peers", "docs/questions/errors", "docs/results/gpu",
         "docs/results/svm-cache", "README"]

# What ends outside of the window, but for what lies in a frame that scrolls.
OVER = """return [...document.querySelectorAll('article *')].filter((e) => e.getBoundingClientRect().right > innerWidth &&
    !e.closest('.table-wrapper table, pre')).map((e) => e.outerHTML.slice(0, 100))"""


def build(site):
    p = subprocess.run([ROOT / "tools/site.sh", site])
    if p.returncode == 77:
        print("skipped: no Sphinx, MyST or Furo (tools/install-packages.sh site)")
        sys.exit(77)
    assert p.returncode == 0, "the site does not build"
    assert "docs/index.html" in (site / "index.html").read_text()
    for page in PAGES:
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        assert 'class="caption-text">Questions<' in text, f"{page}: no list of pages at its side"


def says(site):
    p = subprocess.run([ROOT / "tools/check-site.py", site], stdout=subprocess.PIPE)
    assert p.returncode == 1, p.stdout
    return p.stdout.decode().splitlines()


def test_check(site, spoilt):
    shutil.copytree(site, spoilt)
    with open(spoilt / "docs/guide/start.html", "a") as f:
        f.write('<a href="gone.html">x</a><a href="recipes.html#none">x</a><img src="none.png">'
                '<script src="//x.org/x.js"></script>')
    (spoilt / "searchindex.js").unlink()
    found = says(spoilt)
    for what in ("there is no gone.html", "docs/guide/recipes.html has no #none", "there is no none.png",
                 "a picture without words: none.png", "loads //x.org/x.js from elsewhere"):
        assert f"docs/guide/start.html: {what}" in found, (what, found)
    assert "there is no index to search in" in found, found


def search(browser, site, words):
    """The pages found, or none at all."""
    browser.open(f"file://{site}/search.html?q={words}")
    done = "return document.querySelector('.search-summary') && document.querySelector('.search-summary').innerText"
    wait_for(lambda: "found" in (browser.run(done) or "") or "did not match" in (browser.run(done) or ""))
    count = browser.run("return document.querySelectorAll('.search li a').length")
    return browser.run("return [...document.querySelectorAll('.search li a')].map((a) => a.getAttribute('href'))"), count


def test_search(browser, site):
    for words, page in (("wants+a+password", "docs/questions/errors.html"), ("prefetch", "docs/guide/data.html"),
                        ("alluxio", "docs/questions/peers.html")):
        found, _ = search(browser, site, words)
        assert any(f.split("?")[0].split("#")[0] == page for f in found), (words, found)
    browser.shoot("search")
    found, count = search(browser, site, "xyzzyplugh")
    assert count == 0, found


def test_pages(browser, site):
    for width, what in ((1280, "wide"), (390, "phone")):
        browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        for page in PAGES:
            browser.open(f"file://{site}/{page}.html")
            over = browser.run(OVER)
            assert not over, f"{page}: beyond a window of {width}: {over}"
            browser.shoot(f"site-{what}-{page.replace('/', '-')}")
    browser.devtools("Emulation.clearDeviceMetricsOverride")


def test_theme(browser, site):
    browser.open(f"file://{site}/docs/guide/share.html")
    ground = "return getComputedStyle(document.body).backgroundColor"
    seen = set()
    for _ in range(3):
        mode = browser.run("return document.body.dataset.theme")
        seen.add((mode, browser.run(ground)))
        browser.shoot(f"site-{mode}")
        browser.run("document.querySelector('.theme-toggle-content button, button.theme-toggle').click()")
    assert {mode for mode, _ in seen} == {"auto", "light", "dark"}, seen
    assert len({colour for _, colour in seen}) == 2, seen


def test_axe(browser, site):
    for page in PAGES:
        browser.open(f"file://{site}/{page}.html")
        wrong = browser.axe()
        assert not wrong, f"{page}: " + "\n".join(wrong)


def main():
    with tempfile.TemporaryDirectory(prefix="larder-site-") as name:
        site = pathlib.Path(name) / "site"
        build(site)
        test_check(site, pathlib.Path(name) / "spoilt")
        if browser_kit.missing():
            print("not tried in a browser: no chromium with chromedriver (tools/install-packages.sh long)")
            return
        browser = browser_kit.Browser(str(pathlib.Path(name) / "browser"))
        try:
            test_search(browser, site)
            test_pages(browser, site)
            test_theme(browser, site)
            wrong = browser.complaints()
            assert not wrong, wrong
            if "LARDER_AXE" in os.environ:  # at last: it asks for styles, which a folder refuses with a complaint
                test_axe(browser, site)
            print("ok")
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(main())
