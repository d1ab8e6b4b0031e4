"use strict";
/* The timeline: lanes of bars on a canvas, which can be zoomed, moved and asked. */

const LEFT = 118, TOP = 20, ROW = 17, GAP = 5, TITLE = 17;

class TimelineView {
  constructor(canvas, tip, data, onChoose) {
    this.canvas = canvas;
    this.tip = tip;
    this.data = data;
    this.onChoose = onChoose;
    this.clock = data.timelines[0].clock;
    this.end = Math.max(1, ...data.timelines.map((t) => t.cycles));
    this.view = [0, this.end];
    this.choice = null;
    this.over = this.at = null;
    this.layOut();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  layOut() {
    this.bars = [];
    this.lanes = [];
    let y = TOP;
    for (const timeline of this.data.timelines) {
      const titled = this.data.timelines.length > 1 || timeline.note;
      const note = timeline.note ? ` ${timeline.note}` : "";
      if (titled) { this.lanes.push({ title: timeline.title + note, y }); y += TITLE; }
      for (const lane of timeline.lanes) {
        const placed = { name: lane.name, y, rows: lane.rows, title: null, bars: [] };
        for (const bar of lane.bars) {
          const [start, end, kind, row, name, iteration, slot, opName, op, places] = bar;
          const text = (n) => this.data.strings[n];
          placed.bars.push({ start, end, kind: this.data.kinds[kind], y: y + row * ROW, lane: lane.name, title: timeline.title, clock: timeline.clock,
            name: text(name), iteration: text(iteration), slot: text(slot), opName: text(opName), op, places });
        }
        this.bars.push(...placed.bars);
        this.lanes.push(placed);
        y += lane.rows * ROW + GAP;
      }
    }
    this.height = y + 2;
    this.canvas.style.height = `${this.height}px`;
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      const [x] = this.point(event);
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.004), this.time(x));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.move((event.deltaX / this.width()) * this.span());
      }
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      const [x] = this.point(event);
      this.drag = { x, from: [...this.view], moved: false, range: event.shiftKey };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.pointer(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => { this.over = null; this.tip.hidden = true; this.draw(); });
    canvas.addEventListener("dblclick", (event) => {
      const bar = this.hit(...this.point(event));
      if (bar) this.frame(bar.start - (bar.end - bar.start), bar.end + (bar.end - bar.start));
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  pointer(event) {
    const [x, y] = this.point(event);
    if (this.drag) {
      const by = x - this.drag.x;
      this.drag.moved ||= Math.abs(by) > 3;
      if (this.drag.range) { this.drag.to = x; this.draw(); return; }
      if (this.drag.moved) {
        const [from, to] = this.drag.from;
        const shift = (-by / this.width()) * (to - from);
        this.frame(from + shift, to + shift);
      }
      return;
    }
    const bar = this.hit(x, y);
    if (bar !== this.over) { this.over = bar; this.draw(); }
    this.canvas.classList.toggle("on-bar", bar !== null);
    this.showTip(bar, x, y);
  }

  release(event) {
    const drag = this.drag, [x, y] = this.point(event);
    this.drag = null;
    if (!drag) return;
    if (drag.range && drag.moved) {
      const ends = [this.time(drag.x), this.time(x)].sort((a, b) => a - b);
      this.frame(...ends);
    } else if (!drag.moved) {
      const bar = this.hit(x, y);
      this.at = bar;
      if (bar) this.onChoose(bar);
      this.draw();
    }
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }, lanes = { ArrowUp: -1, ArrowDown: 1 };
    if (event.key in steps) this.go(steps[event.key]);
    else if (event.key in lanes) this.goLane(lanes[event.key]);
    else if (event.key === "Enter" && this.at) this.onChoose(this.at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  laneOf(bar) { return this.lanes.find((lane) => lane.bars && lane.bars.includes(bar)); }

  go(by) {
    const lane = this.at ? this.laneOf(this.at) : this.lanes.find((l) => l.bars && l.bars.length);
    if (!lane) return;
    const index = this.at ? lane.bars.indexOf(this.at) + by : 0;
    this.setAt(lane.bars[Math.max(0, Math.min(lane.bars.length - 1, index))]);
  }

  goLane(by) {
    if (!this.at) { this.go(1); return; }
    const full = this.lanes.filter((lane) => lane.bars && lane.bars.length);
    const lane = full[full.indexOf(this.laneOf(this.at)) + by];
    if (!lane) return;
    const near = (bar) => Math.abs(bar.start - this.at.start);
    this.setAt(lane.bars.reduce((best, bar) => (near(bar) < near(best) ? bar : best)));
  }

  setAt(bar) {
    this.at = bar;
    if (bar.end < this.view[0] || bar.start > this.view[1]) {
      const half = this.span() / 2, middle = (bar.start + bar.end) / 2;
      this.frame(middle - half, middle + half);
    }
    this.draw();
    const box = this.canvas.getBoundingClientRect();
    this.showTip(bar, Math.min(this.x(bar.end), box.width - 20), bar.y + ROW);
    document.getElementById("bar-text").textContent = this.sentence(bar);
  }

  width() { return this.canvas.clientWidth - LEFT - 10; }
  span() { return this.view[1] - this.view[0]; }
  x(time) { return LEFT + ((time - this.view[0]) / this.span()) * this.width(); }
  time(x) { return this.view[0] + ((x - LEFT) / this.width()) * this.span(); }
  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  hit(x, y) {
    if (x < LEFT) return null;
    let best = null;
    for (const bar of this.bars) {
      if (y < bar.y || y >= bar.y + ROW - 2) continue;
      const left = this.x(bar.start), right = Math.max(this.x(bar.end), left + 2);
      if (x >= left - 1 && x <= right + 1 && (!best || bar.end - bar.start < best.end - best.start)) best = bar;
    }
    return best;
  }

  zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
    const span = Math.min(this.end, Math.max(20, this.span() * factor));
    const share = (around - this.view[0]) / this.span();
    this.frame(around - span * share, around + span * (1 - share));
  }

  move(by) { this.frame(this.view[0] + by, this.view[1] + by); }

  frame(from, to) {
    const span = Math.min(this.end, Math.max(20, to - from));
    const start = Math.max(0, Math.min(this.end - span, from));
    this.view = [start, start + span];
    this.draw();
  }

  fit() { this.frame(0, this.end); }

  micro(cycles, clock = this.clock) { return cycles / clock / 1e3; }

  sentence(bar) {
    const took = `${Math.round(bar.end - bar.start)} cycles from ${Math.round(bar.start)}`;
    return [bar.lane, bar.name, bar.iteration, bar.slot, this.placeText(bar), took].filter(Boolean).join(" · ");
  }

  placeText(bar) {
    if (!bar.places.length) return "";
    const [file, line] = this.data.places[bar.places[0]];
    return `${file}:${line}`;
  }

  showTip(bar, x, y) {
    this.tip.hidden = !bar;
    if (!bar) return;
    const rows = [
      ["", bar.lane + (this.data.timelines.length > 1 ? `, ${bar.title}` : "")], ["op", bar.opName], ["iteration", bar.iteration], ["slot", bar.slot], ["line", this.placeText(bar)],
      ["start", `${Math.round(bar.start).toLocaleString("en")} cycles, ${this.micro(bar.start, bar.clock).toFixed(3)} µs`],
      ["duration", `${Math.round(bar.end - bar.start).toLocaleString("en")} cycles, ${(this.micro(bar.end - bar.start, bar.clock) * 1e3).toFixed(0)} ns`],
    ];
    this.tip.innerHTML = "<b></b><dl></dl>";
    this.tip.firstChild.textContent = bar.name;
    for (const [label, value] of rows.filter((row) => row[1])) {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = label;
      text.textContent = value;
      this.tip.lastChild.append(term, text);
    }
    const box = this.tip.getBoundingClientRect(), width = this.canvas.clientWidth;
    this.tip.style.left = `${x + 16 + box.width > width ? Math.max(4, x - box.width - 12) : x + 16}px`;
    this.tip.style.top = `${y + 14}px`;
  }

  mark(choice) { this.choice = choice; this.draw(); }

  isLinked(bar) {
    if (!this.choice) return true;
    if (this.choice.exact && this.choice.op !== null && bar.op !== null) return bar.op === this.choice.op || (bar.kind === "tensor" && shares(this.choice.places, bar.places));
    return shares(this.choice.places, bar.places);
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    return Object.fromEntries(["copy", "tensor", "work", "store", "wait", "ink", "dim", "line", "soft", "card", "accent", "at"].map((n) => [n, get(n)]));
  }

  draw() {
    const canvas = this.canvas, scale = window.devicePixelRatio || 1, width = canvas.clientWidth;
    if (!width) return;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(this.height * scale);
    const c = canvas.getContext("2d"), colour = this.colours();
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = colour.card;
    c.fillRect(0, 0, width, this.height);
    this.drawAxis(c, colour, width);
    this.drawLanes(c, colour, width);
    c.save();
    c.beginPath();
    c.rect(LEFT, TOP - 2, width - LEFT - 9, this.height);
    c.clip();
    const last = new Map();
    for (const bar of this.bars) this.drawBar(c, colour, bar, last);
    if (this.drag && this.drag.range && this.drag.to) {
      c.fillStyle = colour.accent + "33";
      c.fillRect(this.drag.x, TOP, this.drag.to - this.drag.x, this.height);
    }
    c.restore();
  }

  drawAxis(c, colour, width) {
    const span = this.micro(this.span()), wanted = Math.max(2, this.width() / 110);
    const power = 10 ** Math.floor(Math.log10(span / wanted));
    const step = [1, 2, 5, 10].map((n) => n * power).find((s) => span / s <= wanted);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    c.font = "10px system-ui, sans-serif";
    c.textAlign = "center";
    for (let at = Math.ceil(this.micro(this.view[0]) / step) * step; at <= this.micro(this.view[1]) + 1e-9; at += step) {
      const x = this.x(at * this.clock * 1e3);
      c.fillStyle = colour.soft;
      c.fillRect(Math.round(x), TOP - 4, 1, this.height);
      c.fillStyle = colour.dim;
      if (x < width - 24) c.fillText(`${at.toFixed(digits)} µs`, Math.max(x, LEFT + 14), 12);
    }
  }

  drawLanes(c, colour, width) {
    c.textBaseline = "middle";
    for (const lane of this.lanes) {
      c.textAlign = "left";
      if (lane.title) {
        c.fillStyle = colour.ink;
        c.font = "600 11px system-ui, sans-serif";
        c.fillText(lane.title, 11, lane.y + TITLE / 2);
        continue;
      }
      c.fillStyle = colour.dim;
      c.font = "11px system-ui, sans-serif";
      c.textAlign = "right";
      c.fillText(fitText(c, lane.name, LEFT - 18), LEFT - 9, lane.y + (ROW - 2) / 2);
      c.fillStyle = colour.soft;
      c.fillRect(LEFT, lane.y + lane.rows * ROW, width - LEFT - 9, 1);
    }
    c.textBaseline = "alphabetic";
  }

  drawBar(c, colour, bar, last) {
    if (bar.end < this.view[0] || bar.start > this.view[1]) return;
    const left = this.x(bar.start), right = this.x(bar.end), wide = Math.max(1, right - left - 0.5);
    if (wide <= 1 && bar !== this.at && last.get(bar.y) === Math.round(left)) return;
    last.set(bar.y, Math.round(left));
    const linkedBar = this.isLinked(bar);
    c.globalAlpha = linkedBar ? 1 : 0.38;
    c.fillStyle = colour[bar.kind];
    c.fillRect(left, bar.y, wide, ROW - 3);
    if (bar === this.over || bar === this.at || (this.choice && linkedBar)) {
      c.strokeStyle = bar === this.at ? colour.accent : bar === this.over ? colour.ink : colour.at;
      c.lineWidth = bar === this.at ? 2 : 1;
      c.strokeRect(left + 0.5, bar.y + 0.5, Math.max(0, wide - 1), ROW - 4);
    }
    const from = Math.max(left, LEFT), room = Math.min(right, LEFT + this.width()) - from - 8;
    if (room > 22) {
      c.font = "10.5px system-ui, sans-serif";
      c.textAlign = "left";
      c.fillStyle = bar.kind === "wait" ? colour.ink : colour.card;
      const texts = [[bar.name, bar.slot].filter(Boolean).join("  "), bar.slot || bar.name];
      const text = texts.find((found) => c.measureText(found).width <= room) || texts[1];
      c.fillText(fitText(c, text, room), from + 4, bar.y + ROW - 7);
    }
    c.globalAlpha = 1;
  }
}

function fitText(c, text, room) {
  if (c.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && c.measureText(text.slice(0, length) + "…").width > room) length -= 1;
  return length > 1 ? text.slice(0, length) + "…" : "";
}
