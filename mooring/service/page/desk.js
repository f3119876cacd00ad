// The planning desk: sliders for rates, a choice of policies, pins; everything is planned anew as they change.

import { ask, read } from "./link.js";
import { element, figure, show, table, times } from "./words.js";

const COMPARED = ["rod", "llf", "connected", "random"];
let trial = { policy: "rod", rates: {}, pins: {}, example: false };
let plan = null, under_way = false, again = false, streams = [], axes = null, policies = [], drawAll = null, drawCut = null;

export async function startDesk(drawPicture, drawSlice) {
  [drawAll, drawCut] = [drawPicture, drawSlice];
  for (const id of ["proposal", "happenings", "course", "asked"]) document.getElementById(id).hidden = true;
  document.getElementById("desk").hidden = false;
  policies = Object.keys((await read("policies")).policies);
  await open(false);
}

// The problem that the desk was opened for, or the example.
async function open(example) {
  trial = { policy: trial.policy, rates: {}, pins: {}, example };
  axes = null;
  const problem = await read(example ? "example" : "problem");
  streams = Object.entries(problem.streams).slice(0, 60).map(([name, { rate }]) => ({ name, stated: rate }));
  controls(Object.keys(problem.operators), Object.keys(problem.sites));
  await refresh();
}

const options = (names, chosen) => names.map((name) => element("option", { selected: name === chosen }, name));

function slider({ name, stated }) {
  const shown = element("output", {}, figure(stated));
  const input = element("input", { type: "range", min: 0, max: 300, value: 100, "aria-label": `rate of ${name}`,
    oninput: (event) => {
      trial.rates[name] = (stated * event.target.value) / 100;
      shown.textContent = figure(trial.rates[name]);
      refresh();
    } });
  return element("label", {}, element("span", { title: name }, name), input, shown);
}

function pinning(operators, sites) {
  const operator = element("select", { "aria-label": "operator to pin" }, ...options(operators));
  const site = element("select", { "aria-label": "site to pin it to" }, element("option", { value: "" }, "anywhere"), ...options(sites));
  const pins = element("span", { class: "dim", role: "status" });
  const pin = () => {
    if (site.value) trial.pins[operator.value] = site.value;
    else delete trial.pins[operator.value];
    pins.textContent = Object.entries(trial.pins).map(([o, s]) => `${o} at ${s}`).join(", ");
    refresh();
  };
  return element("div", { class: "row" }, "pin", operator, "to", site, element("button", { class: "quiet", onclick: pin }, "Pin"), pins);
}

function controls(operators, sites) {
  const choose = (event) => { trial.policy = event.target.value; refresh(); };
  const checks = policies.map((name) => element("label", {},
    element("input", { type: "checkbox", name: "compared", value: name, checked: COMPARED.includes(name) }), name));
  show("desk",
    element("div", { class: "row" },
      element("label", {}, "policy ", element("select", { id: "policy", onchange: choose }, ...options(policies, trial.policy))),
      element("button", { id: "download", class: "quiet", onclick: () => said(download()) }, "Download the plan"),
      element("button", { id: "example", class: "quiet", onclick: () => said(open(!trial.example)) }, trial.example ? "Back to the problem" : "The example problem"),
      element("span", { id: "said", class: "bad", role: "alert" })),
    pinning(operators, sites),
    element("div", { class: "sliders" }, ...streams.map(slider)),
    element("fieldset", { class: "checks" }, element("button", { id: "compare", class: "quiet", onclick: () => said(compare()) }, "Compare"), ...checks),
    element("div", { id: "compared" }));
}

// What goes wrong is said where it was asked for.
async function said(doing) {
  const place = document.getElementById("said");
  try {
    await doing;
    place.textContent = "";
  } catch (problem) {
    place.textContent = problem.message;
  }
}

// One plan at a time; what changed meanwhile is planned when it is there.
async function refresh() {
  again = true;
  if (under_way) return;
  under_way = true;
  while (again) {
    again = false;
    await said(planned());
  }
  under_way = false;
}

async function planned() {
  plan = await ask("desk/plan", trial);
  drawAll(plan.picture);
  await refreshCut();
}

async function refreshCut() {
  document.getElementById("slice").hidden = streams.length < 2;
  if (streams.length < 2) return;
  axes ??= [streams[0].name, streams[1].name];
  const cut = await ask("desk/slice", { first: axes[0], second: axes[1], trial });
  drawCut(cut, [], (k, name) => {
    if (name === axes[1 - k]) axes[1 - k] = axes[k];
    axes[k] = name;
    refresh();
  });
}

const share = (x) => [x == null ? "–" : `${Math.round(100 * x)}%`, "n"];

async function compare() {
  const chosen = [...document.querySelectorAll("input[name=compared]:checked")].map((each) => each.value);
  const { policies: found } = await ask("desk/compare", { policies: chosen, trial });
  document.getElementById("compared").replaceChildren(table(["policy", ["headroom", "n"], ["of the ideal feasible set", "n"], ["busiest site", "n"]],
    Object.entries(found).map(([name, { metrics, refused }]) => refused ? [name, refused, "", ""] : [
      name, [times(metrics.headroom?.factor), "n"], share(metrics.feasible_ratio), share(metrics.max_utilisation)])));
}

async function download() {
  const content = JSON.stringify(await ask("desk/document", trial), null, 2);
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type: "application/json" })), download: "plan.json" });
  link.click();
  URL.revokeObjectURL(link.href);
}
