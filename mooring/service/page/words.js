// Figures and times in words, and small pieces of HTML that are safe by construction: text is never markup.

export const figure = (x, digits = 3) =>
  x == null ? "–" : Math.abs(x) >= 1000 || x === Math.round(x)
    ? Math.round(x).toLocaleString("en").replaceAll(",", " ")
    : String(Number(x.toPrecision(digits)));

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
  return `${Math.floor(x / 3600)} h ${Math.round((x % 3600) / 60)} min`;
};

export const clock = (at_s) => new Date(1000 * at_s).toLocaleTimeString("en-GB");

export const times = (x) => (x == null ? "any" : `× ${x.toFixed(2)}`);

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

export function table(head, rows) {
  const cell = (kind) => (value) => {
    const [content, style] = Array.isArray(value) ? value : [value, ""];
    return element(kind, style ? { class: style } : {}, content);
  };
  return element(
    "table", {},
    element("thead", {}, element("tr", {}, ...head.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))),
  );
}

// Replaces what a section shows, unless it would be the same: what has the focus keeps it.
export function show(id, ...children) {
  const home = document.getElementById(id), place = home.querySelector(":scope > .body") ?? home;
  const made = element("div", {}, ...children);
  if (place.innerHTML === made.innerHTML && !made.querySelector("button, select, input")) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  place.replaceChildren(...made.childNodes);
  if (focused) document.getElementById(focused)?.focus();
}
