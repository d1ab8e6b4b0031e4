"use strict";
/* The panes: lines, their colours, and the links between them. */

const KEYWORDS = {
  source: "and as assert break class continue def elif else False for from if import in is lambda None not or pass return True while with yield",
  ir: "at arrivals into signal parity bytes to step iter_args if else of lbo sbo from types by after order",
  cuda: "alignas bool break const constexpr continue else extern float for if inline int return struct template typename unsigned using void while u32 u64 i1 i32 i64 f16 f32 bf16 true false",
};
const ROLES = [
  ["tensor", /^(wgmma_m\d\w*|tl\.dot|[HIQBD]G?MMA.*|(?:tile\.dot|aref\.dot_issue)|hopper\.wgmma)$/],
  ["copy", /^(\w*tma_load\w*|UTMALDG.*|LDG.*|(?:tile|aref)\.(?:desc_)?load\w*|hopper\.(?:tma_load\w*|global_load)|tl\.load|global_load\w*|UTMACCTL.*)$/],
  ["store", /^(\w*tma_store\w*|UTMASTG.*|STG.*|STSM.*|stmatrix\w*|tile\.(?:desc_)?store|hopper\.(?:tma_store|global_store|stmatrix)|tl\.store|global_store\w*|UTMACMDFLUSH)$/],
  ["wait", /^(mbarrier_\w+|wgmma_(?:fence|commit|wait)|WARPGROUP.*|hopper\.wgmma_\w+|named_barrier\w*|SYNCS.*|BAR\..*|DEPBAR.*|MEMBAR.*|__syncthreads|aref\.(?:get_enter|put_enter|put_exit|consumed|dot_wait)|hopper\.(?:mbarrier\w*|named_barrier\w*|cta_sync))$/],
];
const TOKENS = {
  source: /("""(?:[^"]|"(?!""))*(?:"""|$)|#.*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|@[\w.]+|tl\.\w+|\b\d[\w.]*|[A-Za-z_]\w*)/g,
  ir: /("(?:[^"\\]|\\.)*"|%[\w#]+|![\w.]+|\b[a-z_]+\.[a-z_0-9]+\b|\b\d[\w.+-]*|[A-Za-z_]\w*)/g,
  cuda: /(\/\/.*|#\w+.*|"(?:[^"\\]|\\.)*"|\b\d[\w.]*|[A-Za-z_]\w*)/g,
  sass: /(@!?U?P\w+|\.L_\w+|\b[A-Z][A-Z0-9]*(?:\.[A-Z0-9_]+)+\b|\b(?:UR|R|UP|P)\d+\b|\b0x[0-9a-f]+|[A-Z]\w*)/g,
};

function kindOf(pane) { return pane === "tile" || pane === "aref" || pane === "hopper" ? "ir" : pane; }

function tokenClass(kind, token, words) {
  for (const [name, pattern] of ROLES) if (pattern.test(token)) return "t-" + name;
  const first = token[0];
  if (first === '"' || first === "'") return "t-s";
  if (first === "#" || token.startsWith("//")) return "t-c";
  if (first === "@") return "t-k";
  if (first === "%" || first === ".") return "t-v";
  if (first >= "0" && first <= "9") return "t-n";
  if (kind === "sass") return /^U?[RP]\d+$/.test(token) ? "t-v" : "";
  if (words.has(token)) return "t-k";
  return first === "!" ? "t-n" : "";
}

function paint(cell, text, kind) {
  const words = paint.words[kind];
  let from = 0;
  for (const found of text.matchAll(TOKENS[kind])) {
    const name = tokenClass(kind, found[0], words);
    if (!name) continue;
    if (found.index > from) cell.append(text.slice(from, found.index));
    const span = document.createElement("span");
    span.className = name;
    span.textContent = found[0];
    cell.append(span);
    from = found.index + found[0].length;
  }
  cell.append(text.slice(from));
}
paint.words = Object.fromEntries(["source", "ir", "cuda", "sass"].map((k) => [k, new Set((KEYWORDS[k] || "").split(" "))]));

/* A pane shows one listing; `rows` are its lines in order, with what links them. */
class Pane {
  constructor(index, data, onChoose, onOver) {
    this.index = index;
    this.name = data.name;
    this.exact = ["hopper", "cuda", "sass"].includes(data.name);
    this.rows = data.lines.map((line, number) => ({
      pane: this, number, text: line[0] || "", label: line[1] || "",
      places: line[2] || [], op: line[3] === undefined ? null : line[3], folded: line[4] === 1, element: null,
    }));
    this.matches = [];
    this.build(data.title, onChoose, onOver);
  }

