"use strict";
// The live page: takes the whole state once, then the news, and draws. Everything that comes from the recording is put in
// as text or as attributes, never as markup.

const $ = (id) => document.getElementById(id);
const HOUR = 3600 * 1000;
const LANES = 8;
const MOST_FRAMES = 1024;
const MOST_LESSONS = 512;

let now = null;
let ribbon = []; // [frame, ms, category, created, û]
let lessons = [];
let asking = false;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawing(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const percent = (part) => (Number.isFinite(part) ? `${Math.round(100 * part)} %` : "–");
const decimal = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
const colour = (category) => `k${category % 12}`;

function bytes(count) {
  if (!Number.isFinite(count)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) [count, unit] = [count / 1024, unit + 1];
  return `${count < 10 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return seconds < 730 * 86400 ? `${Math.round(seconds / 86400)} days` : "years";
}

// ---------------------------------------------------------------- taking in

async function takeWhole() {
  if (asking) return;
  asking = true;
  try {
    const answer = await fetch("api/status", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const whole = await answer.json();
    ribbon = whole.ribbon;
    lessons = whole.lessons;
    now = whole;
    draw();
  } catch (problem) {
    away(problem.message);
  } finally {
    asking = false;
  }
}

function takeNews(news) {
  const last = ribbon.length ? ribbon[ribbon.length - 1][0] : -1;
  const fresh = news.ribbon.filter((moment) => moment[0] > last);
  const hole = fresh.length > 0 && last >= 0 && fresh[0][0] > last + 1;
  ribbon.push(...fresh);
  ribbon.splice(0, Math.max(0, ribbon.length - MOST_FRAMES));
  const known = lessons.length ? lessons[lessons.length - 1].update : 0;
  lessons.push(...news.lessons.filter((lesson) => lesson.update > known));
  lessons.splice(0, Math.max(0, lessons.length - MOST_LESSONS));
  // What this page has of a category that is gone has another number now.
  const joined = now !== null && news.merges !== now.merges;
  now = news;
  draw();
  // Missed something, or something was forgotten or joined: the whole state again.
  const back = news.newest !== null && news.newest.frame < last;
  if (hole || back || joined || ribbon.length > news.ribbon_frames) takeWhole();
}

function watch() {
  const source = new EventSource("api/live");
  source.addEventListener("open", takeWhole);
  source.addEventListener("now", (event) => takeNews(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    away("the recording does not answer; trying again");
    if (source.readyState === EventSource.CLOSED) setTimeout(watch, 3000);
  });
}

// ---------------------------------------------------------------- drawing

function away(reason) {
  $("state").dataset.state = "away";
  $("state").textContent = "no connection";
  $("state").title = reason;
  for (const id of ["pause", "forget"]) $(id).disabled = true;
}

function draw() {
  drawHead();
  drawNow();
  drawTiles();
  drawRibbon();
  drawGallery();
  drawJoined();
  drawCurves();
}

function drawHead() {
  const words = { recording: "recording", paused: "paused", no_camera: "no camera" };
  document.title = `${now.device} · oupn-edge`;
  $("device").textContent = now.device;
  if ($("state").dataset.state !== now.state) {
    $("state").dataset.state = now.state;
    $("state").textContent = words[now.state] ?? now.state;
    $("state").title = "";
  }
  const trouble = now.disk_trouble;
  $("trouble").hidden = !trouble;
  const told = trouble ? `The disk has been in trouble for ${duration(trouble.seconds)}: ${trouble.what}` : "";
  if ($("trouble").textContent !== told) $("trouble").textContent = told;
  $("pause").textContent = now.paused ? "Resume" : "Pause";
  for (const id of ["pause", "forget"]) $(id).disabled = busy;
}

function drawNow() {
  const newest = now.newest;
  if (now.picture) $("picture").src = `data:image/jpeg;base64,${now.picture}`;
  $("picture").hidden = !newest || !$("picture").src;
  $("no-picture").hidden = !$("picture").hidden;
  if (!newest) {
    for (const id of ["category", "certainty", "similarity", "u-hat", "when"]) $(id).textContent = "–";
    $("runners-up").replaceChildren();
    return;
  }
  const certainty = newest.created ? newest.u_hat : 1 - newest.u_hat;
  $("what-kind").textContent = newest.created ? "new category" : "category";
  $("what-kind").classList.toggle("new", newest.created);
  $("category").textContent = newest.category;
  $("certainty").textContent = percent(certainty);
  $("certainty-bar").firstElementChild.style.width = `${100 * Math.max(0, Math.min(1, certainty || 0))}%`;
  $("certainty-bar").setAttribute("aria-label", `${percent(certainty)} sure`);
  $("similarity").textContent = decimal(newest.similarity);
  $("u-hat").textContent = decimal(newest.u_hat);
  const time = newest.wall ? new Date(newest.wall).toLocaleTimeString() : "time not known";
  const clock = newest.synced || !newest.wall ? time : `${time}, not checked`;
  const latency = Number.isFinite(newest.latency_ms) ? `, after ${Math.round(newest.latency_ms)} ms` : "";
  $("when").textContent = `frame ${newest.frame}, ${clock}${latency}`;
  const shown = new Set(now.gallery.map((known) => known[0]));
  const rows = newest.runners_up.slice(0, 3).map((other) => {
    const picture = shown.has(other.category)
      ? element("img", { src: `api/thumbnail/${other.category}`, alt: "", loading: "lazy" })
      : element("span", { class: "blank" });
    const bar = element("div", { class: "meter" }, element("span"));
    bar.firstElementChild.style.width = `${100 * Math.max(0, other.similarity || 0)}%`;
    return element("li", {}, picture, element("b", {}, String(other.category)), bar, decimal(other.similarity));
  });
  $("runners-up").replaceChildren(...rows);
}

function drawTiles() {
  const health = now.health;
  const camera = now.camera;
  const perFrame = 700; // bytes of trace, about
  const left = (health.free_bytes / perFrame) * (now.period_s || 4);
  const tiles = [
    ["Frames", String(now.frames), `one every ${duration(now.period_s)}`],
    ["Categories", String(now.categories), `${now.created} created so far`],
    ["Camera", camera.present ? `${decimal(camera.rate, 1)} fps` : "absent", `${camera.missed} gaps, ${camera.corrupt} unreadable`, !camera.present],
    ["Latency", latency(), "95 % of frames"],
    ["Learning", String(now.updates), learningNote(), now.collapsed],
    ["Temperature", Number.isFinite(health.celsius) ? `${Math.round(health.celsius)} °C` : "–", Number.isFinite(health.watts) ? `${decimal(health.watts, 1)} W` : "power not readable"],
    ["Disk", bytes(health.free_bytes), Number.isFinite(left) ? `enough for ${duration(left)} of trace` : "", now.disk !== null && now.disk !== "ample"],
    ["Memory", bytes(health.resident_bytes), Number.isFinite(health.available_bytes) ? `${bytes(health.available_bytes)} left` : ""],
  ];
  $("tiles").replaceChildren(...tiles.map(([name, value, more, bad]) =>
    element("div", bad ? { class: "bad" } : {}, element("dt", {}, name),
      element("dd", {}, value, element("span", { class: "more" }, more)))));
}

function latency() {
  if (Number.isFinite(now.latency_p95_ms)) return `≤ ${now.latency_p95_ms} ms`;
  return now.frames > 0 ? "> 2 s" : "–";
}

function learningNote() {
  if (now.collapsed) return "the embeddings have collapsed";
  const state = now.learning_s === null ? `a step every ${now.stride} frames` : `learning for ${duration(now.learning_s)}`;
  const compared = now.comparisons ? `, better ${now.publications} of ${now.comparisons} times` : "";
  const thrown = now.skipped_updates ? `, ${now.skipped_updates} thrown away` : "";
  // In brackets stands why something else trains than was meant to.
  const where = now.compute && now.compute.includes("(") ? `, on ${now.compute}` : "";
  return state + compared + thrown + where;
}

// Runs of one category: [begin, end, category] in ms, each frame up to the next one or for one period.
function runs(frames) {
  const period = 1000 * (now.period_s || 4);
  const found = [];
  frames.forEach(([, at, category], index) => {
    const next = frames[index + 1];
    const end = next && next[1] - at < 2.5 * period ? next[1] : at + period;
    const last = found[found.length - 1];
    if (last && last[2] === category && last[1] === at) last[1] = end;
    else found.push([at, end, category]);
  });
  return found;
}

function lane(label, stretches, begin, span, whole) {
  const svg = drawing("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [from, to, category] of stretches) {
    const x = (1000 * (from - begin)) / span;
    svg.append(drawing("rect", { x: x.toFixed(1), y: 0, width: Math.max(1, (1000 * (to - from)) / span).toFixed(1), height: 10, class: colour(category) }));
  }
  return element("div", { class: whole ? "lane whole" : "lane" }, element("span", {}, label), svg);
}

function drawRibbon() {
  const newest = ribbon.length ? ribbon[ribbon.length - 1][1] + 1000 * (now.period_s || 4) : 0;
  const frames = ribbon.filter((moment) => moment[1] >= newest - HOUR);
  if (!frames.length) {
    $("ribbon-note").textContent = "Nothing was seen yet.";
    $("ribbon").replaceChildren();
    return;
  }
  const span = Math.min(HOUR, Math.max(newest - frames[0][1], 60 * 1000));
  const begin = newest - span;
  const stretches = runs(frames);
  const time = new Map();
  for (const [from, to, category] of stretches) time.set(category, (time.get(category) ?? 0) + to - from);
  const most = [...time.entries()].sort((a, b) => b[1] - a[1]).slice(0, LANES).map(([category]) => category);
  const created = frames.filter((moment) => moment[3]).length;
  $("ribbon-note").textContent = `${frames.length} frames, ${time.size} categories, ${created} of them new. Lanes: the most seen.`;
  const lanes = [lane("all", stretches, begin, span, true)];
  for (const category of most) lanes.push(lane(String(category), stretches.filter((s) => s[2] === category), begin, span));
  const marks = element("div", { class: "axis" }, element("span", {}, `${duration(span / 1000)} ago`), element("span", {}, "now"));
  lanes.push(element("div", { class: "lane" }, element("span"), marks));
  $("ribbon").replaceChildren(...lanes);
}

// Cards stay where they are while their category lives, so that pictures do not flicker.
function drawGallery() {
  const gallery = $("gallery");
  const cards = new Map([...gallery.children].map((card) => [card.dataset.category, card]));
  const order = [...now.gallery].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const wanted = order.map(([category, frames]) => {
    let card = cards.get(String(category));
    if (!card) {
      card = element("li", { "data-category": category },
        element("img", { src: `api/thumbnail/${category}`, alt: `Category ${category}`, loading: "lazy", width: 64, height: 64 }),
        element("b", {}, String(category)), element("div", {}));
    }
    card.lastElementChild.textContent = frames === 1 ? "once" : `${frames} ×`;
    card.classList.toggle("current", now.newest?.category === category);
    return card;
  });
  const same = wanted.length === gallery.children.length && wanted.every((card, index) => gallery.children[index] === card);
  if (!same) gallery.replaceChildren(...wanted);
}

// The newest merges of categories, newest first. Written only when they change, so that it is read out once.
const JOINED = 3;

function drawJoined() {
  const told = now.joined.slice(-JOINED).reverse().map(({ from, into }) => `category ${from} joined category ${into}`).join(", ");
  const more = now.merges > JOINED ? ` (${now.merges} since the start)` : "";
  const text = told ? `${told[0].toUpperCase()}${told.slice(1)}${more}.` : "";
  if ($("joined").textContent !== text) $("joined").textContent = text;
  $("joined").hidden = !text;
}

function curve(title, series) {
  const width = 400, height = 150, left = 44, right = 6, top = 8, bottom = 18;
  const values = series.flatMap(({ points }) => points.map((point) => point[1]));
  const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const low = Math.min(0, ...values), high = Math.max(...values, 1e-6);
  const xs = series.flatMap(({ points }) => points.map((point) => point[0]));
  const from = Math.min(...xs), to = Math.max(...xs, from + 1);
  const x = (value) => left + ((value - from) / (to - from)) * (width - left - right);
  const y = (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom);
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(drawing("path", { class: "grid", d: `M${left} ${y(value).toFixed(1)}H${width - right}` }));
    const label = drawing("text", { x: left - 6, y: (y(value) + 4).toFixed(1), "text-anchor": "end" });
    label.textContent = Math.abs(value) >= 10 ? value.toFixed(0) : value.toPrecision(2);
    svg.append(label);
  }
  series.forEach(({ points }, index) => {
    const path = points.map((point, n) => `${n ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
    svg.append(drawing("path", { class: `line l${index}`, d: path }));
  });
  const foot = drawing("text", { x: width - right, y: height - 3, "text-anchor": "end" });
  foot.textContent = `update ${to}`;
  svg.append(foot);
  const last = series.map(({ name, points }) => `${name} ${points.length ? points[points.length - 1][1].toPrecision(3) : "–"}`).join(", ");
  return element("figure", {}, element("figcaption", {}, element("b", {}, title), element("span", { class: "soft" }, last)), svg);
}

