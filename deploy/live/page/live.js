// The page: figures come as events, four times a second; all else is showing them.
import { Charts } from "./charts.js";
import { Controls, headers } from "./controls.js";
import { Diagram } from "./diagram.js";

const byId = id => document.getElementById(id);
const clone = id => byId(id).content.firstElementChild.cloneNode(true);
const KINDS_SHOWN = { error: "errors", reset_before: "reset" };
// Seconds. A shop's page feels slow from a third of a second on, and gives up after some.
const SLOW = 0.35, DEAD = 2;

const duration = seconds => seconds == null ? "–"
  : seconds < 0.0995 ? `${Math.max(1, Math.round(seconds * 1000))} ms`
  : seconds < 9.95 ? `${seconds.toFixed(seconds < 0.995 ? 2 : 1)} s` : `${Math.round(seconds)} s`;
const rate = value => value < 9.95 ? value.toFixed(1) : String(Math.round(value));
const megabytes = bytes => `${Math.round(bytes / 1e6)} MB`;

const TILES = [
  ["Offered /s", one => rate(one.offered)],
  ["Labels /s", one => rate(one.goodput), one => one.offered > 1 && one.goodput < one.offered / 2],
  ["p50", one => duration(one.clients.p50)],
  ["p95", one => duration(one.clients.p95)],
  ["p99", one => duration(one.clients.p99)],
  ["Errors", one => one.clients.errors, one => one.error_rate > 0],
  ["Label later", one => one.clients.late],
  ["Held", one => one.holds],
  ["Busy", one => `${one.serving}/${one.slots ?? "∞"}`, one => one.slots !== null && one.serving >= one.slots],
  ["Queue age", one => duration(one.queue_age || null), one => one.queue_age > 30],
  ["Database", one => one.connections === null ? "–" : `${one.connections} conn.`],
  ["Memory", one => megabytes(one.memory)],
];

class StackView {
  constructor(figures) {
    this.root = clone("stack-template");
    this.root.querySelector(".name").textContent = figures.name;
    this.root.querySelector(".title").textContent = figures.title;
    byId("stacks").append(this.root);
    this.diagram = new Diagram(this.root.querySelector("canvas"), Object.keys(figures.carriers));
    this.tiles = TILES.map(([title]) => {
      const tile = document.createElement("div");
      const term = document.createElement("dt"), value = document.createElement("dd");
      term.textContent = title;
      tile.append(term, value);
      this.root.querySelector(".tiles").append(tile);
      return tile;
    });
  }

  show(figures) {
    this.diagram.feed(figures);
    const seconds = figures.canary.now, canary = this.root.querySelector(".canary");
    canary.querySelector("strong").textContent = seconds === null ? "no answer" : duration(seconds);
    canary.classList.toggle("slow", seconds > SLOW && seconds <= DEAD);
    canary.classList.toggle("dead", seconds === null || seconds > DEAD);
    TILES.forEach(([, text, isBad], index) => {
      this.tiles[index].lastChild.textContent = text(figures);
      this.tiles[index].classList.toggle("bad", Boolean(isBad?.(figures)));
    });
  }
}

class CarrierView {
  constructor(code, title, controls) {
    this.code = code;
    this.root = clone("carrier-template");
    this.root.dataset.carrier = code;
    this.root.querySelector("h3").textContent = title;
    controls.connectCarrier(this.root, code);
    byId("carriers").append(this.root);
    this.guards = [];
  }

  show(targets) {
    while (this.guards.length > targets.length) this.guards.pop().remove();
    while (this.guards.length < targets.length) this.addGuard();
    targets.forEach((target, index) => this.showGuard(this.guards[index], target, targets.length > 1));
    const first = targets[0].carriers[this.code];
    const usual = first.p50 === null ? "not called yet" : `${duration(first.p50)}, p95 ${duration(first.p95)}`;
    const faults = first.faults.map(fault => KINDS_SHOWN[fault.kind] ?? fault.kind);
    this.root.querySelector(".latency").textContent =
      `Latency ${usual}${faults.length ? ` · outage: ${faults.join(", ")}` : ""}`;
    for (const button of this.root.querySelectorAll("button")) {
      if (button.dataset.kind !== "end") button.setAttribute("aria-pressed", faults.includes(button.dataset.kind));
    }
  }

  addGuard() {
    const guard = document.createElement("div");
    guard.className = "guard";
    guard.innerHTML = '<span class="who"></span><span class="state"></span><span class="words"></span><meter min="0"></meter>';
    this.root.querySelector(".guards").append(guard);
    this.guards.push(guard);
  }

  showGuard(guard, target, named) {
    const carrier = target.carriers[this.code], [taken, limit] = carrier.bulkhead;
    guard.querySelector(".who").textContent = named ? target.name : "";
    guard.querySelector(".words").textContent = `Bulkhead ${taken}/${limit}`;
    const state = guard.querySelector(".state"), words = { closed: "closed", open: "OPEN", half_open: "half-open" };
    state.textContent = `Breaker ${words[carrier.breaker]}`;
    state.className = `state ${carrier.breaker}`;
    const meter = guard.querySelector("meter");
    meter.max = limit; meter.value = taken;
    meter.setAttribute("aria-label", `${taken} of ${limit} calls in flight`);
  }
}

class Page {
  constructor(start) {
    this.controls = new Controls(start);
    this.charts = new Charts();
    this.charts.fill(start.history);
    this.stacks = new Map();
    this.carriers = new Map();
    this.figures = null;
  }

  show(figures) {
    this.figures = figures;
    const names = new Set(figures.targets.map(target => target.name));
    for (const [name, view] of this.stacks) if (!names.has(name)) { view.root.remove(); this.stacks.delete(name); }
    for (const target of figures.targets) {
      if (!Object.keys(target.carriers).length) continue;
      if (!this.stacks.has(target.name)) this.stacks.set(target.name, new StackView(target));
      this.stacks.get(target.name).show(target);
    }
    this.showCarriers(figures.targets.filter(target => Object.keys(target.carriers).length));
    this.controls.show(figures);
    this.charts.add(figures);
  }

  showCarriers(targets) {
    for (const [code, carrier] of Object.entries(targets[0]?.carriers ?? {})) {
      if (!this.carriers.has(code)) this.carriers.set(code, new CarrierView(code, carrier.title, this.controls));
      this.carriers.get(code).show(targets);
    }
  }

  animate() {
    let before = performance.now();
    const frame = now => {
      const seconds = Math.min(0.1, (now - before) / 1000);
      before = now;
      for (const view of this.stacks.values()) view.diagram.step(seconds);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }
}

function say(words, lost = false) {
  byId("link").textContent = words;
  byId("link").classList.toggle("lost", lost);
  document.querySelector("main").classList.toggle("lost", lost);
}

const start = await (await fetch("/api/start", { headers: headers() })).json();
const page = new Page(start);
page.animate();
// For tests: what events call, too.
window.live = page;
const events = new EventSource("/events");
events.onmessage = event => { page.show(JSON.parse(event.data)); say("Live"); };
events.onerror = () => say(
  `The live process is away; last seen at ${new Date((page.figures?.at ?? 0) * 1000).toTimeString().slice(0, 8)}`, true);
