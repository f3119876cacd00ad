// The last lines of the run's logs, read with the token.

import { hasToken, read } from "./link.js";
import { bytes, element, moment, show, table, worded } from "./words.js";

const LINES = 200, LOOK_MS = 3000;
let opened = "", logLines = [], logs = [], noLogs = "", readingLogs = false;

export const hasLog = (name) => logs.some((each) => each.name === name);

export async function openLog(name) {
  opened = opened === name ? "" : name;
  logLines = [];
  await refreshLogs();
  if (opened) document.getElementById("logs").scrollIntoView({ block: "nearest" });
}

export async function refreshLogs() {
  if (readingLogs) return;
  readingLogs = true;
  try {
    if (hasToken()) logs = (await read("logs")).logs;
    if (opened) logLines = (await read(`logs/${encodeURIComponent(opened)}?newest=${LINES}`)).lines;
    noLogs = hasToken() ? "" : "Logs are shown with the token: open the page at the address that `mooring` printed, or use `mooring logs`.";
  } catch (problem) {
    noLogs = problem.message;
  }
  readingLogs = false;
  drawLogs();
}

function drawLogs() {
  document.getElementById("logs").hidden = !logs.length && !noLogs;
  const before = document.querySelector("#logs pre"), stays = before && before.scrollTop + before.clientHeight < before.scrollHeight - 4 ? before.scrollTop : null;
  show("logs",
    noLogs ? element("p", { class: "dim" }, ...worded(noLogs)) : null,
    logs.length ? table(["log", ["size", "n"], "changed", "file"], logs.map((each) => [
      element("button", { class: "link", id: `log ${each.name}`, "aria-expanded": String(each.name === opened), onclick: () => openLog(each.name) }, each.name),
      [bytes(each.bytes), "n"], moment(each.changed_s), element("code", {}, each.path)])) : null,
    opened ? element("pre", { tabindex: 0, role: "region", "aria-label": `last lines of ${opened}` }, logLines.join("\n") || "It is empty.") : null);
  const now = document.querySelector("#logs pre");
  if (now) now.scrollTop = stays ?? now.scrollHeight;
}

export const followLogs = () => setInterval(() => { if (opened) refreshLogs(); }, LOOK_MS);
