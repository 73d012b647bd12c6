// Clients, web server, label queue and carriers as four columns of boxes, with a dot for each request
// in the box where it is. Figures set how many there are at each place; this file only lets them
// move. 10,000 dots are two arrays to walk and one fill per colour.
import { trouble } from "./words.js";

// Left, top, width, height as shares of the canvas. Both sides of a comparison have the same ones.
const BOXES = {
  clients: [0.003, 0.1, 0.19, 0.8],
  held: [0.27, 0.01, 0.24, 0.44],
  workers: [0.27, 0.57, 0.24, 0.42],
  queue: [0.575, 0.01, 0.175, 0.6],
};
const CARRIERS = [0.82, 0.01, 0.177, 0.98];
// Pixels between two boxes of the carriers' column, and around what is in a box.
const GAP = 6, INSIDE = 8, TITLE = 20;
// One snapshot shows no more newcomers than this: beyond it single dots can't be told apart.
const NEWCOMERS = 250;
// Seconds in which a dot covers most of its way: between two snapshots it should be seen moving.
const PACE = 5;
const STATES = ["own", "queued", "held", "stuck", "done"];

class Dot {
  constructor(x, y, state, route) {
    this.x = x; this.y = y; this.state = state; this.route = route; this.node = null; this.since = 0;
  }
}

