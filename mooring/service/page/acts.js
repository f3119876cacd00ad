// What can be done to a run: leave and return a site, move a fragment, replan, stop. Each shows what it does first.

import { ask, hasToken, read } from "./link.js";
import { movesShown } from "./panels.js";
import { element, show } from "./words.js";

const wanted = { site: "", fragment: "", to: "", policy: "rod", force: false };
let pending = null, drawnLast = null, plannedBy = null;

// `request(path, body)` asks for a change and follows it; `failed(words)` says why something could not be worked out.
export function acts(picture, request, failed) {
  drawnLast = [picture, request, failed];
  const sites = picture.sites.map((each) => each.name), fragments = picture.fragments.filter((each) => !each.pinned).map((each) => each.name);
  if (!sites.includes(wanted.site)) wanted.site = sites[0];
  if (!sites.includes(wanted.to)) wanted.to = sites.at(-1);
  if (!fragments.includes(wanted.fragment)) wanted.fragment = fragments[0] ?? "";
  if (plannedBy === null && hasToken()) {
    plannedBy = [];
    read("policies").then((found) => { plannedBy = Object.keys(found.policies); drawActs(); }).catch((problem) => failed(problem.message));
  }
  const left = picture.left_sites?.[wanted.site] != null;
  show("acts",
    element("div", { class: "row" }, "Site", choice("site", sites, "site to leave or to return"),
      left ? quiet("return", "Return it", () => request(`sites/${encodeURIComponent(wanted.site)}/return`, {})) : quiet("leave", "Leave it", () => askFirst({ kind: "leave", site: wanted.site }))),
    fragments.length && sites.length > 1 ? element("div", { class: "row" }, "Move", choice("fragment", fragments, "fragment to move"),
      "to", choice("to", sites, "site to move it to"), quiet("preview", "Show the effect", () => worked("moves/preview", { sites: { [wanted.fragment]: wanted.to } }))) : null,
    plannedBy?.length ? element("div", { class: "row" }, "Replan by", choice("policy", plannedBy, "policy of the new plan"),
      quiet("replan", "Show the plan", () => worked("plan", { policy: wanted.policy }))) : null,
    element("div", { class: "row" }, quiet("stop", "Stop the run", () => askFirst({ kind: "stop" }))),
    element("div", { role: "status" }, ...(pending ? questions(picture) : [])));
}

const drawActs = () => drawnLast && acts(...drawnLast);
const quiet = (id, words, onclick) => element("button", { id, class: "quiet", onclick }, words);

function choice(id, names, label) {
  const taken = (event) => { wanted[id] = event.target.value; drawActs(); };
  return element("select", { id: `chosen-${id}`, "aria-label": label, onchange: taken },
    ...names.map((name) => element("option", { selected: name === wanted[id] }, name)));
}

function askFirst(what) {
  pending = what;
  drawActs();
}

// What a list of moves would do; nothing is moved before it is applied.
async function worked(path, body) {
  try {
    const list = await ask(path, body);
    askFirst({ kind: "moves", list });
  } catch (problem) {
    drawnLast[2](problem.message);
  }
}

// By what is asked about when it is clicked.
function goAhead() {
  const { kind, site, list } = pending, [picture, request] = drawnLast;
  askFirst(null);
  if (kind === "stop") request("stop", { pipeline: picture.pipeline });
  else if (kind === "leave") request(`sites/${encodeURIComponent(site)}/leave`, { force: wanted.force });
  else request("moves", { id: list.id });
}

function questions(picture) {
  const cancel = quiet("cancel", "Cancel", () => askFirst(null));
  const sure = (words) => element("div", { class: "row" }, element("button", { id: "sure", onclick: goAhead }, words), cancel);
  if (pending.kind === "stop")
    return [element("p", {}, "All fragments end after their present batch. ", element("code", {}, "mooring run"), " goes on from there."),
      sure(`Stop ${picture.pipeline}`)];
  if (pending.kind === "leave") {
    const there = picture.fragments.filter((each) => each.site === pending.site).map((each) => each.name);
    return [element("p", {}, there.length ? `${there.join(", ")} ${there.length === 1 ? "moves" : "move"} to other sites; ${pending.site} stays empty until it is returned.` : `Nothing runs at ${pending.site}; it stays empty until it is returned.`),
      element("label", {}, element("input", { type: "checkbox", id: "force", checked: wanted.force, onchange: (event) => { wanted.force = event.target.checked; drawActs(); } }),
        " even if the other sites cannot keep up, and fragments that may run nowhere else stop"),
      sure(`Leave ${pending.site}`)];
  }
  if (!pending.list.moves.length) return [element("p", {}, "Nothing would move."), element("div", { class: "row" }, cancel)];
  return [...movesShown(pending.list, picture), sure(pending.list.moves.length === 1 ? "Make this move" : `Make these ${pending.list.moves.length} moves`)];
}
