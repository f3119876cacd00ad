// A run as it goes on, or a problem file as a planning desk; a frozen page has its picture in itself.

import { courseChart, sliceChart } from "./charts.js";
import { startDesk } from "./desk.js";
import { lanes } from "./lanes.js";
import { ask, follow, keepToken, read } from "./link.js";
import { asked, happenings, head, proposal, queries, tiles, troubles } from "./panels.js";
import { element, seconds, show } from "./words.js";

let newest = null, points = [], chosen = null;

export function drawPicture(picture) {
  newest = picture;
  document.body.dataset.at = picture.at_s;
  head(picture);
  tiles(picture);
  troubles(picture);
  show("lanes", lanes(picture));
  queries(picture);
  proposal(picture, apply, dismiss, abort);
  happenings(picture);
}

function state(text, style) {
  const pill = document.getElementById("state");
  pill.replaceChildren(element("b", { class: style }, "● "), text);
}

export function drawSlice(cut, all, choose) {
  const streams = newest.streams.map((each) => each.name);
  const select = (k) => element("select", { id: `stream${k}`, "aria-label": k ? "second stream" : "first stream",
    onchange: (event) => choose(k, event.target.value) },
    ...streams.map((name) => element("option", { selected: name === (k ? cut.second : cut.first) }, name)));
  show("slice", element("div", { class: "row" }, select(0), element("span", {}, "against"), select(1),
    cut.overloaded ? element("b", { class: "bad" }, `${cut.overloaded} is full whatever these two bring`)
      : cut.beyond ? element("b", { class: "bad" }, `beyond the edge: ${cut.beyond} gets more than it can do`) : null), sliceChart(cut, all));
}

async function refreshSlice() {
  // Until somebody has chosen, the two streams that are nearest to the edge, which a flood changes.
  const given = chosen ? `?first=${encodeURIComponent(chosen[0])}&second=${encodeURIComponent(chosen[1])}` : "";
  try {
    const cut = await read(`slice${given}`);
    drawSlice(cut, points, (k, name) => {
      chosen = [cut.first, cut.second];
      if (name === chosen[1 - k]) chosen[1 - k] = chosen[k];
      chosen[k] = name;
      refreshSlice();
    });
  } catch {
    document.getElementById("slice").hidden = true;
  }
}

export function drawCourse(all) {
  document.getElementById("course").hidden = all.length < 2;
  if (all.length >= 2) show("course", ...courseChart(all, newest.happenings.filter((each) => each.kind === "move")));
}

async function taken(picture) {
  if (picture.waiting) {
    state(picture.waiting, "warn");
    return;
  }
  state(picture.runs ? `running ${seconds(picture.since_start_s)}` : "does not run; it last looked like this", picture.runs ? "ok" : "warn");
  drawPicture(picture);
  points = (await read("history")).points;
  drawCourse(points);
  await Promise.all([refreshSlice(), refreshAsked()]);
}

async function refreshAsked() {
  asked((await read("moves")).requests);
}

async function asking(path, body) {
  try {
    await ask(path, body);
  } catch (problem) {
    show("asked", element("p", { class: "bad", role: "alert" }, problem.message));
    document.getElementById("asked").hidden = false;
    return;
  }
  try {
    await untilOver();
  } catch (problem) {
    state(problem.message, "bad");
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
  document.getElementById("seen").textContent = age == null || newest.desk ? "" : `seen ${seconds(Math.max(0, age))} ago`;
}

async function start() {
  const frozen = document.getElementById("frozen");
  if (frozen) {
    const { picture, history, cut, ended } = JSON.parse(frozen.textContent);
    state(ended, "dim");
    drawPicture(picture);
    drawCourse(history);
    if (cut) drawSlice(cut, history, () => {});
    else document.getElementById("slice").hidden = true;
    document.getElementById("asked").hidden = document.getElementById("proposal").hidden = true;
    return;
  }
  keepToken();
  const first = await read("picture").catch((problem) => (state(problem.message, "bad"), null));
  if (first?.desk) {
    state("planning desk", "ok");
    startDesk(drawPicture, drawSlice);
    return;
  }
  setInterval(tick, 1000);
  follow(taken, (why) => state(why, "bad"));
}

start();
