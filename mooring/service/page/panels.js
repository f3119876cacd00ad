// The rest of the page, part by part: what is said in figures and words.

import { bytes, clock, element, figure, percent, seconds, show, table, times, tone } from "./words.js";

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
  const { factor, site } = picture.headroom, streams = picture.streams.filter((s) => s.rate != null);
  const late = picture.queries.filter((q) => q.limit_s != null && q.latency_s > q.limit_s);
  const limited = picture.queries.filter((q) => q.limit_s != null);
  const down = picture.sites.filter((s) => picture.troubles?.[s.name]);
  const moves = picture.happenings.filter((each) => each.kind === "move").length;
  const fastest = streams.toSorted((a, b) => b.rate / (b.stated || 1) - a.rate / (a.stated || 1))[0];
  show("tiles",
    tile("All rates can still grow", times(factor), factor == null ? "ok" : factor < 1.1 ? "bad" : factor < 1.25 ? "warn" : "ok",
      site ? `then ${site} is full` : "no site fills up"),
    tile("Rows per second", figure(streams.reduce((sum, s) => sum + s.rate, 0)), "",
      fastest && fastest.stated ? `${fastest.name} at × ${figure(fastest.rate / fastest.stated, 2)} of its planned rate` : "not measured yet"),
    limited.length ? tile("Limits met", `${limited.length - late.length} of ${limited.length}`, late.length ? "bad" : "ok",
      late.length ? `${late[0].name} ${seconds(late[0].latency_s)}, limit ${seconds(late[0].limit_s)}` : "all in time") : null,
    tile("Sites", `${picture.sites.length - down.length} of ${picture.sites.length}`, down.length ? "bad" : "",
      picture.desk ? "as planned" : moves ? `${moves} ${moves === 1 ? "list" : "lists"} of moves in the journal` : "nothing was moved"),
    picture.desk ? null : tile("Delivered", figure(picture.queries.reduce((sum, q) => sum + (q.rows ?? 0), 0)), "", "rows in this run"),
  );
}

export function troubles(picture) {
  const found = Object.entries(picture.troubles ?? {});
  document.getElementById("troubles").hidden = !found.length;
  show("troubles", table(["what", "why, and what is done about it"], found));
}

export function queries(picture) {
  document.getElementById("queries").hidden = !picture.queries.length;
  show("queries", table(["query", "at", ["latency", "n"], ["limit", "n"], ["rows/s", "n"]], picture.queries.map((q) => [
    q.name, q.site, [seconds(q.latency_s), `n ${q.limit_s != null && q.latency_s != null ? tone(q.latency_s / q.limit_s) : ""}`],
    [q.limit_s == null ? "none" : seconds(q.limit_s), "n"], [figure(q.rows_per_s), "n"],
  ])));
}

// `apply` and `dismiss` are called with the fingerprint of exactly what is shown.
export function proposal(picture, apply, dismiss, abort) {
  const place = document.getElementById("proposal"), found = picture.proposal, busy = picture.under_way;
  place.classList.toggle("there", Boolean(found?.moves.length));
  if (busy) {
    show("proposal", element("p", {}, `Move ${busy.step} of ${busy.of}: ${busy.fragment ?? ""} ${busy.from ?? ""} → ${busy.to ?? ""}: ${busy.reached ?? "asked for"}.`),
      element("p", { class: "dim" }, busy.asked_by ?? ""),
      element("button", { id: "abort", class: "quiet", onclick: abort }, "Take it back"));
    return;
  }
  if (!found?.moves.length) {
    show("proposal", element("p", { class: "dim" }, ["Nothing is proposed", picture.adapting?.why].filter(Boolean).join(": ")));
    return;
  }
  const last = found.moves.at(-1), pause = Math.max(...found.moves.map((m) => m.pause_s ?? 0));
  const after = found.predicted?.site_loads_cores ?? {};
  const sites = picture.sites.filter((s) => s.name in after).map((s) => [
    s.name, [percent(s.share), `n ${tone(s.share)}`], "→",
    [percent(after[s.name] / s.capacity_cores), `n ${tone(after[s.name] / s.capacity_cores)}`],
  ]);
  show("proposal",
    ...found.moves.map((m) => element("p", {}, "Move ", element("b", {}, m.fragment), ` from ${m.from} to ${m.to}.`)),
    element("p", {}, `Headroom ${times(found.before.headroom)} → `, element("b", { class: "ok" }, times(last.after.headroom)),
      `; pause about ${seconds(pause)}, ${bytes(found.moves.reduce((sum, m) => sum + (m.state_bytes ?? 0), 0))} of state.`),
    sites.length ? table(["site", ["now", "n"], "", ["after", "n"]], sites) : null,
    element("p", { class: "dim" }, found.reason ?? ""),
    element("div", { class: "row" },
      element("button", { id: "apply", onclick: () => apply(found.id) }, "Apply"),
      element("button", { id: "dismiss", class: "quiet", onclick: () => dismiss(found.id) }, "Dismiss")));
}

const promised = (each) => each.promised
  ? `headroom ${times(each.promised.headroom)}` + loads(each.promised.site_loads_cores) : "";
const loads = (cores) => Object.entries(cores ?? {}).slice(0, 4).map(([site, x]) => `, ${site} ${figure(x, 2)} cores`).join("");

export function happenings(picture) {
  document.getElementById("happenings").hidden = Boolean(picture.desk);
  show("happenings", table(["when", "what", "asked by", "promised", "measured after"], picture.happenings.map((each) => [
    clock(each.at_s),
    each.what + (each.state ? `: ${each.state}` : "") + (each.pause_s != null ? `, pause ${seconds(each.pause_s)}` : ""),
    each.asked_by, promised(each),
    each.measured ? `busiest ${percent(each.measured.busiest)}${loads(each.measured.site_loads_cores)}; ${each.verdict}` : each.verdict ?? "",
  ])));
}

export function asked(requests) {
  document.getElementById("asked").hidden = !requests.length;
  show("asked", table(["when", "what", "by", "state"], requests.map((each) => [
    clock(each.at_s), `${each.kind} ${each.words}`, each.asked_by, each.why ? `${each.state}: ${each.why}` : each.state])));
}
