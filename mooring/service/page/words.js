// Figures and times in words, and small pieces of HTML that are safe by construction: text is never markup.

export const figure = (x, digits = 3) =>
  x == null ? "–" : Math.abs(x) >= 1000 || x === Math.round(x)
    ? Math.round(x).toLocaleString("en").replaceAll(",", "\u202f")
    : x.toLocaleString("en", { maximumSignificantDigits: digits, useGrouping: false });

export const percent = (x) => (x == null ? "–" : `${Math.round(100 * x)}%`);

export const bytes = (x) => {
  if (x == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  for (; x >= 1000 && k < units.length - 1; k++) x /= 1000;
  return `${figure(x, 2)} ${units[k]}`;
};

export const seconds = (x) => {
  if (x == null) return "–";
  if (x < 1) return `${Math.round(1000 * x)} ms`;
  if (x < 120) return `${figure(x, 2)} s`;
  if (x < 7200) return `${Math.round(x / 60)} min`;
  return `${Math.floor(x / 3600)} h ${Math.floor((x % 3600) / 60)} min`;
};

export const counted = (n, one, many = `${one}s`) => `${figure(n)} ${n === 1 ? one : many}`;

export const clock = (at_s) => new Date(1000 * at_s).toLocaleTimeString("en-GB");

// The time of day, with the day where that is not today; the whole of it when pointed at.
export function moment(at_s) {
  const at = new Date(1000 * at_s), today = at.toDateString() === new Date().toDateString();
  const day = today ? "" : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return element("time", { datetime: at.toISOString(), title: at.toString() }, day + clock(at_s));
}

// What a headroom means; none at all, and rates may be any.
export const room = (factor) => (factor != null && factor < 1 ? "Rates must fall to" : "All rates can still grow");

export const times = (x) => (x == null ? "no limit" : x > 10 ? "more than × 10" : `× ${x.toFixed(2)}`);

// Where there is little room.
export const timesShort = (x) => (x != null && x > 10 ? "> × 10" : times(x));

// Names that differ at their ends stay apart.
export const shortened = (name, letters) =>
  name.length <= letters ? name : `${name.slice(0, Math.ceil(letters / 2) - 1)}…${name.slice(-Math.floor(letters / 2))}`;

export const tone = (share) => (share == null ? "dim" : share > 0.9 ? "bad" : share > 0.75 ? "warn" : "ok");

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  made.append(...children.filter((child) => child != null));
  return made;
}

// Words with what stands between backticks as code.
export const worded = (text) => text.split("`").map((part, k) => (k % 2 ? element("code", {}, part) : part));

// A cell is its content, or its content and its class. On a narrow screen cells say what they are themselves.
export function table(head, rows) {
  const parts = (value) => (Array.isArray(value) ? value : [value, null]);
  const cell = (kind, value, label) => {
    const [content, style] = parts(value);
    return element(kind, { class: style, "data-label": label, scope: kind === "th" ? "col" : null }, content ?? "");
  };
  return element(
    "table", {},
    element("thead", {}, element("tr", {}, ...head.map((value) => cell("th", value)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((value, k) => cell("td", value, parts(head[k])[0] || null))))),
  );
}

// How full something is, as a bar.
export const bar = (share, width, more = {}) => drawn("g", more,
  drawn("rect", { width, height: 8, rx: 4, class: "bar" }),
  drawn("rect", { width: width * Math.min(1, Math.max(0, share ?? 0)), height: 8, rx: 4, class: `fill ${tone(share)}` }));

// Replaces what a section shows, unless it would be the same: what has the focus keeps it, and an open list stays open.
// So what a button does may depend on nothing that is not in its HTML.
export function show(id, ...children) {
  const home = document.getElementById(id), place = home.querySelector(":scope > .body") ?? home;
  const made = element("div", {}, ...children);
  if (place.innerHTML === made.innerHTML) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  place.replaceChildren(...made.childNodes);
  if (focused) document.getElementById(focused)?.focus();
}

// How wide what a section shows may be, in pixels.
export function roomIn(id) {
  const home = document.getElementById(id), place = home.querySelector(":scope > .body") ?? home;
  return place.clientWidth || 560;
}
