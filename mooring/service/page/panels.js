// The rest of the page, part by part: what is said in figures and words.

import { bar, bytes, counted, drawn, element, figure, moment, percent, room, seconds, show, table, times, tone, worded } from "./words.js";

export function head(picture) {
  document.title = `${picture.pipeline} · Mooring`;
  document.getElementById("name").textContent = picture.pipeline;
  const { decider, act } = picture.adapting ?? {};
  const adapting = decider ? `, adapting by ${decider}: ${act === "apply" ? "applies by itself" : "proposes, you apply"}` : "";
  document.getElementById("placed").textContent = `placed by ${picture.policy}${adapting}`;
}

const tile = (title, big, style, ...below) =>
  element("div", {}, element("h2", {}, title), element("div", { class: `big ${style}` }, big), element("div", { class: "dim" }, ...below));

export function tiles(picture) {
  const { factor, missing, words } = picture.headroom, streams = picture.streams.filter((s) => s.rate != null);
  const limited = picture.queries.filter((q) => q.limit_s != null && q.latency_s != null);
  const late = limited.filter((q) => q.latency_s > q.limit_s).toSorted((a, b) => b.latency_s / b.limit_s - a.latency_s / a.limit_s);
  const down = picture.sites.filter((s) => picture.troubles?.[`site ${s.name}`]), troubled = Object.keys(picture.troubles ?? {}).length;
  show("tiles",
    missing ? tile("Headroom", "not known yet", "dim", missing) : tile(room(factor), times(factor),
      factor < 1.1 && factor != null ? "bad" : troubled || (factor < 1.25 && factor != null) ? "warn" : "ok", words),
    tile("Rows per second", figure(streams.reduce((sum, s) => sum + s.rate, 0)), "", besidePlan(streams)),
    limited.length ? tile("Limits met", `${limited.length - late.length} of ${limited.length}`, late.length ? "bad" : "ok",
      late.length ? element("span", { class: "bad" }, `${late[0].name} ${seconds(late[0].latency_s)}, limit ${seconds(late[0].limit_s)}`) : "all in time") : null,
    tile("Sites", `${picture.sites.length - down.length} of ${picture.sites.length}`, down.length ? "bad" : "", picture.desk ? "as planned" : movesSoFar(picture)),
    picture.desk ? ratioTile(picture.feasible_ratio) : !picture.queries.length ? tile("Troubles", figure(troubled), troubled ? "bad" : "ok", troubled ? "see above" : "all fragments run")
      : tile("Delivered", figure(picture.queries.reduce((sum, q) => sum + (q.rows ?? 0), 0)), "",
        "rows in this run; ", troubled ? element("span", { class: "bad" }, `${troubled} in trouble`) : "no troubles"),
  );
}

const ratioTile = (ratio) => (ratio == null ? null : tile("Feasible", percent(ratio), "", "of the rates within the total capacity"));

// The stream that differs most from what was planned.
function besidePlan(streams) {
  const known = streams.filter((s) => s.stated > 0), off = (s) => Math.abs(Math.log(Math.max(s.rate, 1e-9) / s.stated));
  if (!known.length) return streams.length ? "no rates were planned" : "not measured yet";
  const most = known.toSorted((a, b) => off(b) - off(a))[0], ratio = most.rate / most.stated;
  return Math.abs(ratio - 1) < 0.05 ? "all streams as planned" : `${most.name} at ${times(ratio)} its planned rate`;
}

function movesSoFar(picture) {
  const moves = picture.happenings.filter((each) => each.kind === "move");
  const undone = moves.filter((each) => each.state.includes("taken back") || each.state.includes("aborted")).length;
  return moves.length ? `${counted(moves.length, "list")} of moves, ${undone ? `${undone} taken back` : "none taken back"}` : "nothing was moved";
}

const MOST_TROUBLES = 20, MOST_FRAGMENTS = 40;

// The most urgent first. `openLog` is called with the name of a log that `hasLog` knows; null where logs cannot be read.
export function troubles(picture, openLog, hasLog) {
  const found = picture.trouble_list ?? [], more = found.length - MOST_TROUBLES;
  document.getElementById("troubles").hidden = !found.length;
  show("troubles", ...found.slice(0, MOST_TROUBLES).map((each) => trouble(each, picture.at_s, openLog, hasLog)),
    more > 0 ? element("p", { class: "dim" }, `and ${more} more`) : null);
}