  build(title, onChoose, onOver) {
    this.element = document.createElement("section");
    this.element.className = "pane";
    this.element.dataset.name = this.name;
    this.element.setAttribute("aria-label", title);
    const head = document.createElement("header");
    head.innerHTML = "<b></b><span></span><button type=button title='Previous linked line (p)'>▲</button><button type=button title='Next linked line (n)'>▼</button>";
    head.firstChild.textContent = title;
    [this.up, this.down] = head.querySelectorAll("button");
    this.count = head.querySelector("span");
    this.up.onclick = () => this.step(-1);
    this.down.onclick = () => this.step(1);
    this.lines = document.createElement("div");
    this.lines.className = "lines folded";
    this.lines.tabIndex = 0;
    this.inner = document.createElement("div");
    this.lines.append(this.inner);
    this.marks = document.createElement("div");
    this.marks.className = "marks";
    this.element.append(head, this.lines, this.marks);
    this.fill();
    const rowOf = (event) => {
      const line = event.target.closest(".l");
      return line && line.dataset.n ? this.rows[+line.dataset.n] : null;
    };
    this.lines.addEventListener("click", (event) => {
      const row = rowOf(event);
      if (row && !String(getSelection())) onChoose(row, true);
    });
    this.lines.addEventListener("mouseover", (event) => onOver(rowOf(event)));
    this.lines.addEventListener("mouseleave", () => onOver(null));
    this.tell();
  }

  fill() {
    const kind = kindOf(this.name);
    const hidden = this.rows.filter((row) => row.folded && this.name === "cuda").length;
    if (hidden) {
      const fold = document.createElement("div");
      fold.className = "l";
      fold.innerHTML = `<i></i><span class="fold" tabindex="0" role="button">… ${hidden} lines of prelude</span>`;
      const open = () => this.lines.classList.toggle("folded");
      fold.onclick = open;
      fold.onkeydown = (event) => { if (event.key === "Enter") open(); };
      this.inner.append(fold);
    }
    for (const row of this.rows) {
      const line = document.createElement("div");
      line.className = "l";
      line.dataset.n = row.number;
      if (row.folded) line.classList.add(this.name === "cuda" ? "prelude" : "file");
      if (row.places.length || row.op !== null) line.classList.add("linked");
      const label = document.createElement("i");
      label.textContent = row.label;
      const cell = document.createElement("span");
      paint(cell, row.text, kind);
      line.append(label, cell);
      row.element = line;
      this.inner.append(line);
    }
  }

  /* Colour the lines that a choice is linked with. */
  mark(choice) {
    this.matches = [];
    for (const row of this.rows) {
      const strong = choice !== null && linked(choice, row);
      const mild = choice !== null && !strong && shares(choice.places, row.places);
      row.element.classList.toggle("strong", strong);
      row.element.classList.toggle("mild", mild);
      row.element.classList.toggle("at", choice !== null && choice.row === row);
      if (strong) this.matches.push(row);
    }
    this.tell();
  }

  tell() {
    this.count.textContent = this.matches.length ? `${this.matches.length} linked` : `${this.rows.length} lines`;
    this.up.disabled = this.down.disabled = this.matches.length < 2;
    const total = this.inner.scrollHeight || 1;
    this.marks.replaceChildren(...this.matches.slice(0, 200).map((row) => {
      const mark = document.createElement("u");
      mark.style.top = `${(row.element.offsetTop / total) * 100}%`;
      return mark;
    }));
  }

  /* The linked line that says most: a product, a copy or a store before what prepares it. */
  best() {
    for (const role of ["tensor", "copy", "store"]) {
      const found = this.matches.find((row) => row.element.querySelector(`.t-${role}`));
      if (found) return found;
    }
    return this.matches[0];
  }

  /* Scroll the best linked line into view, unless it is. */
  follow() {
    if (!this.matches.length || this.element.hidden) return;
    const row = this.best(), top = this.lines.scrollTop, bottom = top + this.lines.clientHeight;
    if (row.element.offsetTop < top + 17 || row.element.offsetTop + 34 > bottom) this.show(row);
    this.current = row;
  }

  show(row) {
    if (row.folded) this.lines.classList.remove("folded");
    this.lines.scrollTop = Math.max(0, row.element.offsetTop - this.lines.clientHeight * 0.35);
    this.lines.scrollLeft = 0;
    this.current = row;
  }

  step(by) {
    if (!this.matches.length) return;
    const at = this.matches.indexOf(this.current);
    const next = at < 0 ? (by > 0 ? 0 : this.matches.length - 1) : (at + by + this.matches.length) % this.matches.length;
    this.show(this.matches[next]);
  }
}

function shares(left, right) { return left.some((place) => right.includes(place)); }

/* Whether a row is what the choice made, or what made it: the op where both sides know it. */
function linked(choice, row) {
  if (choice.row === row) return true;
  if (choice.exact && row.pane.exact && choice.op !== null) return row.op === choice.op;
  return shares(choice.places, row.places);
}
