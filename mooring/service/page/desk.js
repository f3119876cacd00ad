// The planning desk: sliders for rates, a choice of policies, pins; everything is planned anew as they change.

import { ask, read } from "./link.js";
import { why } from "./panels.js";
import { element, figure, percent, show, table, times } from "./words.js";

const COMPARED = ["rod", "llf", "connected", "random"];
let trial = { policy: "rod", rates: {}, pins: {}, example: false };
let plan = null, under_way = false, again = false, streams = [], axes = null, policies = [], drawAll = null, drawCut = null;

export async function startDesk(drawPicture, drawSlice) {
  [drawAll, drawCut] = [drawPicture, drawSlice];
  for (const id of ["proposal", "happenings", "course", "asked"]) document.getElementById(id).hidden = true;
  document.getElementById("desk").hidden = false;
  document.getElementById("lanes").addEventListener("click", choosePinned);
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

// From nothing to three times what the problem states; a stream that it states no rate for, to 300 per second.
function slider({ name, stated }) {
  const unit = stated || 100, said = (rate) => `${figure(rate)}/s${stated && rate !== stated ? ` × ${(rate / stated).toFixed(2)}` : ""}`;
  const shown = element("output", {}, said(stated));
  const input = element("input", { type: "range", min: 0, max: 300, value: stated ? 100 : 0, "aria-label": `rate of ${name}`, "aria-valuetext": said(stated),
    oninput: (event) => {
      trial.rates[name] = (unit * event.target.value) / 100;
      shown.textContent = said(trial.rates[name]);
      event.target.setAttribute("aria-valuetext", shown.textContent);
      refresh();
    } });
  return element("label", {}, element("span", { title: name }, name), input, shown);
}

function pinning(operators, sites) {
  const pin = () => {
    const operator = document.getElementById("operator").value, site = document.getElementById("site").value;
    trial.pins[operator] = site;
    pinned();
    refresh();
  };
  return element("div", { class: "row" }, "pin", element("select", { id: "operator", "aria-label": "operator to pin" }, ...options(operators)),
    "to", element("select", { id: "site", "aria-label": "site to pin it to" }, ...options(sites)),
    element("button", { class: "quiet", onclick: pin }, "Pin"), element("span", { id: "pins", role: "status" }));
}

// What is pinned here, each to be let go again.
function pinned() {
  const free = (operator) => () => { delete trial.pins[operator]; pinned(); refresh(); };
  const all = Object.entries(trial.pins).map(([operator, site]) =>
    element("button", { class: "link", "aria-label": `unpin ${operator} from ${site}`, onclick: free(operator) }, `${operator} at ${site} ✕`));
  document.getElementById("pins").replaceChildren(...all.flatMap((each, k) => (k ? [" ", each] : [each])));
}

// A click on a fragment chooses it as the operator to pin.
function choosePinned(event) {
  const name = event.target.closest("[data-fragment]")?.dataset.fragment, select = document.getElementById("operator");
  const own = [name, name?.split("#")[0]].find((each) => [...select.options].some((option) => option.value === each));
  if (own) select.value = own;
}

function controls(operators, sites) {
  const choosing = (event) => { trial.policy = event.target.value; refresh(); };
  const checks = policies.map((name) => element("label", {},
    element("input", { type: "checkbox", name: "compared", value: name, checked: COMPARED.includes(name) }), name));
  show("desk",
    element("div", { class: "row" },
      element("label", {}, "policy ", element("select", { id: "policy", onchange: choosing }, ...options(policies, trial.policy))),
      element("button", { id: "download", class: "quiet", onclick: () => said(download()) }, "Download the plan"),
      element("button", { id: "reset", class: "quiet", onclick: () => said(open(trial.example)) }, "As stated"),
      element("button", { id: "example", class: "quiet", onclick: () => said(open(!trial.example)) }, trial.example ? "Back to the problem" : "The example problem"),
      element("span", { id: "said", class: "bad", role: "alert" })),
    element("div", { class: "sliders" }, ...streams.map(slider)),
    pinning(operators, sites),
    element("fieldset", { class: "checks", "aria-label": "policies to compare" },
      element("button", { id: "compare", class: "quiet", onclick: () => said(compare()) }, "Compare"), ...checks),
    element("div", { id: "compared" }));
  document.getElementById("desk").querySelectorAll("input[type=range]").forEach((each, k) => { each.value = streams[k].stated ? 100 : 0; });
  document.getElementById("compared").replaceChildren();
  pinned();
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

const tried = () => JSON.stringify([trial.rates, trial.pins]);

// What was compared at other rates or with other pins pales.
function markStale() {
  const place = document.getElementById("compared");
  place.classList.toggle("stale", place.dataset.tried !== tried());
}

// One plan at a time; what changed meanwhile is planned when it is there.
async function refresh() {
  again = true;
  markStale();
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
  const stated = new Map(streams.map((each) => [each.name, each.stated]));
  drawAll({ ...plan.picture, streams: plan.picture.streams.map((each) => ({ ...each, stated: stated.get(each.name) ?? each.stated })),
    feasible_ratio: plan.metrics.feasible_ratio });
  why(plan.explanation);
  await refreshCut();
}

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

// The best of each column stands out; a policy that is clicked is the one to plan with.
async function compare() {
  const wanted = [...document.querySelectorAll("input[name=compared]:checked")].map((each) => each.value);
  const circumstances = tried();
  const { policies: found } = await ask("desk/compare", { policies: wanted, trial });
  const rows = Object.entries(found).map(([name, { metrics, refused }]) => ({ name, refused,
    values: refused ? [] : [metrics.headroom?.factor ?? null, metrics.feasible_ratio ?? null, metrics.max_utilisation ?? null] }));
  const best = [Math.max, Math.max, Math.min].map((pick, k) => pick(...rows.map((row) => row.values[k]).filter((x) => x != null)));
  const use = (event) => { document.getElementById("policy").value = trial.policy = event.target.textContent; refresh(); };
  const words = [times, percent, percent];
  const place = document.getElementById("compared");
  place.dataset.tried = circumstances;
  markStale();
  place.replaceChildren(table(["policy", ["headroom", "n"], ["of the ideal feasible set", "n"], ["busiest site", "n"]], rows.map((row) => [
    element("button", { class: "link", title: "plan with it", onclick: use }, row.name),
    ...(row.refused ? [row.refused, "", ""] : row.values.map((x, k) => [words[k](x), `n${words[k](x) === words[k](best[k]) ? " best" : ""}`]))])));
}

async function download() {
  const content = JSON.stringify(await ask("desk/document", trial), null, 2);
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type: "application/json" })), download: "plan.json" });
  link.click();
  URL.revokeObjectURL(link.href);
}
