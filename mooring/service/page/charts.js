// The slice of the feasible set with where the rates are, and the course of the run.

import { clock, drawn, element, figure, percent, shortened } from "./words.js";

const L = 52, R = 14, B = 40, TOP = 26;

// Round figures along an axis that goes up to `most`.
export function ticks(most, about) {
  const rough = most / about, ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * [1, 2, 5, 10].find((k) => k * ten >= rough);
  return Array.from({ length: Math.floor(most / step + 1e-9) }, (_, k) => (k + 1) * step);
}

const brief = (v) => (v >= 1e6 ? `${figure(v / 1e6)}M` : v >= 1e4 ? `${figure(v / 1e3)}k` : figure(v));

// `points`: the history; the trail is the way that the two rates took. `before`: the chart that is replaced, from whose
// point the new one sets out.
export function sliceChart(cut, points, W, before) {
  const H = Math.round(Math.min(340, Math.max(240, 0.55 * W)));
  const trail = points.slice(-120).map((p) => [p.rates[cut.first], p.rates[cut.second]]).filter(([x, y]) => x != null && y != null);
  const rim = cut.edges.flatMap((edge) => edge.points);
  const most = [0, 1].map((k) => 1.08 * Math.max(1e-9, ...[...rim, ...trail, cut.rates].map((p) => p[k])));
  const x = (v) => L + ((W - L - R) * v) / most[0], y = (v) => H - B - ((H - B - TOP) * v) / most[1];
  const way = (ps) => ps.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join(" ");
  const [cx, cy] = [x(cut.rates[0]), y(cut.rates[1])], flip = cx > W - 60;
  const at = `translate(${cx.toFixed(1)}px, ${cy.toFixed(1)}px)`;
  const parts = rim.length ? [drawn("path", { d: `${way(rim)} L${x(0)} ${y(0)} Z`, class: "room" })] : [];
  const grid = [
    ...ticks(most[0], W / 90).flatMap((v) => [drawn("path", { d: `M${x(v)} ${TOP} V${H - B}`, class: "grid" }),
      drawn("text", { x: x(v), y: H - B + 15, class: "t", "text-anchor": "middle" }, brief(v))]),
    ...ticks(most[1], 4).flatMap((v) => [drawn("path", { d: `M${L} ${y(v)} H${W - R}`, class: "grid" }),
      drawn("text", { x: L - 6, y: y(v) + 4, class: "t", "text-anchor": "end" }, brief(v))]),
  ];
  const taken = [[cx - 10, cy - 12, cx + 50, cy + 12]], labels = [];
  const best = cut.ideal ? clipped(cut.ideal, most) : [];
  if (best.length) {
    parts.push(drawn("path", { d: way(best), class: "ideal" }, drawn("title", {}, "the limit of the total capacity")));
    labels.push(edgeLabel(best.map(([a, b]) => [x(a), y(b)]), "ideal", taken, -1));
  }
  for (const edge of cut.edges) {
    const name = edge.site ? `${shortened(edge.site, 20)} full` : "";
    parts.push(drawn("path", { d: way(edge.points), class: `edge${edge.site ? "" : " open"}` }, drawn("title", {}, name || "no site is full so far")));
    if (name) labels.push(edgeLabel(edge.points.map(([a, b]) => [x(a), y(b)]), name, taken));
  }
  const point = drawn("g", { class: "now", "data-x": cx.toFixed(1) }, drawn("circle", { r: 6 }),
    drawn("text", { x: flip ? -11 : 11, y: 4, class: "halo", "text-anchor": flip ? "end" : "start" }, "now"));
  const was = before?.dataset.axes === `${cut.first} ${cut.second}` ? before.querySelector(".now") : null;
  point.style.transform = was?.style.transform ?? at;
  if (was) requestAnimationFrame(() => requestAnimationFrame(() => { point.style.transform = at; }));
  return drawn("svg", { viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img", "data-beyond": cut.beyond, "data-axes": `${cut.first} ${cut.second}`,
    "aria-label": `${cut.first} at ${figure(cut.rates[0])} and ${cut.second} at ${figure(cut.rates[1])} rows per second; ${cut.beyond ? `beyond what ${cut.beyond} can do` : "within the capacity of all sites"}` },
    ...parts.slice(0, 1), ...grid, ...parts.slice(1),
    drawn("path", { d: `M${L} ${TOP} V${H - B} H${W - R}`, class: "axis" }),
    drawn("path", { d: trail.length > 1 ? way(trail) : "", class: "trail" }), ...labels.filter(Boolean), point,
    drawn("text", { x: W - R, y: H - 6, class: "t", "text-anchor": "end" }, `${shortened(cut.first, 40)}, rows per second`),
    drawn("text", { x: 2, y: 13, class: "t" }, `${shortened(cut.second, 40)}, rows per second`),
  );
}

