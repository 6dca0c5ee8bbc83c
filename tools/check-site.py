#!/usr/bin/env python3
"""Looks at every page of a built site: what it links to is there, anchors too; pictures, scripts and styles come
from the site itself, so that reading needs no network; pictures have words for those who do not see them; every
page can be found by the search. Prints what is wrong.

    tools/check-site.py FOLDER
"""
import os
import re
import sys
import urllib.parse
from html.parser import HTMLParser

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads, self.wrong = set(), [], [], []
        self.title = False
        with open(path, encoding="utf-8") as f:
            self.feed(f.read())

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        for name in ("id", "name"):
            if has.get(name) and (name == "id" or tag == "a"):
                self.ids.add(has[name])
        if tag == "a" and has.get("href"):
            self.links.append(has["href"])
        if tag in LOADED and has.get(LOADED[tag]):
            self.loads.append(has[LOADED[tag]])
        if tag == "img" and not has.get("alt"):
            self.wrong.append(f"a picture without words: {has.get('src')}")
        self.title = self.title or tag == "title"


def outside(url):
    return re.match(r"([a-z][a-z0-9+.-]*:|//)", url, re.I) is not None


def check(root):
    wrong, pages = [], {}
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                pages[os.path.relpath(path, root)] = Page(path)
    count = 0
    for name, page in sorted(pages.items()):
        wrong += [f"{name}: {what}" for what in page.wrong]
        if not page.title:
            wrong.append(f"{name}: has no title")
        wrong += [f"{name}: loads {url} from elsewhere" for url in page.loads if outside(url) and url[:5] != "data:"]
        for url in page.links + page.loads:
            if outside(url):
                continue
            count += 1
            path, _, anchor = urllib.parse.unquote(url).partition("#")
            path = path.partition("?")[0]
            there = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not os.path.isfile(os.path.join(root, there)):
                wrong.append(f"{name}: there is no {url}")
            elif anchor and there in pages and anchor not in pages[there].ids:
                wrong.append(f"{name}: {there} has no #{anchor}")
    return sorted(set(wrong)), pages, count


def check_search(root, pages):
    """Pages of docs/ that the search does not know."""
    try:
        with open(os.path.join(root, "searchindex.js"), encoding="utf-8") as f:
            known = set(re.findall(r'"([^"]+)"', re.search(r'"?docnames"?: *\[(.*?)\]', f.read())[1]))
    except (OSError, TypeError):
        return ["there is no index to search in"]
    return [f"{name}: the search does not know it" for name in pages
            if name.startswith("docs" + os.sep) and name[:-len(".html")] not in known]


def main():
    root = sys.argv[1]
    wrong, pages, count = check(root)
    if not pages:
        wrong.append(f"{root}: there are no pages")
    wrong += check_search(root, pages)
    print("\n".join(wrong) if wrong else f"site: {len(pages)} pages, {count} links, pictures and parts")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
