// The flow: where the parcels are, as dots. Figures set how many there are at each place; this file
// only lets them move. 10,000 dots are two arrays to walk and one fill per colour.

const NODES = {
  clients: [0.07, 0.5], front: [0.24, 0.5], workers: [0.43, 0.5], hub: [0.43, 0.13],
  queue: [0.66, 0.83], carrier: [0.87, 0],
};
const WAYS = [["clients", "front"], ["front", "workers"]];
const WAYS_WHEN_HELD = [["front", "hub"], ["workers", "queue"], ["hub", "queue"]];
// One snapshot shows no more newcomers than this: beyond it single dots can't be told apart.
const NEWCOMERS = 250;
// Seconds in which a dot covers most of its way: between two snapshots it should be seen moving.
const PACE = 5;
const GOLDEN_ANGLE = 2.39996;
const STATES = ["moving", "queued", "held", "stuck", "done"];

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
    this.parked = new Map();
    this.places = new Map();
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
    const style = getComputedStyle(document.documentElement);
    this.colour = name => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries(
      [...STATES, "idle", "line", "ink", "faint", "card"].map(name => [name, this.colour(name)]));
    for (const [name, [x, y]] of Object.entries(NODES)) this.places.set(name, [x * this.width, y * this.height]);
    this.carriers.forEach((code, index) => this.places.set(code,
      [NODES.carrier[0] * this.width, (index + 0.4) / this.carriers.length * this.height]));
    this.places.set("gone", this.places.get("hub"));
    for (const name of this.places.keys()) if (!this.parked.has(name)) this.parked.set(name, []);
    if (this.figures) this.draw(0);
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
    const held = figures.family === "is held by a front";
    this.newcomers(this.grown("clients.sent"), held);
    for (const code of this.carriers) this.feedCarrier(code, held);
    this.fit("queue", figures.queued, "queued", ["workers"], []);
    this.fit("hub", held ? figures.holds : 0, "held", ["front"], ["clients"]);
    const served = figures.serving + (held ? figures.holds : 0);
    this.fit("front", Math.max(0, figures.clients.open - served), "queued", ["clients"], ["workers"]);
    this.sendHome("workers", Math.max(0, figures.serving - figures.waiting));
    const waits = figures.waiting ? `, ${figures.waiting} of them waiting for a carrier` : "";
    this.canvas.setAttribute("aria-label",
      `${figures.serving} workers busy${waits}; ${figures.holds} clients held; ` +
      `${figures.queued} announcements queued`);
    if (this.still.matches) this.settle();
  }

  grown(path) {
    const read = figures => path.split(".").reduce((value, key) => value?.[key], figures) ?? 0;
    return Math.max(0, read(this.figures) - read(this.before));
  }

  newcomers(count) {
    for (let n = 0; n < Math.min(count, NEWCOMERS); n++) this.start("clients", "moving", ["front", "workers"]);
  }

  feedCarrier(code, held) {
    const carrier = this.figures.carriers[code];
    if (!carrier) return;
    const trouble = carrier.faults.length > 0 || carrier.breaker !== "closed";
    const started = Math.min(this.grown(`carriers.${code}.calls`), NEWCOMERS);
    const here = this.parked.get(code).length;
    const coming = this.travelling.filter(dot => dot.route.at(-1) === code).length;
    const wanted = Math.max(started, carrier.in_flight - here - coming);
    for (let n = 0; n < wanted; n++) this.take(["queue", "workers"], held ? ["queue", code] : [code], "moving");
    const list = this.parked.get(code);
    for (const dot of list) dot.state = trouble ? 3 : 0;
    // An outcome goes to the hub past the workers; the client held there is a dot of its own.
    const home = held ? ["gone"] : ["workers", "clients"];
    while (list.length > carrier.in_flight) this.depart(list.pop(), trouble ? "stuck" : "done", home);
  }

  fit(name, wanted, state, from, onward) {
    const list = this.parked.get(name);
    const coming = this.travelling.reduce((sum, dot) => sum + (dot.route.at(-1) === name), 0);
    for (let n = list.length + coming; n < wanted; n++) this.start(from[0], state, [name]);
    while (list.length > wanted) {
      const dot = list.pop();
      if (onward.length) this.depart(dot, name === "hub" ? "done" : "moving", onward);
    }
  }

  sendHome(name, wanted) {
    const list = this.parked.get(name), now = performance.now();
    while (list.length > wanted && now - list[0].since > 400) this.depart(list.shift(), "moving", ["clients"]);
  }

  take(sources, route, state) {
    for (const name of sources) {
      const dot = this.parked.get(name)?.pop();
      if (dot) return this.depart(dot, state, route.filter(stop => stop !== name));
    }
    return this.start("workers", state, route);
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
    this.draw(0);
  }

  park(dot, name) {
    if (name === "clients" || name === "gone") return;
    dot.since = performance.now();
    if (name === "queue") dot.state = 1;
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
    this.draw(seconds);
  }

  arrange(name, share) {
    const list = this.parked.get(name), [x, y] = this.places.get(name);
    const radius = this.radius(name);
    const gap = Math.min(5, radius / Math.sqrt(list.length || 1));
    list.forEach((dot, index) => {
      const far = gap * Math.sqrt(index), angle = index * GOLDEN_ANGLE;
      dot.x += (x + far * Math.cos(angle) - dot.x) * share;
      dot.y += (y + far * Math.sin(angle) - dot.y) * share;
    });
  }

  // How far dots may lie from a place's middle: its words stand below them.
  radius(name) {
    if (name === "hub") return this.height * 0.11;
    return Math.min(this.height * (this.carriers.includes(name) ? 0.07 : 0.085), this.width * 0.1);
  }

  // Drawing -----------------------------------------------------------------------------------

  draw() {
    const c = this.context;
    c.clearRect(0, 0, this.width, this.height);
    this.drawWays(); this.drawSquares(); this.drawDots(); this.drawWords();
    this.drawn += 1;
  }

  drawWays() {
    const c = this.context;
    c.strokeStyle = this.colours.line; c.lineWidth = 1.5;
    const held = this.figures.family === "is held by a front";
    const ways = held ? [...WAYS, ...WAYS_WHEN_HELD] : WAYS;
    const source = held ? "queue" : "workers";
    c.beginPath();
    for (const [from, to] of [...ways, ...this.carriers.map(code => [source, code])]) {
      c.moveTo(...this.places.get(from)); c.lineTo(...this.places.get(to));
    }
    c.stroke();
  }

  drawSquares() {
    const { serving, waiting, slots } = this.figures, c = this.context;
    const all = slots ?? Math.max(8, serving);
    const columns = all <= 8 ? Math.min(all, 5) : Math.ceil(Math.sqrt(all * 1.4));
    const size = Math.max(3, Math.min(14, this.width * 0.15 / columns - 1));
    const rows = Math.ceil(all / columns), [x, y] = this.places.get("workers");
    const left = x - columns * (size + 1) / 2, top = y - rows * (size + 1) / 2;
    c.fillStyle = this.colours.card;
    c.fillRect(left - 4, top - 4, columns * (size + 1) + 7, rows * (size + 1) + 7);
    for (let n = 0; n < all; n++) {
      c.fillStyle = this.colours[n < waiting ? "stuck" : n < serving ? "moving" : "idle"];
      const at = [left + n % columns * (size + 1), top + Math.floor(n / columns) * (size + 1)];
      c.fillRect(...at, size, size);
      if (n < waiting && size >= 8) this.cross(...at, size);
    }
    this.squaresEnd = top + rows * (size + 1);
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

  drawWords() {
    const { figures } = this, held = figures.family === "is held by a front";
    const words = [
      ["clients", "Clients", figures.clients.open, 22],
      ["front", "Front", Math.max(0, figures.clients.open - figures.serving - (held ? figures.holds : 0)), this.radius("front") + 11],
      ["workers", "Workers", `${figures.serving}/${figures.slots ?? "∞"}`, this.squaresEnd - this.places.get("workers")[1] + 14],
    ];
    if (held || figures.queued) words.push(["queue", "Queue", figures.queued, this.radius("queue") + 11]);
    if (held) words.push(["hub", "Hub", figures.holds, this.radius("hub") + 11]);
    for (const [name, word, count, below] of words) this.word(name, word, count, below);
    for (const code of this.carriers) {
      const carrier = figures.carriers[code];
      const title = this.width < 460 ? code : carrier?.title ?? code;
      this.word(code, title, carrier?.in_flight ?? 0, this.radius(code) + 9);
    }
  }

  word(name, word, count, below) {
    const c = this.context, [x, y] = this.places.get(name);
    const font = this.width < 460 ? 11 : 12.5;
    c.textAlign = "left"; c.textBaseline = "middle";
    c.font = `${font}px system-ui, sans-serif`;
    const text = `${word} `, number = String(count);
    const ahead = c.measureText(text).width, both = ahead + c.measureText(number).width * 1.1;
    const left = Math.max(2, Math.min(x - both / 2, this.width - both - 2));
    c.fillStyle = this.colours.card; c.globalAlpha = 0.8;
    c.fillRect(left - 2, y + below - font * 0.7, both + 6, font * 1.4);
    c.globalAlpha = 1;
    c.fillStyle = this.colours.faint; c.fillText(text, left, y + below);
    c.font = `600 ${font}px system-ui, sans-serif`;
    c.fillStyle = this.colours.ink; c.fillText(number, left + ahead, y + below);
  }
}