function trouble(each, at_s, openLog, hasLog) {
  const known = each.kind === "new" ? each.what : each.kind.endsWith(" lost") ? `${each.kind}: ${each.what}` : `${each.what}: ${each.kind}`;
  const where = each.site && each.site !== each.what ? ` at ${each.site}` : "", log = openLog && each.site && hasLog(`site ${each.site}`) ? `site ${each.site}` : null;
  const reading = (event) => openLog(event.target.dataset.log);
  return element("div", { class: "case" },
    element("p", {}, element("b", { class: "bad" }, `${known}${where}`), " ",
      each.since_s == null ? null : element("span", { class: "dim" }, "since ", moment(each.since_s), `, for ${seconds(Math.max(0, Math.round(at_s - each.since_s)))}`)),
    element("p", {}, ...worded(`${capital(each.why)}.`)),
    each.affects.length ? element("p", {}, "Affects ", element("b", {}, each.affects.slice(0, 5).join(", ")), each.affects.length > 5 ? ` and ${each.affects.length - 5} more` : "", ".") : null,
    each.remedy || log ? element("p", {}, each.remedy ? "To do: " : "", ...worded(each.remedy ? `${each.remedy.replace("PROJECT --site", "--site")}. ` : ""),
      log ? element("button", { class: "link", id: `read ${each.name}`, "data-log": log, onclick: reading }, `Log of ${each.site}`) : null) : null);
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// How far each keeps up: the ones that are nearest to falling behind first.
export function fragments(picture) {
  const refreshed = picture.views ?? {}; // at its interval, at no trigger
  const full = (f) => (f.batch_s == null || !picture.trigger_s || f.name in refreshed ? null : f.batch_s / picture.trigger_s);
  const rows = (f) => (f.rows_waiting == null && f.rows_behind == null ? null : (f.rows_waiting ?? 0) + (f.rows_behind ?? 0));
  const order = picture.fragments.toSorted((a, b) => a.runs - b.runs || (full(b) ?? 0) - (full(a) ?? 0) || (rows(b) ?? 0) - (rows(a) ?? 0));
  const late = new Map(picture.trouble_list?.filter((each) => each.kind !== "site lost").map((each) => [each.what, each.kind]));
  const waits = (f) => (rows(f) != null ? counted(rows(f), "row") : f.files_waiting == null ? "–" : counted(f.files_waiting, "file"));
  document.getElementById("fragments").hidden = Boolean(picture.desk) || !order.length;
  show("fragments", table(["fragment", "at", ["rows/s", "n"], ["batch", "n"], "of the trigger", ["waiting", "n"], ["state", "n"], ["restarts", "n"]],
    order.slice(0, MOST_FRAGMENTS).map((f) => [
      element("span", {}, f.name, late.has(f.name) || !f.runs ? element("b", { class: "bad" }, ` ${late.get(f.name) ?? "does not run"}`) : null),
      f.site, [figure(f.rows_in_per_s), "n"], [seconds(f.batch_s), "n"],
      full(f) == null ? "" : element("span", { class: "gauge" }, drawn("svg", { width: 60, height: 8, "aria-hidden": "true" }, bar(full(f), 60)), ` ${percent(full(f))}`),
      [waits(f), "n"], [f.state_bytes ? bytes(f.state_bytes) : "", "n"], [f.restarts ? figure(f.restarts) : "", "n"]])),
  order.length > MOST_FRAGMENTS ? element("p", { class: "dim" }, `and ${order.length - MOST_FRAGMENTS} more that are further from falling behind`) : null);
}

export function views(picture) {
  const all = Object.entries(picture.views ?? {}).toSorted(([, a], [, b]) => b.age_s / Math.max(1, b.refresh_s) - a.age_s / Math.max(1, a.refresh_s));
  const homes = new Map(picture.fragments.map((each) => [each.name, each.site])), stale = (name) => `stale view: ${name}` in (picture.troubles ?? {});
  document.getElementById("views").hidden = !all.length;
  show("views", table(["view", "at", ["age", "n"], ["refreshed every", "n"], ["refresh took", "n"], ["rows", "n"]], all.map(([name, v]) => [
    name, homes.get(name) ?? "", [seconds(v.age_s), `n ${stale(name) ? "bad" : ""}`], [seconds(v.refresh_s), "n"], [seconds(v.took_s), "n"], [figure(v.rows), "n"]])));
}

export function queries(picture) {
  document.getElementById("queries").hidden = !picture.queries.length;
  const share = (q) => (q.limit_s == null || q.latency_s == null ? null : q.latency_s / q.limit_s), rates = picture.queries.some((q) => q.rows_per_s != null);
  const nearest = picture.queries.toSorted((a, b) => (share(b) ?? -1) - (share(a) ?? -1));
  show("queries", table(["query", "at", ["latency", "n"], ["limit", "n"], "share", ...(rates ? [["rows/s", "n"]] : [])], nearest.map((q) => [
    q.name, q.site, [seconds(q.latency_s), `n ${share(q) == null ? "" : tone(share(q))}`], [q.limit_s == null ? "none" : seconds(q.limit_s), "n"],
    share(q) == null ? "" : element("span", { class: "gauge" }, drawn("svg", { width: 44, height: 20, role: "img", "aria-label": `${percent(share(q))} of its limit` },
      bar(share(q), 44, { transform: "translate(0 6)" }))),
    ...(rates ? [[figure(q.rows_per_s), "n"]] : []),
  ])));
}

// As predicted, with its range where past moves give one.
const pauseOf = (m) => `about ${seconds(m.pause_s)}${m.pause_low_s != null && m.pause_high_s > m.pause_low_s ? ` (${seconds(m.pause_low_s)} to ${seconds(m.pause_high_s)})` : ""}`;

// A list of moves with what it does, beside the headroom that the page shows.
export function movesShown(list, picture) {
  const now = picture.headroom.missing ? list.before.headroom : picture.headroom.factor, then = (list.predicted ?? list.moves.at(-1).after).headroom, longest = list.moves.toSorted((a, b) => (b.pause_s ?? 0) - (a.pause_s ?? 0))[0];
  const better = then == null || (now != null && then >= now);
  return [
    ...list.moves.map((m) => element("p", {}, "Move ", element("b", {}, m.fragment), " from ", element("b", {}, m.from), " to ", element("b", {}, m.to), ".")),
    element("p", {}, `Headroom ${times(now)} → `, element("b", { class: better ? "ok" : "warn" }, times(then)),
      `; pause ${pauseOf(longest)}, ${bytes(list.moves.reduce((sum, m) => sum + (m.state_bytes ?? 0), 0))} of state.`),
  ];
}

// `apply` and `dismiss` are called with the fingerprint of exactly what is shown.
export function proposal(picture, apply, dismiss, abort) {
  const place = document.getElementById("proposal"), found = picture.proposal, busy = picture.under_way;
  place.classList.toggle("there", Boolean(busy || found?.moves.length));
  if (busy) {
    show("proposal", element("p", {}, `Move ${busy.step} of ${busy.of}: `, element("b", {}, busy.fragment ?? ""), ` ${busy.from ?? ""} → ${busy.to ?? ""}: ${busy.reached ?? "requested"}.`),
      element("p", { class: "dim" }, busy.asked_by ? `Requested by ${busy.asked_by}.` : ""),
      element("button", { id: "abort", class: "quiet", onclick: abort }, "Take it back"));
    return;
  }
  if (!found?.moves.length) {
    show("proposal", element("p", { class: "dim" }, ["Nothing is proposed", picture.adapting?.why].filter(Boolean).join(": ")));
    return;
  }
  const after = found.predicted?.site_loads_cores ?? {};
  const sites = picture.sites.filter((s) => s.name in after).map((s) => [
    s.name, [percent(s.share), `n ${tone(s.share)}`], "→",
    [percent(after[s.name] / s.capacity_cores), `n ${tone(after[s.name] / s.capacity_cores)}`],
  ]);
  const asking = (what) => (event) => what(event.target.dataset.list);
  show("proposal",
    ...movesShown(found, picture),
    sites.length ? table(["site", ["now", "n"], "", ["after", "n"]], sites) : null,
    element("p", { class: "dim" }, found.reason ? `Why: ${found.reason}.` : ""),
    element("div", { class: "row" },
      element("button", { id: "apply", "data-list": found.id, onclick: asking(apply) }, "Apply"),
      element("button", { id: "dismiss", class: "quiet", "data-list": found.id, onclick: asking(dismiss) }, "Dismiss")));
}

export function happenings(picture) {
  document.getElementById("happenings").hidden = Boolean(picture.desk);
  const cores = new Map(picture.sites.map((site) => [site.name, site.capacity_cores]));
  const loads = (given) => Object.entries(given ?? {}).slice(0, 4).map(([site, x]) =>
    `, ${site} ${cores.get(site) ? percent(x / cores.get(site)) : `${figure(x, 2)} cores`}`).join("");
  show("happenings", picture.happenings.length ? table(["when", "what", "requested by", "promised", "measured after"], picture.happenings.map((each) => [
    moment(each.at_s),
    element("span", {}, each.number ? element("b", { class: "badge", title: "its mark in “Load of the sites”" }, String(each.number)) : null,
      each.what + (each.state ? `: ${each.state}` : "") + (each.pause_s != null ? `, pause ${seconds(each.pause_s)}` : "")),
    each.asked_by, each.promised ? `headroom ${times(each.promised.headroom)}${loads(each.promised.site_loads_cores)}` : "",
    each.measured ? `busiest ${percent(each.measured.busiest)}${loads(each.measured.site_loads_cores)}; ${each.verdict}` : each.verdict ?? "",
  ])) : element("p", { class: "dim" }, "Nothing yet."));
}

export function asked(requests) {
  document.getElementById("asked").hidden = !requests.length;
  const style = { refused: "bad", failed: "bad", aborted: "warn", done: "ok" };
  show("asked", table(["when", "what", "by", "state"], requests.map((each) => [
    moment(each.at_s), `${each.kind} ${each.words}`, each.asked_by, [each.why ? `${each.state}: ${each.why}` : each.state, style[each.state]]])));
}

export function why(sentences) {
  document.getElementById("why").hidden = !sentences.length;
  show("why", element("ul", {}, ...sentences.map((each) => element("li", {}, each))));
}
