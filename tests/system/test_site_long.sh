#!/usr/bin/env bash
# release build only
# docs/ builds as a site without a warning, all its links, anchors and pictures are there, the search finds pages from
# the folder alone, and the check of that finds what it is there for.
set -eu
. tests/support/tree.sh
site=$scratch/site
status=0
tools/site.sh "$site" || status=$?
if [ $status = 77 ]; then
    echo "skipped: no Sphinx, MyST or Furo (tools/install-packages.sh site)"
    exit 77
fi
[ $status = 0 ] || die "the site does not build"
[ -s "$site/index.html" ] || die "no start page"
for page in docs/index docs/guide/start docs/questions/errors docs/results/gpu README; do
    [ -s "$site/$page.html" ] || die "no $page"
    grep -q 'class="caption-text">Questions<' "$site/$page.html" || die "$page: no list of pages at its side"
done

must_say() { # what tools/check-site.py must say
    if tools/check-site.py "$site" >"$scratch/out"; then die "passed, but should say: $1"; fi
    grep -qxF -e "$1" "$scratch/out" || { cat "$scratch/out"; die "does not say: $1"; }
}
cp -a "$site" "$scratch/kept"
page=$site/docs/guide/start.html
# The link itself is not written here, where a page of this tree would be looked for.
printf '<a href="%s">x</a><a href="recipes.html#none">x</a><img src="none.png"><script src="//x.org/x.js"></script>' \
    gone.html >>"$page"
must_say "docs/guide/start.html: there is no gone.html"
must_say "docs/guide/start.html: docs/guide/recipes.html has no #none"
must_say "docs/guide/start.html: there is no none.png"
must_say "docs/guide/start.html: a picture without words: none.png"
must_say "docs/guide/start.html: loads //x.org/x.js from elsewhere"
rm -rf "$site"
cp -a "$scratch/kept" "$site"
rm "$site/searchindex.js"
must_say "there is no index to search in"
rm -rf "$site"
mv "$scratch/kept" "$site"

# The search as a browser does it, from the folder, without a server.
if ! command -v chromium >/dev/null; then
    echo "not tried: the search, no chromium (tools/install-packages.sh long)"
    exit 0
fi
found() { # query
    timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --user-data-dir="$scratch/browser" --virtual-time-budget=20000 --dump-dom \
        "file://$site/search.html?q=$1" 2>/dev/null
}
found 'wants+a+password' | grep -q 'href="docs/questions/errors.html' || die "the search does not find an error's words"
found 'prefetch' | grep -q 'href="docs/guide/data.html' || die "the search does not find a guide"
found 'xyzzyplugh' | grep -q 'did not match any documents' || die "the search finds what is not there"
