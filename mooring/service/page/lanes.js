// Sites as lanes, fragments in them by how far from the sources they are, channels between them.

import { bar, bytes, counted, drawn, figure, percent, seconds, shortened, timesShort } from "./words.js";

const GAP = 10;
const WAYS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
let entry = null; // the fragment that the Tab key leads to; arrow keys go on from there

// So many fragments that they are drawn small, over the whole width of the page.
export const crowded = (picture) => picture.fragments.length > 60;

// `room`: how wide it may be without scrolling. On a narrow screen a site's name and load stand above its fragments.
export function lanes(picture, room) {
  const many = crowded(picture), narrow = room < 560;
  const columns = 1 + Math.max(0, ...picture.fragments.map((each) => each.layer));
  const fits = Math.max(84, Math.min(144, Math.floor((room - 2 * GAP - (columns - 1) * 28) / columns)));
  const [width, height, least] = many ? [124, 22, 48] : picture.desk ? [120, 30, 32] : [narrow ? fits : 184, 66, 56];
  const headWide = narrow ? GAP : 140, headHigh = narrow ? 46 : 0;
  const free = (room - headWide - GAP - columns * width) / Math.max(1, columns - 1);
  const step = width + Math.max(narrow ? 28 : least, Math.min(1.3 * width, free));
  const whole = Math.max(room, headWide + (columns - 1) * step + width + GAP);
  const cells = Map.groupBy(picture.fragments, (each) => `${each.site} ${each.layer}`);
  const places = new Map(), parts = [], heads = [];
  let top = 0;
  for (const site of picture.sites) {
    const rows = Math.max(0, ...Array.from({ length: columns }, (_, k) => (cells.get(`${site.name} ${k}`) ?? []).length));
    const laneHeight = Math.max(narrow ? headHigh : 84, headHigh + rows * (height + GAP) + GAP);
    parts.push(drawn("rect", { x: 0, y: top, width: whole, height: laneHeight, rx: 8, class: "lane" }));
    heads.push(laneHead(site, picture, top, narrow));
    for (let k = 0; k < columns; k++)
      (cells.get(`${site.name} ${k}`) ?? []).forEach((fragment, row) =>
        places.set(fragment.name, [headWide + k * step, top + headHigh + GAP + row * (height + GAP)]));
    top += laneHeight + GAP;
  }
  const into = Map.groupBy(picture.channels, (each) => each.to);
  const moving = new Set([picture.under_way?.fragment, ...(picture.proposal?.moves ?? []).map((m) => m.fragment)]);
  if (!places.has(entry)) entry = picture.fragments[0]?.name;
  const boxes = picture.fragments.filter((each) => places.has(each.name)).map((each) =>
    box(each, into.get(each.name) ?? [], places.get(each.name), picture, moving, width, height, many ? "many" : narrow ? (width < 125 ? "tight" : "narrow") : ""));
  const made = drawn("svg", { viewBox: `0 0 ${whole} ${Math.max(1, top - GAP)}`, width: whole, height: Math.max(1, top - GAP),
    role: "group", class: many ? "many" : null, "aria-label": "Sites as lanes with fragments and channels; arrow keys lead from fragment to fragment" },
    ...parts, ...drawnChannels(picture, places, width, height), ...heads, ...boxes);
  made.addEventListener("keydown", goOn);
  for (const kind of ["pointerover", "focusin"]) made.addEventListener(kind, (event) => light(made, event.target.closest("[data-fragment]")));
  for (const kind of ["pointerleave", "focusout"]) made.addEventListener(kind, () => light(made, null));
  return made;
}

function drawnChannels(picture, places, width, height) {
  const at = new Map(picture.fragments.map((each) => [each.name, each.site]));
  const most = Math.max(1, ...picture.channels.map((each) => each.bytes_per_s ?? 0));
  return picture.channels.filter((c) => places.has(c.from) && places.has(c.to)).map((channel) => {
    const [x, y] = places.get(channel.from), [u, v] = places.get(channel.to), bend = (u - x - width) / 2;
    const from = `${x + width} ${y + height / 2}`, to = `${u} ${v + height / 2}`;
    return drawn("path", {
      d: `M${from} C${x + width + bend} ${y + height / 2} ${u - bend} ${v + height / 2} ${to}`,
      class: `channel${at.get(channel.from) === at.get(channel.to) ? "" : " crosses"}`,
      "stroke-width": (1.2 + (crowded(picture) ? 1 : 3) * Math.sqrt((channel.bytes_per_s ?? 0) / most)).toFixed(1), "data-from": channel.from, "data-to": channel.to,
    }, drawn("title", {}, `${channel.from} → ${channel.to}: ${told([channel]).join(" · ") || "not measured"}`));
  });
}

// What channels carry together, the longest way among them, and how far their reader is behind on one.
function told(channels, short = false) {
  const rates = channels.map((each) => each.bytes_per_s).filter((x) => x != null);
  const ways = channels.map((each) => each.latency_ms).filter((x) => x != null), behind = Math.max(0, ...channels.map((each) => each.files_behind ?? 0));
  return [
    ...(rates.length ? [`${bytes(rates.reduce((sum, x) => sum + x, 0))}/s`] : []),
    ...(ways.length && !short ? [`${figure(Math.max(...ways))} ms`] : []),
    ...(behind ? [`${behind} behind`] : []),
  ];
}