// The part of a straight line between the axes that lies on the chart.
function clipped([[, b], [a]], most) {
  const from = b > most[1] ? [a * (1 - most[1] / b), most[1]] : [0, b], to = a > most[0] ? [most[0], b * (1 - most[0] / a)] : [a, 0];
  return from[0] < to[0] ? [from, to] : [];
}

// Inside the edge (`side` 1) or beyond it (-1), beside its middle, where nothing stands yet; none where the edge is too
// short to be meant.
function edgeLabel(points, name, taken, side = 1) {
  const [from, to] = [points[0], points.at(-1)], length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  if (length < 24) return null;
  const [mx, my] = points.length > 2 ? points[Math.floor(points.length / 2)] : [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2];
  const [nx, ny] = [-(to[1] - from[1]) / length, (to[0] - from[0]) / length].map((n) => side * n), wide = 6.2 * name.length;
  for (const away of [14, 28, 42, 56]) {
    const right = nx < -0.3 ? mx + nx * (away - 6) : nx > 0.3 ? mx + nx * (away - 6) + wide : mx + wide / 2, base = my + ny * away + 4;
    const place = [right - wide, base - 11, right, base + 3];
    if (place[0] < L + 2 || taken.some(([a, b, c, d]) => place[0] < c && place[2] > a && place[1] < d && place[3] > b)) continue;
    taken.push(place);
    return drawn("text", { x: right, y: base, class: "t halo", "text-anchor": "end" }, name);
  }
  return null;
}

const MOST_LINES = 8;

