// Sites as lanes, fragments in them by how far from the sources they are, channels between them.

import { bytes, drawn, figure, percent, seconds, shortened, times, tone } from "./words.js";

const LANE_HEAD = 136, GAP = 10;

export function lanes(picture) {
  const many = picture.fragments.length > 60;
  const [width, height, step] = many ? [120, 20, 150] : picture.desk ? [150, 28, 220] : [172, 50, 268];
  const columns = 1 + Math.max(0, ...picture.fragments.map((each) => each.layer));
  const cells = new Map();
  for (const fragment of picture.fragments) {
    const key = `${fragment.site} ${fragment.layer}`;
    cells.set(key, [...(cells.get(key) ?? []), fragment]);
  }
  const places = new Map(), parts = [], whole = LANE_HEAD + (columns - 1) * step + width + GAP;
  let top = 0;
  for (const site of picture.sites) {
    const rows = Math.max(1, ...[...Array(columns).keys()].map((k) => (cells.get(`${site.name} ${k}`) ?? []).length));
    const laneHeight = Math.max(84, rows * (height + GAP) + GAP);
    parts.push(lane(site, picture, top, whole, laneHeight));
    for (let k = 0; k < columns; k++)
      (cells.get(`${site.name} ${k}`) ?? []).forEach((fragment, row) =>
        places.set(fragment.name, [LANE_HEAD + k * step, top + GAP + row * (height + GAP)]));
    top += laneHeight + GAP;
  }
  const at = new Map(picture.fragments.map((each) => [each.name, each.site]));
  const most = Math.max(1, ...picture.channels.map((each) => each.bytes_per_s ?? 0));
  const channels = picture.channels.filter((c) => places.has(c.from) && places.has(c.to)).map((channel) => {
    const [x, y] = places.get(channel.from), [u, v] = places.get(channel.to);
    const way = `M${x + width} ${y + height / 2} C${x + width + 40} ${y + height / 2} ${u - 40} ${v + height / 2} ${u} ${v + height / 2}`;
    const crosses = at.get(channel.from) !== at.get(channel.to);
    return drawn("path", {
      d: way, class: `channel${crosses ? " crosses" : ""}`,
      "stroke-width": 1 + 4 * Math.sqrt((channel.bytes_per_s ?? 0) / most),
    }, drawn("title", {}, `${channel.from} → ${channel.to}: ${told([channel]).join(", ")}`));
  });
  const labels = many || picture.desk ? [] : [...Map.groupBy(picture.channels, (each) => each.to)].map(([to, into]) => label(to, into, places.get(to), height));
  const moving = new Set([picture.under_way?.fragment, ...(picture.proposal?.moves ?? []).map((m) => m.fragment)]);
  const boxes = picture.fragments.map((each) => box(each, places.get(each.name), picture, moving, width, height, many));
  return drawn(
    "svg",
    { viewBox: `0 0 ${whole} ${top}`, width: whole, height: top,
      role: "group", "aria-label": "Sites as lanes with fragments and channels" },
    ...parts, ...channels, ...labels.filter(Boolean), ...boxes.filter(Boolean),
  );
}

// What channels carry together, the longest way among them, and how far their reader is behind on one.
function told(channels) {
  const rates = channels.map((each) => each.bytes_per_s).filter((x) => x != null);
  const ways = channels.map((each) => each.latency_ms).filter((x) => x != null), behind = Math.max(0, ...channels.map((each) => each.files_behind ?? 0));
  return [
    `${bytes(rates.length ? rates.reduce((sum, x) => sum + x, 0) : null)}/s`,
    ...(ways.length ? [`${figure(Math.max(...ways))} ms`] : []),
    ...(behind ? [`${behind} behind`] : []),
  ];
}

// Beside the reader, above and below where its channels arrive.
function label(to, channels, place, height) {
  if (!place) return null;
  const [x, y] = place, [first, ...more] = told(channels), late = channels.some((each) => each.files_behind > 0);
  const words = (dy, style, said) => drawn("text", { x: x - 8, y: y + height / 2 + dy, class: `t told ${style}`, "text-anchor": "end" }, said);
  return drawn("g", { "data-into": to }, words(-6, "", first), ...more.map((said, k) => words(16 + 12 * k, late ? "late" : "", said)));
}

function lane(site, picture, top, width, height) {
  const left = picture.left_sites?.[site.name] != null, trouble = picture.troubles?.[site.name];
  const what = trouble ? "in trouble" : left ? "kept empty" : `${percent(site.share)} of ${figure(site.capacity_cores)} core${site.capacity_cores === 1 ? "" : "s"}`;
  const share = Math.min(1, site.share ?? 0);
  return drawn("g", { tabindex: 0, role: "img", "aria-label": `site ${site.name}: ${trouble ?? what}` },
    drawn("rect", { x: 0, y: top, width, height, rx: 8, class: "lane" }),
    drawn("text", { x: 12, y: top + 24, "font-weight": 650 }, site.name),
    drawn("rect", { x: 12, y: top + 34, width: 100, height: 9, rx: 4, fill: "var(--line)" }),
    drawn("rect", { x: 12, y: top + 34, width: 100 * share, height: 9, rx: 4, fill: `var(--${tone(site.share)})` }),
    drawn("text", { x: 12, y: top + 58, class: "t" }, what),
    drawn("text", { x: 12, y: top + 72, class: "t" }, site.headroom == null ? "" : `headroom ${times(site.headroom)}`),
    drawn("title", {}, trouble ?? `${figure(site.load_cores)} cores in use${site.estimated ? " (estimated)" : ""}, ${figure(site.expected_cores)} expected`),
  );
}

function box(fragment, place, picture, moving, width, height, many) {
  if (!place) return null;
  const [x, y] = place, trouble = picture.troubles?.[fragment.name];
  const lag = fragment.files_waiting ? ` · ${fragment.files_waiting} files behind` : fragment.batch_s != null ? ` · ${seconds(fragment.batch_s)} a batch` : "";
  const what = fragment.runs || picture.desk ? `${figure(fragment.rows_in_per_s)} rows/s${lag}` : "does not run";
  const style = trouble || (!fragment.runs && !picture.desk) ? "down" : moving.has(fragment.name) ? "moving"
    : fragment.files_waiting > 20 ? "late" : picture.desk && fragment.pinned ? "pinned" : "";
  const name = shortened(fragment.name, Math.floor((width - 12) / (many ? 6 : 7)));
  return drawn("g", { tabindex: 0, role: "img", "data-fragment": fragment.name, "data-site": fragment.site,
    "aria-label": `${fragment.name} at ${fragment.site}: ${trouble ?? (picture.desk ? (fragment.pinned ? "pinned" : "free") : what)}` },
    drawn("rect", { x, y, width, height, rx: 7, class: `box ${style}` }),
    drawn("text", { x: x + 8, y: y + (many ? 14 : 20), class: many ? "small" : null }, name),
    many || picture.desk ? null : drawn("text", { x: x + 8, y: y + 38, class: "t" }, what),
    drawn("title", {}, `${fragment.name} at ${fragment.site}\n${trouble ?? what}\nstate ${bytes(fragment.state_bytes)}`),
  );
}
