// In place of the theme's own script, which Debian has as a module: browsers refuse modules in pages
// that are opened from a folder. Light, dark, or as the system says.
"use strict";
(function () {
  function kept() {
    try { return localStorage.getItem("theme"); } catch (e) { return null; }
  }
  function next(now) {
    var dark = matchMedia("(prefers-color-scheme: dark)").matches;
    var round = dark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
    return round[(round.indexOf(now) + 1) % 3];
  }
  function set(mode) {
    document.body.dataset.theme = mode;
    try { localStorage.setItem("theme", mode); } catch (e) { /* not kept, then */ }
  }
  // The search shows a few lines of each page that it finds, which a folder does not let it read.
  if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS)
    window.DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  document.documentElement.classList.remove("no-js");
  set(kept() || "auto");
  document.querySelectorAll(".theme-toggle").forEach(function (button) {
    button.addEventListener("click", function () { set(next(document.body.dataset.theme)); });
  });
  // What those who hear the page need, and the theme leaves out.
  function all(where, what) { document.querySelectorAll(where).forEach(what); }
  function label(where, words) { all(where, function (e) { e.setAttribute("aria-label", words); }); }
  label(".sidebar-drawer", "All pages");
  label(".toc-drawer", "On this page");
  label(".content-icon-container", "Colours and contents");
  all(".content-icon-container", function (e) { e.setAttribute("role", "region"); });
  all(".sidebar-tree .caption[role=heading]", function (e) { e.setAttribute("aria-level", "2"); });
  all(".overlay", function (e) { e.setAttribute("aria-hidden", "true"); });
  all("th:empty, th > p:empty:only-child", function (e) {
    var th = e.closest("th"), td = document.createElement("td");
    td.className = th.className;
    th.replaceWith(td);
  });
  // A frame that scrolls is reached by keyboard too.
  document.querySelectorAll(".table-wrapper, div.highlight pre").forEach(function (frame) {
    if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
  });
})();
