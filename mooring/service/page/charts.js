// The slice of the feasible set with where the rates are, and the course of the run.

import { drawn, element, figure, percent, seconds } from "./words.js";

const [W, H, L, B] = [560, 260, 50, 34];

// `points`: the history; the trail is the way that the two rates took.
export function sliceChart(cut, points) {
  const trail = points.map((p) => [p.rates[cut.first], p.rates[cut.second]]).filter(([x, y]) => x != null && y != null);
  const all = [...cut.edges.flatMap((edge) => edge.points), ...trail, cut.rates];
  const most = [0, 1].map((k) => 1.08 * Math.max(1e-9, ...all.map((p) => p[k])));
  const x = (v) => L + ((W - L - 14) * v) / most[0], y = (v) => H - B - ((H - B - 28) * v) / most[1];
  const way = (ps) => ps.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join(" ");
  const rim = cut.edges.flatMap((edge) => edge.points);
  const parts = rim.length ? [drawn("path", { d: `${way(rim)} L${x(0)} ${y(0)} Z`, class: "room" })] : [];
  for (const edge of cut.edges) {
    parts.push(drawn("path", { d: way(edge.points), class: `edge${edge.site ? "" : " open"}` }));
    const [a, b] = edge.points[Math.floor(edge.points.length / 2)];
    const right = x(a) > 0.75 * W;
    if (edge.site) parts.push(drawn("text", { x: x(a) + (right ? -6 : 6), y: Math.max(y(b) - 6, 14), class: "t",
      "text-anchor": right ? "end" : "start" }, `${edge.site} full`));
  }
  return drawn("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "data-beyond": cut.beyond,
    "aria-label": `${cut.first} at ${figure(cut.rates[0])} and ${cut.second} at ${figure(cut.rates[1])} rows per second` },
    drawn("path", { d: `M${L} 22 L${L} ${H - B} L${W - 10} ${H - B}`, class: "axis" }),
    ...parts,
    drawn("path", { d: trail.length > 1 ? way(trail.slice(-120)) : "", class: "trail" }),
    drawn("circle", { class: "now", r: 6, cx: x(cut.rates[0]), cy: y(cut.rates[1]) }),
    drawn("text", { x: x(cut.rates[0]) + 10, y: y(cut.rates[1]) + 4 }, "now"),
    drawn("text", { x: W - 10, y: H - 8, class: "t", "text-anchor": "end" }, `${cut.first}, rows per second, to ${figure(most[0], 2)}`),
    drawn("text", { x: 4, y: 15, class: "t" }, `${cut.second}, to ${figure(most[1], 2)}`),
  );
}

const MOST_LINES = 8;

// One line per site, the fullest if there are many: its share of its capacity over time; and when something was moved.
export function courseChart(points, moves) {
  const now = points.at(-1).shares, all = Object.keys(now);
  const kept = new Set(all.toSorted((a, b) => (now[b] ?? 0) - (now[a] ?? 0)).slice(0, MOST_LINES));
  const names = all.filter((name) => kept.has(name));
  const first = points[0].since_start_s, last = points.at(-1).since_start_s, h = 130;
  const x = (t) => L + ((W - L - 14) * (t - first)) / Math.max(1e-9, last - first), y = (v) => h - 22 - (h - 36) * Math.min(v, 1.2) / 1.2;
  const lines = names.map((name, k) => {
    const seen = points.filter((p) => p.shares[name] != null);
    const way = seen.map((p, i) => `${i ? "L" : "M"}${x(p.since_start_s).toFixed(1)} ${y(p.shares[name]).toFixed(1)}`).join(" ");
    return drawn("path", { d: way, class: `line c${k}` }, drawn("title", {}, `${name}: ${percent(seen.at(-1)?.shares[name])}`));
  });
  const legend = element("div", { class: "row dim" }, ...names.map((name, k) => {
    return element("span", {}, element("b", { class: `c${k}` }, "● "), name);
  }), all.length > names.length ? element("span", {}, `and ${all.length - names.length} more, less full`) : null);
  const began_s = points[0].at_s, ended_s = points.at(-1).at_s;
  const marks = moves.filter((each) => each.at_s >= began_s && each.at_s <= ended_s).map((each) => {
    const at = x(first + (each.at_s - began_s)).toFixed(1);
    return drawn("g", { class: "moved" }, drawn("path", { d: `M${at} 10 L${at} ${h - 22}` }), drawn("path", { d: `M${at} 4 l4 6 h-8 Z` }),
      drawn("title", {}, `${each.what}, ${each.state}`));
  });
  return [drawn("svg", { viewBox: `0 0 ${W} ${h}`, role: "img", "aria-label": "Load of every site over time, with the moves" },
    drawn("path", { d: `M${L} ${y(1)} L${W - 10} ${y(1)}`, class: "axis" }),
    drawn("text", { x: 4, y: y(1) + 4, class: "t" }, "full"),
    drawn("text", { x: W - 10, y: h - 6, class: "t", "text-anchor": "end" }, `the last ${seconds(last - first)}`),
    ...marks, ...lines), legend];
}