export class Diagram {
  constructor(canvas, carriers) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.carriers = carriers;
    this.shown = [];
    this.boxes = new Map();
    this.places = new Map();
    this.parked = new Map([...Object.keys(BOXES), ...carriers].map(name => [name, []]));
    this.travelling = [];
    this.figures = null;
    this.before = null;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.drawn = 0;
    new ResizeObserver(() => this.measure()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.measure());
    this.measure();
  }

  measure() {
    const ratio = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth; this.height = this.canvas.clientHeight;
    this.canvas.width = this.width * ratio; this.canvas.height = this.height * ratio;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(this.canvas);
    this.colours = Object.fromEntries([...STATES, "idle", "line", "ink", "faint", "card", "trouble"]
      .map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.colours.held = this.colours.own;
    this.colours.stuck = this.colours.trouble;
    this.narrow = this.width < 460;
    for (const [name, box] of Object.entries(BOXES)) this.place(name, this.pixels(box));
    const [left, top, , height] = this.boxes.get("clients");
    this.places.set("door", [left, top + height / 2]);
    this.places.set("gone", this.places.get("held"));
    this.placeCarriers();
    if (this.figures) this.draw();
  }

  pixels([left, top, width, height]) {
    return [left * this.width, top * this.height, width * this.width, height * this.height];
  }

  place(name, box) {
    this.boxes.set(name, box);
    this.places.set(name, [box[0] + box[2] / 2, box[1] + box[3] / 2]);
  }

  // Carriers without traffic share one line below the others.
  placeCarriers() {
    const [left, top, width, height] = this.pixels(CARRIERS);
    const line = this.shown.length < this.carriers.length ? TITLE + GAP : 0;
    const each = (height - line) / Math.max(1, this.shown.length);
    this.boxes.delete("idle");
    if (line) this.place("idle", [left, this.shown.length ? top + height - TITLE : top, width, TITLE]);
    for (const code of this.carriers) {
      const index = this.shown.indexOf(code);
      if (index < 0) { this.boxes.delete(code); this.places.set(code, this.places.get("idle")); }
      else this.place(code, [left, top + index * each, width, each - GAP]);
    }
  }

  get dots() {
    let sum = this.travelling.length;
    for (const list of this.parked.values()) sum += list.length;
    return sum;
  }

  // Figures to dots ---------------------------------------------------------------------------

  feed(figures) {
    this.before = this.figures ?? figures;
    this.figures = figures;
    const held = this.holds = figures.family === "is held by a front";
    const shown = this.carriers.filter(code => {
      const carrier = figures.carriers[code];
      return carrier && (carrier.rate > 0 || carrier.in_flight || carrier.faults.length);
    });
    if (String(shown) !== String(this.shown)) { this.shown = shown; this.placeCarriers(); }
    for (let n = Math.min(this.grown(one => one.clients.sent), NEWCOMERS); n > 0; n--) {
      this.start("door", "own", ["clients", "workers"]);
    }
    for (const code of this.carriers) this.feedCarrier(code, held);
    this.fit("queue", figures.queued, "queued", ["workers"], []);
    this.fit("held", held ? figures.holds : 0, "held", ["clients"], ["clients", "door"]);
    this.fit("clients", figures.at_door, "queued", ["door"], ["workers"]);
    this.sendHome("workers", Math.max(0, figures.serving - figures.waiting));
    const waits = figures.waiting ? `, ${figures.waiting} of them stuck at a carrier` : "";
    this.canvas.setAttribute("aria-label",
      `${figures.serving} workers busy${waits}; ${figures.at_door} clients in the queue; ` +
      `${figures.holds} clients held; ${figures.queued} labels in the queue`);
    if (this.still.matches) this.settle();
  }

  grown(count) {
    return Math.max(0, count(this.figures) - count(this.before));
  }

  feedCarrier(code, held) {
    const carrier = this.figures.carriers[code];
    if (!carrier) return;
    const bad = trouble(carrier) || carrier.breaker !== "closed";
    const started = Math.min(this.grown(one => one.carriers[code]?.calls ?? 0), NEWCOMERS);
    const here = this.parked.get(code).length;
    const coming = this.travelling.filter(dot => dot.route.at(-1) === code).length;
    const wanted = Math.max(started, carrier.in_flight - here - coming);
    for (let n = 0; n < wanted; n++) this.take(["queue", "workers"], held ? ["queue", code] : [code]);
    const list = this.parked.get(code);
    for (const dot of list) dot.state = STATES.indexOf(bad ? "stuck" : "own");
    // An outcome goes to the held clients past the workers; the client held there is a dot of its own.
    const home = held ? ["queue", "gone"] : ["workers", "clients", "door"];
    while (list.length > carrier.in_flight) this.depart(list.pop(), bad ? "stuck" : "done", home);
  }

  fit(name, wanted, state, from, onward) {
    const list = this.parked.get(name);
    const coming = this.travelling.reduce((sum, dot) => sum + (dot.route.at(-1) === name), 0);
    for (let n = list.length + coming; n < wanted; n++) this.start(from[0], state, [name]);
    while (list.length > wanted) {
      const dot = list.pop();
      if (onward.length) this.depart(dot, name === "held" ? "done" : "own", onward);
    }
  }

  sendHome(name, wanted) {
    const list = this.parked.get(name), now = performance.now();
    while (list.length > wanted && now - list[0].since > 400) this.depart(list.shift(), "own", ["clients", "door"]);
  }

  take(sources, route) {
    for (const name of sources) {
      const dot = this.parked.get(name)?.pop();
      if (dot) return this.depart(dot, "own", route.filter(stop => stop !== name));
    }
    return this.start("workers", "own", route);
  }

  start(from, state, route) {
    const [x, y] = this.places.get(from);
    const spread = () => (Math.random() - 0.5) * 24;
    this.travelling.push(new Dot(x + spread(), y + spread(), STATES.indexOf(state), [...route]));
  }

  depart(dot, state, route) {
    dot.state = STATES.indexOf(state); dot.route = [...route];
    this.travelling.push(dot);
  }

  settle() {
    for (const dot of this.travelling) this.park(dot, dot.route.at(-1));
    this.travelling = [];
    for (const name of this.parked.keys()) this.arrange(name, 1);
    this.draw();
  }

  park(dot, name) {
    if (name === "door" || name === "gone") return;
    dot.since = performance.now();
    if (name === "queue") dot.state = STATES.indexOf("queued");
    this.parked.get(name).push(dot);
  }

  // One frame ---------------------------------------------------------------------------------

  step(seconds) {
    if (!this.figures || this.still.matches) return;
    const share = 1 - Math.exp(-PACE * seconds);
    const going = [];
    for (const dot of this.travelling) {
      const [x, y] = this.places.get(dot.route[0]);
      dot.x += (x - dot.x) * share; dot.y += (y - dot.y) * share;
      if (Math.abs(x - dot.x) + Math.abs(y - dot.y) > 12) going.push(dot);
      else if (dot.route.length > 1) { dot.route.shift(); going.push(dot); }
      else this.park(dot, dot.route[0]);
    }
    this.travelling = going;
    for (const name of this.parked.keys()) this.arrange(name, share);
    this.draw();
  }

  // Dots stand in rows below their box's title.
  arrange(name, share) {
    const list = this.parked.get(name), box = this.boxes.get(name) ?? this.boxes.get("idle");
    if (!list.length || !box) return;
    const above = TITLE * (trouble(this.figures?.carriers[name]) ? 2 : 1);
    const width = Math.max(1, box[2] - 2 * INSIDE), height = Math.max(1, box[3] - above - INSIDE);
    const gap = Math.min(8, Math.sqrt(width * height / list.length));
    const columns = Math.max(1, Math.floor(width / gap));
    const rowGap = Math.min(gap, height / Math.ceil(list.length / columns));
    const left = box[0] + INSIDE + gap / 2, top = box[1] + above + rowGap / 2;
    list.forEach((dot, index) => {
      dot.x += (left + index % columns * gap - dot.x) * share;
      dot.y += (top + Math.floor(index / columns) * rowGap - dot.y) * share;
    });
  }

  // Drawing -----------------------------------------------------------------------------------

  draw() {
    this.context.clearRect(0, 0, this.width, this.height);
    this.drawWays(); this.drawBoxes(); this.drawSquares(); this.drawDots();
    this.drawn += 1;
  }

  // Requests by a line, answers by a dashed one.
  drawWays() {
    const right = name => this.boxes.get(name)[0] + this.boxes.get(name)[2];
    const left = name => this.boxes.get(name)[0];
    const level = share => share * this.height;
    const carriers = CARRIERS[0] * this.width;
    this.arrow(right("clients"), level(0.72), left("workers"), level(0.72));
    this.arrow(right("workers"), level(0.6), left("queue"), level(0.5));
    this.arrow(right("queue"), level(0.4), carriers, level(0.4));
    if (this.holds) {
      this.arrow(right("clients"), level(0.32), left("held"), level(0.32));
      this.arrow(carriers, level(0.2), right("queue"), level(0.2), true);
      this.arrow(left("queue"), level(0.2), right("held"), level(0.2), true);
      this.arrow(left("held"), level(0.2), right("clients"), level(0.2), true);
    } else {
      this.arrow(right("workers"), level(0.74), carriers, level(0.74));
      this.arrow(carriers, level(0.88), right("workers"), level(0.88), true);
      this.arrow(left("workers"), level(0.85), right("clients"), level(0.85), true);
    }
  }

  arrow(fromX, fromY, toX, toY, isAnswer = false) {
    const c = this.context, head = 5, way = Math.sign(toX - fromX);
    c.strokeStyle = c.fillStyle = isAnswer ? this.colours.done : this.colours.faint;
    c.lineWidth = 1.5; c.setLineDash(isAnswer ? [5, 4] : []);
    c.beginPath(); c.moveTo(fromX, fromY); c.lineTo(toX - way * head, toY); c.stroke();
    c.setLineDash([]);
    c.beginPath(); c.moveTo(toX, toY); c.lineTo(toX - way * head * 1.6, toY - head); c.lineTo(toX - way * head * 1.6, toY + head); c.fill();
  }

  drawBoxes() {
    const { figures, narrow } = this;
    this.box("clients", narrow ? "Clients" : "In the queue", figures.at_door);
    this.box("held", narrow ? "Held" : "Clients held", figures.holds, !this.holds);
    this.box("workers", narrow ? "Work" : "Workers", `${figures.serving}${narrow ? "/" : " of "}${figures.slots ?? "∞"}`);
    this.box("queue", narrow ? "Labels" : "Label queue", figures.queued);
    for (const code of this.shown) {
      const carrier = figures.carriers[code], bad = trouble(carrier);
      this.box(code, narrow ? carrier.title.split(" ")[0] : carrier.title, carrier.in_flight, false, bad);
    }
    const idle = this.carriers.length - this.shown.length;
    if (idle) this.box("idle", narrow ? "Idle" : "Without traffic", idle, true);
  }

  box(name, title, count, unused = false, bad = null) {
    const c = this.context, [left, top, width, height] = this.boxes.get(name);
    c.fillStyle = this.colours.card; c.fillRect(left, top, width, height);
    c.strokeStyle = bad ? this.colours.trouble : this.colours.line;
    c.lineWidth = bad ? 2.5 : 1.5;
    c.setLineDash(unused ? [3, 4] : []); c.strokeRect(left, top, width, height); c.setLineDash([]);
    const font = this.narrow ? 10.5 : 12.5;
    c.textBaseline = "middle"; c.textAlign = "right";
    c.font = `600 ${font}px system-ui, sans-serif`;
    c.fillStyle = unused ? this.colours.faint : this.colours.ink;
    const number = String(count);
    c.fillText(number, left + width - 5, top + TITLE / 2 + 1);
    const room = width - 14 - c.measureText(number).width;
    c.textAlign = "left"; c.font = `${font}px system-ui, sans-serif`;
    c.fillStyle = bad ? this.colours.trouble : this.colours.faint;
    c.fillText(title, left + 5, top + TITLE / 2 + 1, room);
    if (!bad) return;
    const [does, seconds] = bad;
    c.font = `600 ${font}px system-ui, sans-serif`;
    c.fillText(seconds < Infinity ? `${does}, ${Math.ceil(seconds)} s left` : does, left + 5, top + TITLE * 1.5, width - 10);
  }

  drawSquares() {
    const { serving, waiting, slots } = this.figures, c = this.context;
    const all = slots ?? Math.max(8, serving);
    const [left, top, width, height] = this.boxes.get("workers");
    const room = [width - 2 * INSIDE, height - TITLE - INSIDE];
    const columns = all <= 64 ? Math.min(all, 8) : Math.ceil(Math.sqrt(all * room[0] / room[1]));
    const rows = Math.ceil(all / columns);
    const size = Math.max(1.5, Math.min(16, room[0] / columns - 2, room[1] / rows - 2));
    for (let n = 0; n < all; n++) {
      c.fillStyle = this.colours[n < waiting ? "stuck" : n < serving ? "own" : "idle"];
      const at = [left + INSIDE + n % columns * (size + 2), top + TITLE + Math.floor(n / columns) * (size + 2)];
      c.fillRect(...at, size, size);
      if (n < waiting && size >= 8) this.cross(...at, size);
    }
  }

  cross(x, y, size) {
    const c = this.context, edge = size * 0.28;
    c.strokeStyle = this.colours.card; c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(x + edge, y + edge); c.lineTo(x + size - edge, y + size - edge);
    c.moveTo(x + size - edge, y + edge); c.lineTo(x + edge, y + size - edge);
    c.stroke();
  }

  drawDots() {
    const byState = STATES.map(() => []);
    for (const dot of this.travelling) byState[dot.state].push(dot);
    for (const [name, list] of this.parked) {
      if (name !== "workers") for (const dot of list) byState[dot.state].push(dot);
    }
    const size = this.dots > 3000 ? 2.5 : 5;
    byState.forEach((dots, state) => this.paint(dots, this.colours[STATES[state]], size, STATES[state] === "held"));
  }

  paint(dots, colour, size, hollow) {
    const c = this.context;
    c.fillStyle = c.strokeStyle = colour;
    if (size < 4) { for (const dot of dots) c.fillRect(dot.x - 1.25, dot.y - 1.25, size, size); return; }
    c.lineWidth = 1.6;
    c.beginPath();
    for (const dot of dots) { c.moveTo(dot.x + size / 2, dot.y); c.arc(dot.x, dot.y, size / 2, 0, 7); }
    hollow ? c.stroke() : c.fill();
  }
}
