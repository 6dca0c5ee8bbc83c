"""How `make site` makes docs/ into pages. docs/*.md are plain Markdown, to be read as they are where code is
hosted; what a site needs besides is made here: the list of pages at the side follows from docs/index.md."""
import os
import re

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
INDEX = "docs/index"

project = "larder"
author = copyright = ""
with open(os.path.join(ROOT, "include/larder/larder.h"), encoding="utf-8") as f:
    release = re.search(r'#define LARDER_VERSION "([^"]*)"', f.read())[1]

# The root of the tree is the source, so that links out of docs/ hold: pages lead to pages, other files are
# taken along to be downloaded.
extensions = ["myst_parser"]
root_doc = INDEX
include_patterns = ["*.md", "docs/**"]
exclude_patterns = ["build", "dist", "report", ".*", "bench", "debian", "examples", "include", "python", "share", "src",
                    "tests", "tools", "env"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6  # the anchors that code-hosting pages have
suppress_warnings = ["toc.excluded"]
highlight_language = "none"  # most blocks are commands with comments, or what they print
pygments_style = "default"
pygments_dark_style = "native"

html_theme = "furo"
html_title = f"larder {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]  # index.html, which leads to the start page
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"footer_icons": [], "navigation_with_keys": True}


def lists_of(text):
    """The index's headings as captions, below each the pages that no heading before it has."""
    seen, lists = set(), []
    for line in text.split("\n"):
        heading = re.match(r"##+\s+(.*)", line)
        if heading:
            lists.append((heading[1], []))
        for title, path in re.findall(r"\[([^]]+)\]\(([^)#:]+)\.md\)", line):
            if lists and path not in seen:
                seen.add(path)
                lists[-1][1].append(f"{title} <{path}>")
    return lists


def add_lists(app, name, source):
    if name == INDEX:
        for caption, pages in lists_of(source[0]):
            if pages:
                source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```\n"])


def setup(app):
    app.connect("source-read", add_lists)
