// The page: figures come as events, four times a second; all else is showing them.
import { Charts } from "./charts.js";
import { Controls, headers } from "./controls.js";
import { Diagram } from "./diagram.js";
import { duration, otherPages, rate, sentence, trouble } from "./words.js";

const byId = id => document.getElementById(id);
// Seconds. A shop's page feels slow from a third of a second on, and gives up after some.
const SLOW = 0.35, DEAD = 2;
// Milliseconds. A sentence that changed with each event couldn't be read.
const READ = 1000;

const TILES = [
  ["Parcels sent", "a second", one => rate(one.offered)],
  ["Labels bought", "a second", one => rate(one.goodput), one => one.offered > 1 && one.goodput < one.offered / 2],
  ["Half of the clients that wait", "have their answer in", one => duration(one.clients.p50)],
  ["95 % of them", "in", one => duration(one.clients.p95)],
  ["99 % of them", "in", one => duration(one.clients.p99)],
  ["Told “not yet”", "202, the label comes later", one => one.clients.late],
  ["Errors", "5xx, no connection, time-out", one => one.clients.errors, one => one.error_rate > 0],
  ["Label queue's oldest", "waits for a label worker", one => duration(one.queue_age || null), one => one.queue_age > 30],
  ["Database", "open connections", one => one.connections ?? "–"],
  ["Memory", "of all its processes", one => `${Math.round(one.memory / 1e6)} MB`],
];

const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

class StackView {
  constructor(figures) {
    this.root = byId("stack-template").content.firstElementChild.cloneNode(true);
    this.root.querySelector(".name").textContent = figures.name;
    this.root.querySelector(".title").textContent = figures.title;
    this.root.querySelector("summary").textContent = `Details of ${figures.name}`;
    byId("stacks").append(this.root);
    this.diagram = new Diagram(this.root.querySelector("canvas"), Object.keys(figures.carriers));
    this.tiles = TILES.map(([title, meaning]) => {
      const tile = document.createElement("div");
      for (const [kind, text] of [["dt", title], ["dd", ""], ["dd", meaning]]) {
        tile.append(Object.assign(document.createElement(kind), { textContent: text }));
      }
      this.root.querySelector(".tiles").append(tile);
      return tile;
    });
  }

  show(figures) {
    this.diagram.feed(figures);
    const seconds = figures.canary, { waiting, holds, at_door: atDoor } = figures;
    const slots = figures.slots ?? Infinity;
    this.answer("other", otherPages(seconds), seconds === null || seconds > DEAD, seconds > SLOW);
    this.answer("stuck", `${waiting} of ${figures.slots ?? "∞"}`, waiting > 0 && waiting >= slots, waiting > slots / 2);
    const where = [atDoor && `${atDoor} in the queue`, holds && `${holds} held`].filter(Boolean);
    this.answer("waiting", String(figures.clients.open), atDoor > slots, false, where.join(", "));
    TILES.forEach(([, , text, isBad], index) => {
      put(this.tiles[index].children[1], String(text(figures)));
      this.tiles[index].classList.toggle("bad", Boolean(isBad?.(figures)));
    });
  }

  answer(name, text, bad, warns, more = "") {
    const place = this.root.querySelector(`.${name}`);
    put(place.lastElementChild, text);
    place.classList.toggle("bad", bad);
    place.classList.toggle("warns", warns && !bad);
    place.dataset.more = more;
  }
}

class CarrierView {
  constructor(code, title, controls) {
    this.code = code;
    this.root = byId("carriers").tBodies[0].insertRow();
    this.root.dataset.carrier = code;
    this.root.innerHTML = '<th scope="row"></th><td class="share" data-title="Share of traffic"></td>'
      + '<td class="now" data-title="Answers now"></td><td class="calls" data-title="Calls to it"></td><td class="breaking"></td>';
    this.root.firstChild.textContent = title;
    controls.connectCarrier(this.root.querySelector(".breaking"), code, title);
  }

