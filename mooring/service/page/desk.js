// The planning desk: sliders for rates, a choice of policies, pins; everything is planned anew as they change.

import { ask, read } from "./link.js";
import { element, figure, show, table, times } from "./words.js";

const trial = { policy: "rod", rates: {}, pins: {} };
let plan = null, under_way = false, again = false, streams = [], drawAll = null, drawCut = null;

export async function startDesk(first, drawPicture, drawSlice) {
  [drawAll, drawCut] = [drawPicture, drawSlice];
  streams = first.streams.slice(0, 60);
  for (const id of ["proposal", "happenings", "course", "asked"]) document.getElementById(id).hidden = true;
  document.getElementById("desk").hidden = false;
  const { policies } = await read("policies");
  const problem = await read("problem");
  controls(Object.keys(policies), Object.keys(problem.operators), Object.keys(problem.sites));
  await refresh();
}

function controls(policies, operators, sites) {
  const slider = ({ name, stated }) => {
    const shown = element("output", {}, figure(stated));
    const input = element("input", { type: "range", min: 0, max: 300, value: 100, "aria-label": `rate of ${name}`,
      oninput: (event) => {
        trial.rates[name] = (stated * event.target.value) / 100;
        shown.textContent = figure(trial.rates[name]);
        refresh();
      } });
    return element("label", {}, element("span", { title: name }, name), input, shown);
  };
  const options = (names) => names.map((name) => element("option", {}, name));
  const operator = element("select", { "aria-label": "operator to pin" }, ...options(operators));
  const site = element("select", { "aria-label": "site to pin it to" }, element("option", { value: "" }, "anywhere"), ...options(sites));
  const pins = element("span", { class: "dim" });
  const pin = () => {
    if (site.value) trial.pins[operator.value] = site.value;
    else delete trial.pins[operator.value];
    pins.textContent = Object.entries(trial.pins).map(([o, s]) => `${o} at ${s}`).join(", ");
    refresh();
  };
  show("desk",
    element("div", { class: "row" },
      element("label", {}, "policy ", element("select", { id: "policy", onchange: (event) => { trial.policy = event.target.value; refresh(); } }, ...options(policies))),
      element("button", { id: "compare", class: "quiet", onclick: compare }, "Compare"),
      element("button", { id: "download", class: "quiet", onclick: download }, "Download the plan"),
      element("span", { id: "said", class: "bad", role: "alert" })),
    element("div", { class: "row" }, "pin", operator, "to", site, element("button", { class: "quiet", onclick: pin }, "Pin"), pins),
    element("div", { class: "sliders" }, ...streams.map(slider)),
    element("div", { id: "compared" }));
}

// One plan at a time; what changed meanwhile is planned when it is there.
async function refresh() {
  if (under_way) {
    again = true;
    return;
  }
  under_way = true;
  try {
    do {
      again = false;
      plan = await ask("desk/plan", trial);
      document.getElementById("said").textContent = "";
      drawAll(plan.picture);
      await refreshCut();
    } while (again);
  } catch (problem) {
    document.getElementById("said").textContent = problem.message;
  }
  under_way = false;
}

let axes = null;
async function refreshCut() {
  if (streams.length < 2) {
    document.getElementById("slice").hidden = true;
    return;
  }
  axes ??= [streams[0].name, streams[1].name];
  const cut = await ask("desk/slice", { first: axes[0], second: axes[1], trial });
  drawCut(cut, [], (k, name) => {
    if (name === axes[1 - k]) axes[1 - k] = axes[k];
    axes[k] = name;
    refresh();
  });
}

async function compare() {
  const { policies } = await ask("desk/compare", { policies: ["rod", "llf", "connected", "random"], trial });
  document.getElementById("compared").replaceChildren(table(["policy", ["headroom", "n"], ["of the ideal feasible set", "n"], ["busiest site", "n"]],
    Object.entries(policies).map(([name, { metrics, refused }]) => refused ? [name, refused, "", ""] : [
      name, [times(metrics.headroom?.factor), "n"], [metrics.feasible_ratio == null ? "–" : `${Math.round(100 * metrics.feasible_ratio)}%`, "n"],
      [metrics.max_utilisation == null ? "–" : `${Math.round(100 * metrics.max_utilisation)}%`, "n"]])));
}

function download() {
  if (!plan) return;
  const { picture: _drawn, ...document_ } = plan;
  const link = element("a", { href: URL.createObjectURL(new Blob([JSON.stringify(document_, null, 2)], { type: "application/json" })), download: "plan.json" });
  link.click();
  URL.revokeObjectURL(link.href);
}
