// A run as it goes on, or a problem file as a planning desk; a frozen page has its picture in itself.

import { acts } from "./acts.js";
import { courseChart, linesChart, sliceChart } from "./charts.js";
import { startDesk } from "./desk.js";
import { crowded, lanes } from "./lanes.js";
import { ask, follow, keepToken, read } from "./link.js";
import { followLogs, hasLog, openLog, refreshLogs } from "./logs.js";
import { asked, fragments, happenings, head, proposal, queries, tiles, troubles, views } from "./panels.js";
import { element, figure, roomIn, seconds, show, worded } from "./words.js";

const frozen = document.getElementById("frozen");
let newest = null, points = [], chosen = null, sliced = null;

export function drawPicture(picture) {
  newest = picture;
  document.body.classList.add("ready");
  document.body.classList.toggle("crowded", crowded(picture));
  document.body.dataset.at = picture.at_s;
  document.getElementById("waiting").hidden = true;
  const moves = picture.happenings.filter((each) => each.kind === "move");
  moves.forEach((each, k) => { each.number = moves.length - k; });
  head(picture);
  troubles(picture, frozen ? null : openLog, hasLog);
  tiles(picture);
  show("lanes", lanes(picture, roomIn("lanes")));
  fragments(picture);
  views(picture);
  queries(picture);
  proposal(picture, apply, dismiss, abort);
  happenings(picture);
}

function state(text, style, since = "") {
  const pill = document.getElementById("state");
  const made = [element("b", { class: style, "aria-hidden": "true" }, "● "), text];
  if (pill.textContent !== `● ${text}` || pill.firstChild.className !== style) pill.replaceChildren(...made);
  document.getElementById("since").textContent = since;
}

// What went wrong with something that somebody asked for: it stays until something is asked for again.
function notice(text) {
  document.getElementById("notice").hidden = !text;
  show("notice", element("p", {}, ...worded(text)));
}

export function drawSlice(cut, all, choose) {
  sliced = [cut, all, choose];
  document.getElementById("slice").hidden = false;
  const streams = newest.streams.map((each) => each.name);
  const select = (k) => element("select", { id: `stream${k}`, "aria-label": k ? "second stream" : "first stream",
    onchange: (event) => choose(k, event.target.value) },
    ...streams.map((name) => element("option", { selected: name === (k ? cut.second : cut.first) }, name)));
  const said = cut.overloaded ? `${cut.overloaded} is full at all rates of these two` : cut.beyond ? `beyond the edge: ${cut.beyond} is overloaded` : null;
  show("choice", element("div", { class: "row" }, ...(choose ? [select(0), "against", select(1)] : [`${cut.first} against ${cut.second}`])),
    said ? element("p", { class: "bad" }, said) : null);
  show("slice", sliceChart(cut, all, roomIn("slice"), document.querySelector("#slice .body svg")));
}

function choose(k, name) {
  chosen = [sliced[0].first, sliced[0].second];
  if (name === chosen[1 - k]) chosen[1 - k] = chosen[k];
  chosen[k] = name;
  refreshSlice();
}

async function refreshSlice() {
  if (newest.headroom.missing) { // nor is what bounds the rates
    document.getElementById("slice").hidden = true;
    return;
  }
  // Until somebody has chosen, the two streams that are nearest to the edge, which a flood changes.
  const given = chosen ? `?first=${encodeURIComponent(chosen[0])}&second=${encodeURIComponent(chosen[1])}` : "";
  try {
    drawSlice(await read(`slice${given}`), points, choose);
  } catch {
    document.getElementById("slice").hidden = true;
  }
}

export function drawCourse(all) {
  points = all;
  document.getElementById("course").hidden = all.length < 2;
  if (all.length >= 2) show("course", ...courseChart(all, newest.happenings.filter((each) => each.kind === "move"), newest.sites, roomIn("course")));
  drawLines("latencies", (p) => p.latencies_s ?? {}, seconds, "Latency of every query over time");
  drawLines("rates", (p) => p.rates ?? {}, figure, "Rows per second of every stream over time");
  drawLines("backlog", (p) => ({ "rows waiting": p.rows_waiting }), figure, "Rows that wait to be read, of all fragments together, over time");
}

function drawLines(id, pick, said, label) {
  const some = points.filter((p) => Object.values(pick(p)).some((v) => v != null)).length >= 2;
  document.getElementById(id).hidden = !some;
  if (some) show(id, ...linesChart(points, pick, said, label, roomIn(id)));
}

async function taken(picture) {
  if (picture.waiting) {
    state(picture.runs ? "starting" : "waiting", "warn");
    document.getElementById("waiting").hidden = document.body.classList.contains("ready");
    show("waiting", element("p", {}, `${picture.waiting[0].toUpperCase()}${picture.waiting.slice(1)}.`),
      element("p", { class: "dim" }, ...worded(picture.runs ? "The page shows it after its first measurement."
        : "Start it with `mooring run PROJECT`; this page updates by itself.")));
    return;
  }
  if (picture.runs) state("running", "ok", seconds(picture.since_start_s));
  else state("does not run; it last looked like this", "warn");
  document.getElementById("acts").hidden = !picture.runs;
  drawPicture(picture);
  acts(picture, asking, notice);
  drawCourse((await read("history")).points);
  await Promise.all([refreshSlice(), refreshAsked(), refreshLogs()]);
}

async function refreshAsked() {
  asked((await read("moves")).requests);
}

async function asking(path, body) {
  try {
    await ask(path, body);
    notice("");
    await untilOver().catch(() => {}); // a service that has ended with its run is told of elsewhere
  } catch (problem) {
    notice(problem.message);
  }
}

// Shows how far requests are until none is under way.
async function untilOver() {
  for (let k = 0; k < 600; k++) {
    const { requests } = await read("moves");
    asked(requests);
    if (!requests.some((each) => each.state === "running")) break;
    await new Promise((over) => setTimeout(over, 500));
  }
}

const apply = (id) => asking("moves", { id });
const dismiss = (id) => asking("proposal/dismiss", { id });
const abort = () => asking("moves/abort", {});

function tick() {
  const age = newest?.at_s ? Date.now() / 1000 - newest.at_s : null;
  document.getElementById("seen").textContent = age == null || newest.desk ? "" : age < 1 ? "seen just now" : `seen ${seconds(Math.round(age))} ago`;
}

// What depends on how much room there is.
function drawAgain() {
  if (!newest) return;
  show("lanes", lanes(newest, roomIn("lanes")));
  if (!newest.desk) drawCourse(points);
  if (sliced) drawSlice(...sliced);
}

async function start() {
  let due = 0;
  addEventListener("resize", () => { cancelAnimationFrame(due); due = requestAnimationFrame(drawAgain); });
  if (frozen) {
    const { picture, history, cut, ended } = JSON.parse(frozen.textContent);
    state(ended, "dim");
    drawPicture(picture);
    drawCourse(history);
    if (cut) drawSlice(cut, history, null);
    else document.getElementById("slice").hidden = true;
    document.getElementById("asked").hidden = document.getElementById("proposal").hidden = true;
    return;
  }
  keepToken();
  const first = await read("picture").catch((problem) => (notice(problem.message), null));
  if (first?.desk) {
    state("planning desk", "ok");
    await startDesk(drawPicture, drawSlice).catch((problem) => notice(problem.message));
    return;
  }
  setInterval(tick, 1000);
  followLogs();
  let known = Boolean(first); // what was wrong at first is so no more once a picture has come
  follow((picture) => {
    if (!known) notice("");
    known = true;
    return taken(picture);
  }, (why) => state(why, "bad"));
}

start();