// Lines over time, one per name, the largest if there are many. `pick` takes the values of a point by name; `said` puts
// one into words.
export function linesChart(points, pick, said, label, W) {
  const now = pick(points.at(-1)), all = [...new Set(points.flatMap((p) => Object.keys(pick(p))))];
  const highest = new Map(all.map((name) => [name, Math.max(...points.map((p) => pick(p)[name] ?? 0))]));
  const names = all.toSorted((a, b) => highest.get(b) - highest.get(a)).slice(0, MOST_LINES);
  const H = 170, began_s = points[0].at_s, ended_s = points.at(-1).at_s, most = 1.05 * Math.max(...names.map((name) => highest.get(name))) || 1;
  const x = (at_s) => L + ((W - L - R) * (at_s - began_s)) / Math.max(1e-9, ended_s - began_s), y = (v) => H - 22 - ((H - 34) * v) / most;
  const lines = names.map((name, k) => {
    const way = points.map((p) => [p.at_s, pick(p)[name]]).map(([at_s, v], i, ps) => v == null ? "" : `${i && ps[i - 1][1] != null ? "L" : "M"}${x(at_s).toFixed(1)} ${y(v).toFixed(1)}`).join(" ");
    return drawn("path", { d: way, class: `line c${k}` }, drawn("title", {}, `${name}: ${said(now[name])}`));
  });
  const axis = ticks(most, 3).flatMap((v) => [drawn("path", { d: `M${L} ${y(v)} H${W - R}`, class: "grid" }),
    drawn("text", { x: L - 6, y: y(v) + 4, class: "t", "text-anchor": "end" }, said(v))]);
  return [drawn("svg", { viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img", "aria-label": label },
    drawn("path", { d: `M${L} 12 V${H - 22} H${W - R}`, class: "axis" }), ...axis, ...lines,
    drawn("text", { x: L, y: H - 6, class: "t" }, clock(began_s)), drawn("text", { x: W - R, y: H - 6, class: "t", "text-anchor": "end" }, clock(ended_s))),
  element("div", { class: "row dim" }, ...names.map((name, k) => element("span", {}, element("b", { class: `c${k}` }, "● "), `${name} ${said(now[name])}`)),
    all.length > names.length ? element("span", {}, `and ${all.length - names.length} more below these`) : null)];
}

// One line per site, the fullest if there are many: its share of its capacity over time; when something was moved, and
// which share that promised, dotted beside what came.
export function courseChart(points, moves, sites, W) {
  const now = points.at(-1).shares, all = Object.keys(now), H = Math.round(Math.min(300, Math.max(200, 0.5 * W)));
  const kept = new Set(all.toSorted((a, b) => (now[b] ?? 0) - (now[a] ?? 0)).slice(0, MOST_LINES));
  const names = all.filter((name) => kept.has(name)), cores = new Map(sites.map((site) => [site.name, site.capacity_cores]));
  const began_s = points[0].at_s, ended_s = points.at(-1).at_s;
  const most = Math.min(1.5, Math.max(1.05, ...points.flatMap((p) => Object.values(p.shares).map((v) => v ?? 0))));
  const x = (at_s) => L + ((W - L - R) * (at_s - began_s)) / Math.max(1e-9, ended_s - began_s), y = (v) => H - 22 - (H - 44) * Math.min(v, most) / most;
  const lines = names.map((name, k) => {
    const seen = points.filter((p) => p.shares[name] != null);
    const way = seen.map((p, i) => `${i ? "L" : "M"}${x(p.at_s).toFixed(1)} ${y(p.shares[name]).toFixed(1)}`).join(" ");
    return drawn("path", { d: way, class: `line c${k}` }, drawn("title", {}, `${name}: ${percent(seen.at(-1)?.shares[name])}`));
  });
  const shown = moves.filter((each) => each.at_s >= began_s && each.at_s <= ended_s);
  const promises = shown.flatMap((each, i) => names.map((name, k) => {
    const load = each.promised?.site_loads_cores?.[name], from = x(each.at_s), until = Math.min(x(shown[i - 1]?.at_s ?? ended_s), from + 90);
    if (load == null || !cores.get(name) || until - from < 4) return null;
    return drawn("path", { d: `M${from.toFixed(1)} ${y(load / cores.get(name)).toFixed(1)} H${until.toFixed(1)}`, class: `promise c${k}` },
      drawn("title", {}, `${name}: ${percent(load / cores.get(name))} promised`));
  }).filter(Boolean));
  const marks = shown.map((each) => drawn("g", { class: "moved" },
    drawn("path", { d: `M${x(each.at_s).toFixed(1)} 18 V${H - 22}` }), drawn("circle", { cx: x(each.at_s), cy: 10, r: 8 }),
    drawn("text", { x: x(each.at_s), y: 13.5 }, each.number), drawn("title", {}, `${each.what}, ${each.state}`)));
  const axis = [0, 0.5, 1].flatMap((v) => [drawn("path", { d: `M${L} ${y(v)} H${W - R}`, class: v === 1 ? "axis" : "grid" }),
    drawn("text", { x: L - 6, y: y(v) + 4, class: "t", "text-anchor": "end" }, v === 1 ? "full" : percent(v))]);
  const legend = element("div", { class: "row dim" }, ...names.map((name, k) =>
    element("span", {}, element("b", { class: `c${k}` }, "● "), `${name} ${percent(now[name])}`)),
    all.length > names.length ? element("span", {}, `and ${all.length - names.length} more with less load`) : null,
    promises.length ? element("span", {}, "┈ as promised") : null);
  return [drawn("svg", { viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img", "aria-label": "Load of every site over time, with the moves and their predicted loads" },
    ...axis, drawn("text", { x: L, y: H - 6, class: "t" }, clock(began_s)), drawn("text", { x: W - R, y: H - 6, class: "t", "text-anchor": "end" }, clock(ended_s)),
    ...marks, ...lines, ...promises), legend];
}