function laneHead(site, picture, top, narrow) {
  const left = picture.left_sites?.[site.name] != null, trouble = picture.troubles?.[`site ${site.name}`];
  const starved = picture.troubles?.[`starved site: ${site.name}`] && site.left_cores != null;
  const what = trouble ? "in trouble" : left ? "kept empty" : starved ? `gets ${figure(site.left_cores, 2)} of ${figure(site.capacity_cores)} cores` : `${percent(site.share)} of ${counted(site.capacity_cores, "core")}`;
  const grows = site.headroom == null ? "" : `headroom ${timesShort(site.headroom)}`;
  const words = narrow ? [drawn("text", { x: 122, y: top + 39, class: "t on-lane" }, [what, grows].filter(Boolean).join(" · "))]
    : [drawn("text", { x: 12, y: top + 58, class: "t" }, what), drawn("text", { x: 12, y: top + 73, class: "t" }, grows)];
  return drawn("g", { role: "img", "aria-label": `site ${site.name}: ${[trouble ?? what, grows].filter(Boolean).join(", ")}` },
    drawn("text", { x: 12, y: top + (narrow ? 20 : 24), "font-weight": 650 }, shortened(site.name, narrow ? 40 : 15)),
    bar(starved ? site.load_cores / Math.max(site.left_cores, 1e-9) : site.share, 100, { transform: `translate(12 ${top + (narrow ? 31 : 34)})` }), ...words,
    drawn("title", {}, `${site.name}: ${trouble ?? `${figure(site.load_cores)} cores in use${site.estimated ? " (estimated)" : ""}, ${figure(site.expected_cores)} expected`}`),
  );
}

function box(fragment, channels, place, picture, moving, width, height, room) {
  const many = room === "many";
  const [x, y] = place, trouble = picture.troubles?.[fragment.name], up = fragment.runs || picture.desk;
  const tight = room === "tight", rate = [`${figure(fragment.rows_in_per_s)}${tight ? "" : " rows"}/s`, ...(fragment.batch_s == null || room ? [] : [`${seconds(fragment.batch_s)} a batch`])].join(" · ");
  const arrives = channels.length ? told(channels).join(" · ") : fragment.files_waiting ? `${counted(fragment.files_waiting, "file")} waiting` : "";
  const late = fragment.files_waiting > 20 || channels.some((each) => each.files_behind > 20);
  const what = picture.desk ? (fragment.pinned ? "pinned" : "free") : up ? rate : "does not run";
  const style = trouble || !up ? "down" : moving.has(fragment.name) ? "moving" : late ? "late" : picture.desk && fragment.pinned ? "pinned" : "";
  const line = (dy, words, more) => drawn("text", { x: x + 9, y: y + dy, ...more }, words);
  return drawn("g", { id: `fragment ${fragment.name}`, tabindex: fragment.name === entry ? 0 : -1, role: "img",
    "data-fragment": fragment.name, "data-site": fragment.site,
    "aria-label": `${fragment.name} at ${fragment.site}: ${[trouble ?? what, arrives && `in ${arrives}`].filter(Boolean).join(", ")}` },
    drawn("rect", { x, y, width, height, rx: 7, class: `box ${style}` }),
    line(many ? 15 : 20, shortened(fragment.name, Math.floor((width - 18) / (many ? 5.8 : 6.9))), { class: many ? "small" : null }),
    many || picture.desk ? null : line(38, what, { class: "t" }),
    many || picture.desk || !arrives ? null : line(55, channels.length ? (tight ? told(channels, true).at(-1) : `in ${told(channels, room === "narrow").join(" · ")}`) : arrives, { class: `t${late ? " late" : ""}`, "data-into": fragment.name }),
    drawn("title", {}, [`${fragment.name} at ${fragment.site}`, trouble ?? what, arrives && `in: ${arrives}`,
      picture.desk ? null : `state ${bytes(fragment.state_bytes)}`].filter(Boolean).join("\n")),
  );
}

// The channels of one fragment stand out from all the others.
function light(svg, fragment) {
  const name = fragment?.dataset.fragment;
  svg.classList.toggle("chosen", Boolean(name));
  for (const each of svg.querySelectorAll(".channel"))
    each.classList.toggle("lit", Boolean(name) && (each.dataset.from === name || each.dataset.to === name));
}

// With an arrow key to the nearest fragment in that direction.
function goOn(event) {
  const way = WAYS[event.key], here = event.target.closest("[data-fragment]");
  if (!way || !here) return;
  event.preventDefault();
  const middle = (each) => { const { x, y, width, height } = each.getBoundingClientRect(); return [x + width / 2, y + height / 2]; };
  const [x, y] = middle(here);
  const far = (each) => {
    const [u, v] = middle(each), along = (u - x) * way[0] + (v - y) * way[1], across = Math.abs((u - x) * way[1]) + Math.abs((v - y) * way[0]);
    return along > 1 ? along + 2 * across : Infinity;
  };
  const all = [...here.parentNode.querySelectorAll("[data-fragment]")].map((each) => [far(each), each]);
  const [distance, next] = all.reduce((best, each) => (each[0] < best[0] ? each : best));
  if (distance === Infinity) return;
  entry = next.dataset.fragment;
  here.setAttribute("tabindex", -1);
  next.setAttribute("tabindex", 0);
  next.focus();
}