  show(targets) {
    const rates = target => Object.values(target.carriers).reduce((sum, one) => sum + one.rate, 0);
    const first = targets[0], own = first.carriers[this.code], all = rates(first);
    const broken = trouble(own);
    this.root.classList.toggle("bad", Boolean(broken));
    put(this.root.querySelector(".share"), own.rate ? `${Math.round(own.rate / all * 100)} %` : "no traffic");
    this.lines(".now", targets, one => !one.in_flight ? one.p50 === null ? "–" : duration(one.p50)
      : `${one.in_flight} ${one.in_flight > 1 ? "wait" : "waits"}, oldest ${duration(one.oldest)}`);
    const states = { closed: "normal", open: "paused", half_open: "paused, probing" };
    this.lines(".calls", targets, one => `${states[one.breaker]} · ${one.bulkhead[0]} of ${one.bulkhead[1]} open`,
      one => one.breaker);
    for (const button of this.root.querySelectorAll("button[data-kind]")) {
      const on = own.faults.some(fault => fault.kind.startsWith(button.dataset.kind.replace(/s$/, "")));
      if (button.dataset.kind === "end") button.hidden = !broken;
      else button.setAttribute("aria-pressed", on);
    }
  }

  lines(selector, targets, text, kind = () => "") {
    const cell = this.root.querySelector(selector);
    while (cell.childElementCount > targets.length) cell.lastChild.remove();
    while (cell.childElementCount < targets.length) cell.append(document.createElement("div"));
    targets.forEach((target, index) => {
      const one = target.carriers[this.code], line = cell.children[index];
      put(line, text(one));
      line.className = `of-${targets.length > 1 ? index : "one"} ${kind(one)}`;
    });
  }
}

class Page {
  constructor(start) {
    this.controls = new Controls(start);
    this.charts = new Charts(start.history);
    this.stacks = new Map();
    this.carriers = new Map();
    this.figures = null;
    // A page that is opened after an outage tells of its backlog, too.
    this.mood = start.history.some(point => point.outage) ? "recovering" : "";
    this.said = 0;
    byId("to-report").hidden = !start.report;
    byId("to-report").href = start.report;
  }

  show(figures) {
    this.figures = figures;
    const targets = figures.targets.filter(target => Object.keys(target.carriers).length);
    const names = new Set(targets.map(target => target.name));
    for (const [name, view] of this.stacks) if (!names.has(name)) { view.root.remove(); this.stacks.delete(name); }
    for (const target of targets) {
      if (!this.stacks.has(target.name)) this.stacks.set(target.name, new StackView(target));
      this.stacks.get(target.name).show(target);
    }
    for (const [code, carrier] of Object.entries(targets[0]?.carriers ?? {})) {
      if (!this.carriers.has(code)) this.carriers.set(code, new CarrierView(code, carrier.title, this.controls));
      this.carriers.get(code).show(targets);
    }
    if (targets.length) {
      byId("to-parcels").href = `${targets[0].base_url}/operator/parcels`;
      byId("to-docs").href = `${targets[0].base_url}/api/v2/docs`;
    }
    this.controls.show(figures);
    this.charts.add(figures);
    this.say(...sentence(figures, this.mood));
  }

  // The sentence keeps up with the figures; a screen reader hears it when it says something new.
  say(mood, words) {
    const now = performance.now(), turned = mood !== this.mood;
    if (turned) put(byId("announced"), words);
    if (turned || now - this.said > READ) { put(byId("state"), words); this.said = now; }
    this.mood = mood;
    byId("state").className = mood.split(":")[0];
    document.querySelector("main").classList.toggle("lost", mood === "lost");
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

const start = await (await fetch("/api/start", { headers: headers() })).json();
const page = new Page(start);
page.animate();
// For tests: what events call, too.
window.live = page;
const events = new EventSource("/events");
events.onmessage = event => page.show(JSON.parse(event.data));
events.onerror = () => page.say("lost",
  `The live page's process is away; last seen at ${new Date((page.figures?.at ?? 0) * 1000).toTimeString().slice(0, 8)}`);
