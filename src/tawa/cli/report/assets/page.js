"use strict";
/* Joins the panes and the timeline: one choice, shown by all. */

const data = JSON.parse(document.getElementById("data").textContent);
const panes = data.panes.map((pane, index) => new Pane(index, pane, chooseRow, over));
const box = document.getElementById("panes");
box.append(...panes.map((pane) => pane.element));
let view = null;
let choice = null;

function placeNames(places) {
  return places.slice(0, 3).map((place) => data.places[place].join(":")).join(", ");
}

function choose(next, scroll) {
  choice = next;
  for (const pane of panes) {
    pane.mark(choice);
    if (choice && scroll) pane.follow();
  }
  if (view) view.mark(choice);
  const counts = panes.filter((pane) => pane.matches.length).map((pane) => `${pane.name} ${pane.matches.length}`);
  const where = choice && choice.places.length ? `${placeNames(choice.places)} → ` : "";
  document.getElementById("chosen").textContent = choice ? where + counts.join(", ") : "choose a line to see what comes from it";
}

function chooseRow(row, scroll) {
  if (!row.places.length && row.op === null) { choose(null); return; }
  choose({ row, places: row.places, op: row.op, exact: row.pane.exact }, scroll);
  row.pane.current = row;
}

function chooseBar(bar) {
  const hopper = panes.find((pane) => pane.name === "hopper");
  const row = hopper.rows.find((line) => line.op !== null && line.op === bar.op) || null;
  choose({ row, places: bar.places, op: row ? bar.op : null, exact: row !== null }, true);
  if (row) hopper.follow();
  document.getElementById("bar-text").textContent = view.sentence(bar);
}

function over(row) {
  for (const line of document.querySelectorAll(".l.over")) line.classList.remove("over");
  if (!row || (!row.places.length && row.op === null)) return;
  const hover = { row, places: row.places, op: row.op, exact: row.pane.exact };
  for (const pane of panes) {
    if (pane.element.hidden) continue;
    for (const other of pane.rows) if (linked(hover, other)) other.element.classList.add("over");
  }
}

function chooser(pane, index) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = pane.name === "cuda" ? "CUDA C++" : pane.name === "sass" ? "SASS" : pane.name;
  button.title = `Show or hide (${index + 1})`;
  const set = (shown) => {
    pane.element.hidden = !shown;
    pane.element.style.display = shown ? "" : "none";
    button.setAttribute("aria-pressed", String(shown));
    pane.tell();
    if (shown) pane.follow();
  };
  button.onclick = () => set(pane.element.hidden);
  set(shownFirst().includes(pane.name));
  return button;
}

function shownFirst() {
  if (innerWidth >= 1900) return ["source", "aref", "hopper", "cuda", "sass"];
  if (innerWidth >= 1240) return ["source", "aref", "cuda", "sass"];
  if (innerWidth >= 600) return ["source", "cuda", "sass"];
  return ["source", "sass"];
}

const choosers = panes.map(chooser);
document.getElementById("choose").append(...choosers);

if (data.timelines.length) {
  document.getElementById("timeline").hidden = false;
  view = new TimelineView(document.getElementById("lanes"), document.getElementById("tip"), data, chooseBar);
  document.getElementById("zoom-in").onclick = () => view.zoom(0.5);
  document.getElementById("zoom-out").onclick = () => view.zoom(2);
  document.getElementById("zoom-fit").onclick = () => view.fit();
}

/* Colours: the system's, or the reader's choice. */
const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";
function applyTheme() {
  const shown = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  document.documentElement.dataset.theme = shown;
  document.getElementById("theme").textContent = `Theme: ${theme}`;
  if (view) view.draw();
}
function nextTheme() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  applyTheme();
}
dark.addEventListener("change", applyTheme);
document.getElementById("theme").onclick = nextTheme;
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; if (view) view.draw(); });
addEventListener("afterprint", applyTheme);
applyTheme();

function toggleHelp() {
  const help = document.getElementById("help");
  help.hidden = !help.hidden;
  document.getElementById("keys").setAttribute("aria-expanded", String(!help.hidden));
}
document.getElementById("keys").onclick = toggleHelp;

/* The list of keys first, since it lies over the rest; then what a bar or a line said. */
function escape() {
  if (!document.getElementById("help").hidden) { toggleHelp(); return; }
  document.getElementById("tip").hidden = true;
  document.getElementById("bar-text").textContent = "";
  choose(null);
}

function focusedPane() {
  return panes.find((pane) => pane.element.contains(document.activeElement)) || panes[0];
}

/* The next line that is linked with something, from the chosen one. */
function moveLine(pane, by) {
  const from = choice && choice.row && choice.row.pane === pane ? choice.row.number : by > 0 ? -1 : pane.rows.length;
  for (let at = from + by; at >= 0 && at < pane.rows.length; at += by) {
    const row = pane.rows[at];
    if ((row.places.length || row.op !== null) && row.element.offsetParent) {
      chooseRow(row, true);
      row.element.scrollIntoView({ block: "nearest" });
      return;
    }
  }
}

/* Places in remarks lead to their lines. */
document.getElementById("cards").addEventListener("click", (event) => {
  const link = event.target.closest("a[data-line]");
  const row = link && panes[0].rows.find((line) => line.places.some((place) => data.places[place].join(":") === link.dataset.line));
  if (row) { chooseRow(row, true); panes[0].show(row); }
});

const KEYS = {
  n: () => focusedPane().step(1),
  p: () => focusedPane().step(-1),
  Escape: escape,
  s: () => savePicture(),
  t: nextTheme,
  "?": toggleHelp,
  "+": () => view && view.zoom(0.5),
  "=": () => view && view.zoom(0.5),
  "-": () => view && view.zoom(2),
  "0": () => view && view.fit(),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inLines = document.activeElement && document.activeElement.classList.contains("lines");
  if (inLines && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    moveLine(focusedPane(), event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key in KEYS) KEYS[event.key]();
  else if (/^[1-6]$/.test(event.key) && choosers[+event.key - 1]) choosers[+event.key - 1].click();
  else return;
  event.preventDefault();
});

/* report.html#L45 opens with line 45 of the kernel's file chosen. */
function openAt() {
  const line = (location.hash.match(/^#L(\d+)$/) || [])[1];
  const row = panes[0].rows.find((found) => found.label === line && found.places.length);
  if (row) chooseRow(row, true);
  else choose(null);
}
addEventListener("hashchange", openAt);
openAt();
