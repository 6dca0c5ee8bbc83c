// Draws what /events sends. Nothing that comes from a job is ever read as HTML: all text goes
// through textContent, and no file from elsewhere is loaded.
"use strict";

const POINTS = 512; // of a curve; when it is full, every two become one
const SERIES = ["rate", "hits", "subst", "misses", "read", "demand", "stall", "shown"];
const curves = new Map(); // "pid.number" -> {times: [], rate: [], …}
const token = new URLSearchParams(location.search).get("token");
const withToken = (path) => (token ? path + "?token=" + encodeURIComponent(token) : path);
const $ = (id) => document.getElementById(id);
let state = { jobs: [], rates: [], ended: [] };
let chosen = null; // key of the job that is shown

// ---- words -------------------------------------------------------------------------------------

function make(tag, text, cls) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}

function count(n) {
  if (!Number.isFinite(n)) return "–";
  const units = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
  for (const [by, unit] of units)
    if (Math.abs(n) >= by) return (n / (unit === "k" ? 1e3 : by)).toFixed(1) + " " + unit;
  return Math.abs(n) >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toPrecision(3);
}
function bytes(n) {
  if (!Number.isFinite(n)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let i = 0;
  for (; Math.abs(n) >= 1000 && i + 1 < units.length; i++) n /= 1000;
  return n.toFixed(i && Math.abs(n) < 100 ? 1 : 0) + " " + units[i];
}
const percent = (x) => (Number.isFinite(x) ? (100 * x).toFixed(x < 0.1 ? 1 : 0) + " %" : "–");
const ago = (s) => (s < 90 ? s.toFixed(0) + " s" : s < 5400 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h");
const keyOf = (job) => job.pid + "." + job.number;
const stat = (job, name) => job.stats.find((s) => s.name === name);
const value = (job, name) => { const s = stat(job, name); return s ? s.value : NaN; };
const title = (job) =>
  (job.kind === "loader" ? job.name : job.kind) + " " + job.pid + (job.number > 1 ? "." + job.number : "") +
  (job.recipe ? ": " + job.recipe + ", " + job.source : "");

// ---- curves ------------------------------------------------------------------------------------

function curveOf(key) {
  let c = curves.get(key);
  if (!c) {
    c = { times: [], span: 1, sum: null, summed: 0 };
    for (const s of SERIES) c[s] = [];
    curves.set(key, c);
  }
  return c;
}
function halve(c) {
  const mean = (a, b) => (Number.isFinite(a) ? (Number.isFinite(b) ? (a + b) / 2 : a) : b);
  const n = Math.floor(c.times.length / 2);
  for (let i = 0; i < n; i++) {
    c.times[i] = c.times[2 * i + 1];
    for (const s of SERIES) c[s][i] = mean(c[s][2 * i], c[s][2 * i + 1]);
  }
  c.times.length = n;
  for (const s of SERIES) c[s].length = n;
  c.span *= 2;
}
function addPoint(c, when, values) {
  const v = values.map((x) => (x === null ? NaN : x));
  c.sum = c.summed ? c.sum.map((x, i) => x + v[i]) : v;
  if (++c.summed < c.span) return;
  if (c.times.length >= POINTS) halve(c);
  c.times.push(when);
  SERIES.forEach((s, i) => c[s].push(c.sum[i] / c.summed));
  c.summed = 0;
}
function forget() {
  const known = new Set(state.jobs.concat(state.ended).map(keyOf));
  for (const of of [curves, spent]) for (const key of of.keys()) if (!known.has(key)) of.delete(key);
}

// ---- drawing -----------------------------------------------------------------------------------

const W = 600, H = 130;
function svg(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  return e;
}
function frame(box, label) {
  const picture = svg("svg", { viewBox: "0 0 " + W + " " + H, preserveAspectRatio: "none", role: "img" });
  picture.setAttribute("aria-label", label);
  models.delete(box); // until a chart says that it can be read
  box.replaceChildren(picture);
  return picture;
}
const heightOf = (y, top, low) => H - ((y - low) / (top - low || 1)) * (H - 6) - 3;
function path(xs, ys, top, low) {
  let d = "", pen = false;
  ys.forEach((y, i) => {
    if (!Number.isFinite(y)) { pen = false; return; }
    d += (pen ? "L" : "M") + xs[i].toFixed(1) + " " + heightOf(y, top, low).toFixed(1);
    pen = true;
  });
  return d;
}
// Round numbers between the two, three to six of them.
function ticksOf(low, top) {
  const rough = (top - low) / 5, unit = Math.pow(10, Math.floor(Math.log10(rough)));
  if (!(rough > 0) || !Number.isFinite(unit)) return [low];
  const step = unit * [1, 2, 5, 10].find((k) => k * unit >= rough * 0.999), out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= top + step * 1e-9; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}
// Grid and numbers at its left; in HTML, as the picture is stretched and letters must not be.
function scale(box, picture, top, low, format) {
  for (const t of ticksOf(low, top)) {
    const y = heightOf(t, top, low), tick = make("span", format(t), "tick");
    picture.prepend(svg("line", { x1: 0, x2: W, y1: y.toFixed(1), y2: y.toFixed(1), class: "gridline" }));
    tick.style.top = ((100 * y) / H).toFixed(2) + "%";
    tick.setAttribute("aria-hidden", "true");
    const plot = picture.parentNode.classList.contains("plot") ? picture.parentNode : wrap(picture);
    plot.append(tick);
  }
}
function wrap(picture) {
  const plot = make("div", undefined, "plot");
  picture.replaceWith(plot);
  plot.append(picture);
  return plot;
}

// ---- values under the pointer, or under the arrow keys ------------------------------------------

const models = new WeakMap(); // box -> {xs, when(i), series: [{name, values, format}]}
const cursors = new WeakMap(); // box -> where it is read: 0 left, 1 right
function readable(box, xs, when, series) {
  models.set(box, { xs: xs, when: when, series: series });
  read(box);
}
function nearest(xs, x) {
  let best = 0;
  for (let i = 1; i < xs.length; i++) if (Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
  return best;
}
function read(box) {
  const m = models.get(box), share = cursors.get(box), plot = box.querySelector(".plot");
  if (plot) for (const old of plot.querySelectorAll(".cursor, .readout")) old.remove();
  if (!m || !plot || share === undefined) return "";
  const i = nearest(m.xs, share * W), x = m.xs[i];
  const words = m.when(i) + ": " + m.series.map((s) => s.name + " " + s.format(s.values[i])).join(", ");
  plot.querySelector("svg").append(svg("line", { x1: x, x2: x, y1: 0, y2: H, class: "cursor" }));
  const note = make("div", words, "readout" + (x > W / 2 ? " left" : ""));
  note.setAttribute("aria-hidden", "true"); // those who listen hear it when they press a key
  plot.append(note);
  return words;
}
function follow(box) {
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  const head = box.parentNode.querySelector("h2");
  box.setAttribute("aria-label", (head.textContent || "chart") + "; arrow keys read values");
  box.addEventListener("pointermove", (e) => {
    const picture = box.querySelector("svg");
    if (!picture) return;
    const r = picture.getBoundingClientRect();
    cursors.set(box, Math.min(1, Math.max(0, (e.clientX - r.left) / r.width)));
    read(box);
  });
  const leave = () => { cursors.delete(box); read(box); };
  box.addEventListener("pointerleave", leave);
  box.addEventListener("blur", leave);
  box.addEventListener("keydown", (e) => {
    const m = models.get(box), step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (e.key === "Escape") leave();
    if (!m || !step) return;
    const share = cursors.get(box), at = share === undefined ? m.xs.length - (step < 0 ? 0 : 1) : nearest(m.xs, share * W);
    cursors.set(box, m.xs[Math.min(m.xs.length - 1, Math.max(0, at + step))] / W);
    $("said").textContent = read(box);
    e.preventDefault();
  });
}
function places(times) {
  const from = times[0], span = times[times.length - 1] - from || 1;
  return times.map((t) => ((t - from) / span) * W);
}
function axis(box, left, right, series) {
  const line = make("div", undefined, "axis");
  line.append(make("span", left), make("span", right));
  const key = make("ul", undefined, "key");
  for (const s of series) {
    const item = make("li");
    item.append(make("i", undefined, "b-" + s.cls), make("span", s.name + (s.now !== undefined ? " " + s.now : "")));
    key.append(item);
  }
  box.append(line, key);
}
// series: {name, cls, values, dash}; format turns a value into words.
function drawLines(box, times, series, format, fixedTop) {
  const finite = series.flatMap((s) => s.values.filter(Number.isFinite));
  if (times.length < 2 || !finite.length) { box.replaceChildren(make("p", "nothing yet", "axis")); return; }
  const top = fixedTop || Math.max(...finite) || 1, low = Math.min(0, ...finite), xs = places(times);
  for (const s of series) s.now = format(s.values.filter(Number.isFinite).pop());
  const picture = frame(box, series.map((s) => s.name + " now " + s.now).join(", "));
  for (const s of series)
    picture.append(svg("path", { d: path(xs, s.values, top, low), class: "line s-" + s.cls + (s.dash ? " dash" : "") }));
  scale(box, picture, top, low, format);
  axis(box, ago(times[times.length - 1] - times[0]) + " ago", "now", series);
  readable(box, xs, before(times), series.map((s) => ({ name: s.name, values: s.values, format: format })));
}
const before = (times) => (i) => (i === times.length - 1 ? "now" : ago(times[times.length - 1] - times[i]) + " ago");
function drawStack(box, times, series, format) {
  if (times.length < 2) { box.replaceChildren(make("p", "nothing yet", "axis")); return; }
  const sums = times.map((_, i) => series.reduce((a, s) => a + (s.values[i] || 0), 0));
  const top = Math.max(...sums) || 1, xs = places(times);
  for (const s of series) {
    const last = s.values.length - 1;
    s.now = format(s.values[last] / (sums[last] || 1));
  }
  const picture = frame(box, series.map((s) => s.name + " now " + s.now).join(", "));
  let base = times.map(() => 0);
  const y = (v) => heightOf(v, top, 0).toFixed(1);
  for (const s of series) {
    const upper = base.map((b, i) => b + (s.values[i] || 0));
    const d = xs.map((x, i) => (i ? "L" : "M") + x.toFixed(1) + " " + y(upper[i])).join("") +
      xs.map((x, i) => "L" + x.toFixed(1) + " " + y(base[i])).reverse().join("") + "Z";
    picture.append(svg("path", { d: d, class: "f-" + s.cls }));
    base = upper;
  }
  scale(box, picture, top, 0, (n) => count(n) + "/s");
  axis(box, ago(times[times.length - 1] - times[0]) + " ago", "now", series);
  readable(box, xs, before(times), series.map((s) => ({ name: s.name, values: s.values.map((v, i) => v / (sums[i] || 1)), format: format })));
}
// A row an epoch, the newest below; darker: more samples have such a score.
function drawScores(box, epochs) {
  const rows = epochs.filter((e) => e.scores).slice(-24);
  if (!rows.length) { box.replaceChildren(); return; }
  const low = Math.min(...rows.map((e) => e.score_low)), high = Math.max(...rows.map((e) => e.score_high));
  const picture = frame(box, "scores from " + count(low) + " to " + count(high) + ", " + rows.length + " epochs");
  const height = H / rows.length, most = Math.max(1, ...rows.flatMap((e) => e.scores)), span = high - low || 1;
  rows.forEach((e, r) => e.scores.forEach((n, i) => {
    if (!n) return;
    const width = (e.score_high - e.score_low) / e.scores.length || span / e.scores.length;
    const x = ((e.score_low - low + i * width) / span) * W;
    picture.append(svg("rect", { x: x.toFixed(1), y: (r * height).toFixed(1), width: Math.max(1, (width / span) * W).toFixed(1),
      height: Math.max(1, height - 1).toFixed(1), class: "f-subst", "fill-opacity": (0.12 + 0.88 * Math.sqrt(n / most)).toFixed(2) }));
  }));
  axis(box, count(low), count(high), [{ name: "epoch " + rows[0].epoch + " above, " + rows[rows.length - 1].epoch + " below", cls: "subst" }]);
}
const FORMS = [["encoded", "hit"], ["decoded", "good"], ["augmented", "subst"], ["shrunk", "cache"]];
function drawMap(box, key, job) {
  const columns = 32, cells = job.map_encoded.length;
  key.replaceChildren();
  if (!cells) { box.replaceChildren(make("p", "the cache is elsewhere", "axis")); return; }
  const picture = frame(box, "which ids are in the cache, in which form");
  const rows = Math.ceil(cells / columns), w = W / columns, h = H / rows;
  for (let i = 0; i < cells; i++) {
    let x = (i % columns) * w;
    for (const [form, cls] of FORMS) {
      const share = Number((job["map_" + form] || "")[i]) / 9;
      if (!(share > 0)) continue;
      picture.append(svg("rect", { x: x.toFixed(1), y: (Math.floor(i / columns) * h).toFixed(1),
        width: Math.max(0, share * (w - 1)).toFixed(1), height: (h - 1).toFixed(1), class: "f-" + cls }));
      x += share * (w - 1);
    }
  }
  const total = value(job, "cache_resident_bytes"), budget = value(job, "cache_budget_bytes");
  for (const [form, cls] of FORMS) {
    const own = value(job, "cache_" + form + "_bytes"), here = Number.isFinite(own) ? own : form === "encoded" ? total : 0;
    if (form === "shrunk" && !here) continue;
    const item = make("li");
    item.append(make("i", undefined, "b-" + cls), make("span", form + " " + bytes(here)));
    key.append(item);
  }
  const rest = make("li");
  rest.append(make("i", undefined, "b-none"), make("span", "of " + bytes(budget) + "; each field is " + count(job.samples / cells) + " ids"));
  key.append(rest);
}

// ---- the page ----------------------------------------------------------------------------------

const PARTS = [["training", "good"], ["storage", "miss"], ["decode", "hit"], ["augment", "subst"], ["deciding", "cache"], ["assembly", "grey"]];
const NOW = 10; // seconds that "now" looks back
const spent = new Map(); // key -> looks of the last seconds: {when, parts}
function note(job, now) {
  const looks = spent.get(keyOf(job)) || [];
  looks.push({ when: now, parts: PARTS.map(([p]) => job[p] || 0) });
  while (looks.length > 2 && looks[1].when <= now - NOW) looks.shift();
  spent.set(keyOf(job), looks);
}
function drawSplit(bars, key, parts) {
  const all = parts.reduce((a, b) => a + b, 0), words = [];
  bars.replaceChildren();
  key.replaceChildren();
  PARTS.forEach(([part, cls], i) => {
    const share = all > 0 ? parts[i] / all : 0, name = part === "deciding" ? "cache" : part;
    const bar = make("div", undefined, "b-" + cls);
    bar.style.flexGrow = String(share);
    bars.append(bar);
    const item = make("li");
    item.append(make("i", undefined, "b-" + cls), make("span", name + " " + percent(share)));
    key.append(item);
    words.push(name + " " + percent(share));
  });
  bars.setAttribute("aria-label", words.join(", "));
}
// As the loader judges the whole run: below a tenth of waiting nothing holds training up.
function verdictOf(parts) {
  const all = parts.reduce((a, b) => a + b, 0);
  if (!(all > 0)) return "no step has ended";
  const waiting = 1 - parts[0] / all;
  if (waiting < 0.1) return "training is not held up: it waits for " + percent(waiting) + " of the time";
  const most = parts.indexOf(Math.max(...parts.slice(1)), 1), name = PARTS[most][0] === "deciding" ? "cache" : PARTS[most][0];
  return "held up by " + name + ", " + percent(parts[most] / all) + " of the time";
}
function showSplit(job, live) {
  const looks = spent.get(keyOf(job)) || [], last = looks[looks.length - 1];
  const parts = live && looks.length > 1 ? last.parts.map((p, i) => Math.max(0, p - looks[0].parts[i])) : PARTS.map(() => 0);
  $("now").hidden = !live;
  $("h-now").textContent = "Now" + (looks.length > 1 ? ", the last " + ago(last.when - looks[0].when) : "");
  $("verdict-now").textContent = verdictOf(parts);
  drawSplit($("split-now"), $("split-now-key"), parts);
  $("verdict").textContent = job.verdict;
  drawSplit($("split"), $("split-key"), PARTS.map(([p]) => job[p] || 0));
}
function showTiles(job, rates) {
  const demand = value(job, "demand_bytes"), read = value(job, "storage_bytes"), saved = Math.max(0, demand - read); // what is read ahead is not served yet
  $("t-rate").textContent = rates ? count(rates[0]) : "–";
  $("t-hits").textContent = rates && rates[0] > 0 ? percent((rates[1] + rates[2]) / rates[0]) : "–";
  $("t-read").textContent = rates ? bytes(rates[4]) + "/s" : "–";
  $("t-saved").textContent = Number.isFinite(saved) ? bytes(saved) + (demand > 0 ? " (" + percent(saved / demand) + ")" : "") : "–";
  $("t-stall").textContent = rates && rates[6] !== null ? percent(rates[6]) : "–";
  $("t-epoch").textContent = job.epoch ? job.epoch + (job.epochs ? "/" + job.epochs : "") +
    (job.steps ? " · " + percent(Math.min(1, job.step / job.steps)) : "") : job.state;
}
function showCurves(job) {
  const c = curveOf(keyOf(job)), per = (n) => count(n) + "/s", rate = (n) => bytes(n) + "/s";
  drawLines($("c-rate"), c.times, [{ name: "samples", cls: "hit", values: c.rate }], per);
  drawStack($("c-kinds"), c.times, [{ name: "hits", cls: "hit", values: c.hits }, { name: "substitutes", cls: "subst", values: c.subst },
    { name: "misses", cls: "miss", values: c.misses }], percent);
  drawLines($("c-read"), c.times, [{ name: "read", cls: "miss", values: c.read }, { name: "without a cache", cls: "grey", values: c.demand, dash: true }], rate);
  drawLines($("c-stall"), c.times, [{ name: "waiting", cls: "miss", values: c.stall }], percent, 1);
  const shown = job.shown && stat(job, job.shown);
  $("s-shown").hidden = !shown;
  if (shown) {
    $("h-shown").textContent = job.shown + (shown.help ? ": " + shown.help : "");
    $("c-shown").setAttribute("aria-label", job.shown + "; arrow keys read values");
    drawLines($("c-shown"), c.times, [{ name: job.shown, cls: "subst", values: c.shown }], (n) => (n === undefined ? "–" : n.toPrecision(3)));
  }
}
/* What reuse memorises is what lies between the two lines. */
function drawGap(box, rows) {
  if (!rows.length) { box.replaceChildren(); return; }
  const last = rows[rows.length - 1], show = (n) => n.toPrecision(3), gap = last.fresh_loss - last.reused_loss;
  const picture = frame(box, "loss by epoch, last fresh " + show(last.fresh_loss) + ", reused " + show(last.reused_loss));
  const top = Math.max(...rows.map((e) => Math.max(e.fresh_loss, e.reused_loss))) || 1;
  const xs = rows.map((e) => ((e.epoch - rows[0].epoch) / (last.epoch - rows[0].epoch || 1)) * W);
  for (const [name, cls] of [["fresh_loss", "miss"], ["reused_loss", "hit"]]) {
    const values = rows.map((e) => e[name]);
    picture.append(svg("path", { d: path(xs.length > 1 ? xs : [0, W], values.length > 1 ? values : [values[0], values[0]], top, 0), class: "line s-" + cls }));
  }
  scale(box, picture, top, 0, show);
  axis(box, "epoch " + rows[0].epoch, "epoch " + last.epoch, [{ name: "fresh", cls: "miss", now: show(last.fresh_loss) },
    { name: "reused", cls: "hit", now: show(last.reused_loss) + ", gap " + show(gap) }]);
  readable(box, xs, (i) => "epoch " + rows[i].epoch, [["fresh", "fresh_loss"], ["reused", "reused_loss"]].map(([name, key]) =>
    ({ name: name, values: rows.map((e) => e[key]), format: show })));
}
function showEpochs(job) {
  const past = job.history, at = past.map((e) => e.epoch), known = (name) => past.some((e) => e[name] !== null);
  $("s-loss").hidden = !known("loss");
  $("s-accuracy").hidden = !known("accuracy");
  $("s-gap").hidden = !past.some((e) => Number.isFinite(e.fresh_loss));
  $("s-scores").hidden = !past.some((e) => e.scores);
  const curve = (box, name, cls, format) => {
    const rows = past.filter((e) => e[name] !== null), values = rows.map((e) => e[name]);
    if (!rows.length) { box.replaceChildren(); return; }
    const picture = frame(box, name + " by epoch, last " + format(values[values.length - 1]));
    const low = name === "accuracy" ? Math.min(...values) : 0, top = Math.max(...values) || 1;
    const xs = rows.map((e) => ((e.epoch - at[0]) / (at[at.length - 1] - at[0] || 1)) * W);
    picture.append(svg("path", { d: path(xs.length > 1 ? xs : [0, W], values.length > 1 ? values : [values[0], values[0]], top, Math.min(low, top * 0.999)), class: "line s-" + cls }));
    scale(box, picture, top, Math.min(low, top * 0.999), format);
    axis(box, "epoch " + at[0], "epoch " + at[at.length - 1], [{ name: name, cls: cls, now: format(values[values.length - 1]) }]);
    readable(box, xs, (i) => "epoch " + rows[i].epoch, [{ name: name, values: values, format: format }]);
  };
  curve($("c-loss"), "loss", "miss", (n) => n.toPrecision(3));
  curve($("c-accuracy"), "accuracy", "good", (n) => (100 * n).toFixed(2) + " %");
  drawGap($("c-gap"), past.filter((e) => Number.isFinite(e.fresh_loss)));
  drawScores($("c-scores"), past);
}
function fillTable(table, heads, rows) {
  const head = make("tr"), body = make("tbody");
  for (const h of heads) head.append(make("th", h.name, h.words ? "words" : ""));
  for (const r of rows) {
    const line = make("tr", undefined, r.cls || "");
    r.cells.forEach((cell, i) => {
      const td = make("td", undefined, (heads[i].words ? "words" : "") + (heads[i].long ? " long" : ""));
      if (cell instanceof Node) td.append(cell); else td.textContent = cell;
      line.append(td);
    });
    body.append(line);
  }
  const top = make("thead");
  top.append(head);
  table.replaceChildren(top, body);
}
const N = (name) => ({ name: name }), T = (name, long) => ({ name: name, words: true, long: long });
function showLedger(job) {
  $("audit").textContent = job.audit;
  fillTable($("ledger"), ["epoch", "served", "hits", "substitutes", "repeats", "misses", "background reads", "touched", "read", "requests", "bad"].map(N),
    job.history.slice(-12).reverse().map((e) => ({ cells: [e.epoch, count(e.served), percent(e.hits / e.served), percent(e.substitutes / e.served),
      percent(e.repeats / e.served), percent(e.misses / e.served), count(e.background_reads), percent(e.touched), bytes(e.storage_bytes), count(e.requests), e.bad] })));
  $("s-bad").hidden = !job.bad.length;
  $("bad").replaceChildren(...job.bad.slice().reverse().map((b) => make("li", b.why)));
  fillTable($("figures"), [T("figure"), N("value"), T("unit"), N("deviation"), N("99 % below"), T("meaning", true)],
    job.stats.map((s) => ({ cells: [s.name, s.value === null ? "–" : Math.abs(s.value) >= 1e5 ? s.value.toExponential(3) : String(Number(s.value.toPrecision(6))), s.unit,
      s.type === "histogram" ? s.sd.toPrecision(3) : "", s.type === "histogram" ? s.p99.toPrecision(3) : "", s.help] })));
}
function showJobs() {
  $("s-jobs").hidden = !state.jobs.length;
  fillTable($("jobs"), [N("pid"), T("job"), T("recipe"), T("state"), N("epoch"), N("samples/s"), N("hits"), N("read/s"), N("waits"), T("held up by"), T("data", true)],
    state.jobs.map((j, i) => {
      const r = state.rates[i] || [], button = make("button", String(j.pid) + (j.number > 1 ? "." + j.number : ""));
      button.addEventListener("click", () => choose(keyOf(j)));
      return { cls: keyOf(j) === chosen ? "chosen" : "", cells: [button, j.kind === "loader" ? j.name : j.kind, j.recipe, j.state,
        j.epoch ? j.epoch + (j.epochs ? "/" + j.epochs : "") : "–", count(r[0]), r[0] > 0 ? percent(r[1] / r[0]) : "–", bytes(r[4]) + "/s",
        r[6] === null || r[6] === undefined ? "–" : percent(r[6]), j.bottleneck, j.source] };
    }));
}
function showChoice(all) {
  const select = $("job"), keys = all.map(keyOf).join(" ");
  if (select.dataset.keys !== keys) {
    select.dataset.keys = keys;
    select.replaceChildren(...all.map((j) => {
      const o = make("option", title(j) + (state.jobs.includes(j) ? "" : " (ended)"));
      o.value = keyOf(j);
      return o;
    }));
  }
  select.disabled = !all.length;
  if (chosen) select.value = chosen;
}
function show() {
  const ended = state.ended.slice().reverse(), all = state.jobs.concat(ended);
  // What is looked at stays, ended or not, until it is forgotten or another is asked for.
  if (!all.some((j) => keyOf(j) === chosen)) {
    const first = state.jobs.find((j) => j.kind === "loader") || all[0];
    chosen = first ? keyOf(first) : null;
  }
  const job = all.find((j) => keyOf(j) === chosen), index = state.jobs.indexOf(job);
  $("none").hidden = Boolean(job);
  $("shown").hidden = !job;
  $("ended").hidden = !job || index >= 0;
  setStatus(!job ? "none" : index < 0 ? "ended" : "live");
  document.title = job ? "larder: " + title(job) : "larder";
  showChoice(all);
  showJobs();
  if (!job) return;
  showSplit(job, index >= 0);
  $("ended").textContent = "This job has ended. What it showed last:" + (state.jobs.length ? " (" + state.jobs.length +
    (state.jobs.length > 1 ? " others run" : " other runs") + ", below)" : "");
  showTiles(job, index < 0 ? null : state.rates[index]);
  showCurves(job);
  showEpochs(job);
  drawMap($("c-map"), $("map-key"), job);
  showLedger(job);
}
function choose(key) {
  chosen = key;
  show();
}
const WORDS = { connecting: "connecting", live: "live", none: "no job yet", ended: "job ended", lost: "connection lost, trying again", token: "a token is needed: open the address that larder printed" };
function setStatus(to) {
  const s = $("status");
  if (s.dataset.state !== to) { s.dataset.state = to; s.textContent = WORDS[to]; }
}

// Names come from anywhere: none begins a line or turns the direction of what follows (src/base/escape.h).
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\udc80-\udcff]/gu;
function shown(key, value) {
  return typeof value === "string" ? value.replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")) : value;
}

// ---- the connection ----------------------------------------------------------------------------

function take(text) {
  const now = Date.now() / 1000;
  state = JSON.parse(text, shown);
  state.jobs.forEach((job, i) => { addPoint(curveOf(keyOf(job)), now, state.rates[i]); note(job, now); });
  forget();
  if (!document.hidden) show();
}
async function begin() {
  let answer;
  try {
    answer = await fetch(withToken("history.json"));
  } catch (e) {
    setStatus("lost");
    setTimeout(begin, 1000);
    return;
  }
  if (!answer.ok) { setStatus(answer.status === 401 ? "token" : "lost"); setTimeout(begin, 3000); return; }
  const now = Date.now() / 1000, past = await answer.json();
  curves.clear();
  for (const c of past.curves) for (const p of c.points) addPoint(curveOf(c.pid + "." + c.number), now - p[0], p.slice(1));
  const events = new EventSource(withToken("events"));
  events.onmessage = (e) => take(e.data);
  events.onerror = () => {
    setStatus("lost");
    events.close();
    setTimeout(begin, 1000);
  };
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && $("status").dataset.state !== "lost") show(); });
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLSelectElement || (e.key !== "j" && e.key !== "k")) return;
  const all = state.jobs.concat(state.ended.slice().reverse()), at = all.findIndex((j) => keyOf(j) === chosen);
  if (all.length) choose(keyOf(all[(at + (e.key === "j" ? 1 : all.length - 1)) % all.length]));
});
document.querySelectorAll(".chart:not(#c-map):not(#c-scores)").forEach(follow);
$("job").addEventListener("change", (e) => choose(e.target.value));
$("metrics").setAttribute("href", withToken("metrics"));
begin();