let drawnLessons = null;

function drawCurves() {
  const known = `${lessons.length} up to ${lessons.length ? lessons[lessons.length - 1].update : 0}`;
  if (known === drawnLessons) return;
  drawnLessons = known;
  const notes = ["The first step comes when a window of frames is full.", "One step so far."];
  $("learning-note").textContent = notes[lessons.length] ?? "";
  const series = (name, key) => ({ name, points: lessons.filter((l) => Number.isFinite(l[key])).map((l) => [l.update, l[key]]) });
  const curves = lessons.length < 2 ? [] : [
    curve("Loss", [series("total", "loss"), series("self", "self")]),
    curve("Spread of the embeddings", [series("", "collapse")]),
    curve("Mean û", [series("", "mean_u_hat")]),
  ];
  $("curves").replaceChildren(...curves);
}

// ---------------------------------------------------------------- asking

let busy = false;

async function ask(command, body) {
  busy = true;
  drawHead();
  say("…");
  try {
    const answer = await fetch(`api/${command}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const said = await answer.json();
    say(said.message, !said.ok);
    await takeWhole();
  } catch (problem) {
    say(`That did not work: ${problem.message}`, true);
  } finally {
    busy = false;
    if (now) drawHead();
  }
}

let hush = 0;

function say(text, bad = false) {
  clearTimeout(hush);
  $("message").textContent = text;
  $("message").hidden = false;
  $("message").classList.toggle("bad", bad);
  hush = setTimeout(() => ($("message").hidden = true), bad ? 15000 : 6000);
}

$("pause").addEventListener("click", () => ask(now.paused ? "resume" : "pause", {}));
$("forget").addEventListener("click", () => $("forget-dialog").showModal());
$("forget-cancel").addEventListener("click", () => $("forget-dialog").close());
for (const choice of document.querySelectorAll("#forget-dialog [data-seconds]")) {
  choice.addEventListener("click", () => {
    $("forget-dialog").close();
    ask("forget", { last_s: Number(choice.dataset.seconds) });
  });
}

watch();
