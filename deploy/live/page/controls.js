// The controls. Each says which command does the same.
import { trouble } from "./words.js";

const KINDS = { slow: "Slow", hang: "Hang", error: "Error", reset_before: "Reset", flap: "Flap" };
// What the second step compares with, and the carrier that the third one breaks: it has most of the load.
const USUAL = "uwsgi-prefork", INSTEAD = "asgi-hold", CARRIER = "colibri";
const byId = id => document.getElementById(id);

// An operator's ticket comes in the fragment, which no server sees; it stays in this tab.
const given = new URLSearchParams(location.hash.slice(1)).get("ticket");
if (given) { sessionStorage.setItem("ticket", given); history.replaceState(null, "", location.pathname); }

export const headers = () => {
  const ticket = sessionStorage.getItem("ticket");
  return { "X-Live": "1", ...(ticket ? { Authorization: `Bearer ${ticket}` } : {}) };
};

function say(words, bad = false) {
  if (byId("said").textContent !== words) byId("said").textContent = words;
  byId("said").classList.toggle("bad", bad);
}

async function send({ method = "POST", path, body }) {
  say("");
  try {
    const answer = await fetch(path, {
      method, body: JSON.stringify(body),
      headers: { ...headers(), "Content-Type": "application/json" },
    });
    if (!answer.ok) say((await answer.json()).error, true);
  } catch {
    say("The live page's process doesn't answer. Start it again: make run", true);
  }
}

const asCommand = ({ method = "POST", path, body }) =>
  `curl -X ${method} -H 'X-Live: 1'${body ? ` -d '${JSON.stringify(body)}'` : ""} ${location.origin}${path}`;
const seconds = () => Number(byId("seconds").value);
const outage = (code, kind) => ({ path: `/api/carriers/${code}/outage`, body: { kind, for: seconds() } });
const ending = code => ({ method: "DELETE", path: `/api/carriers/${code}/outage` });

export class Controls {
  constructor(start) {
    this.allowed = start.controls;
    this.figures = null;
    byId("bar").hidden = !this.allowed;
    document.body.classList.toggle("watching", !this.allowed);
    if (!this.allowed) return;
    // The three steps carry their numbers until somebody has gone them once.
    byId("bar").classList.toggle("first", !localStorage.getItem("seen"));
    byId("comparison").hidden = !start.strategies.length;
    for (const name of start.strategies) byId("beside").add(new Option(name));
    byId("beside").value = start.strategies.includes(USUAL) ? USUAL : INSTEAD;
    this.connect(byId("traffic"), () => this.load(this.figures?.load.rate ? 0 : Number(byId("rate").value)));
    this.connect(byId("compare"), () =>
      ({ path: "/api/beside", body: { strategy: this.stacks > 1 ? "" : byId("beside").value } }));
    this.connect(byId("break"), () => {
      localStorage.setItem("seen", "1");
      return this.broken.length ? ending(this.broken[0]) : outage(CARRIER, "hang");
    });
    for (const knob of [byId("rate"), byId("share")]) {
      knob.addEventListener("input", () => this.label());
      knob.addEventListener("change", () => this.figures?.load.rate && send(this.load(Number(byId("rate").value))));
    }
    byId("copy").addEventListener("click", () => this.copy());
    this.explain(this.load(6));
    this.label();
  }

  // A button does what `wish` says when it is pressed, and shows that as a command before.
  connect(button, wish) {
    button.addEventListener("click", () => { this.explain(wish()); send(wish()); });
    for (const event of ["focus", "pointerenter"]) button.addEventListener(event, () => this.explain(wish()));
  }

  load(rate) {
    return { path: "/api/load", body: { rate, share: Number(byId("share").value) / 100 } };
  }

  explain(wish) {
    byId("copy").title = asCommand(wish);
  }

  async copy() {
    const command = byId("copy").title;
    try {
      await navigator.clipboard.writeText(command);
      say(`Copied: ${command}`);
    } catch { // a page that isn't on this machine and not over TLS has no clipboard
      say(command);
    }
  }

  get stacks() {
    return this.figures?.targets.length ?? 1;
  }

  get broken() {
    return Object.entries(this.figures?.targets[0]?.carriers ?? {})
      .filter(([, carrier]) => trouble(carrier)).map(([code]) => code);
  }

  label() {
    byId("rate-shown").textContent = byId("rate").value;
    byId("share-shown").textContent = `${byId("share").value} %`;
  }

  connectCarrier(place, code, title) {
    if (!this.allowed) return;
    for (const [kind, word] of [...Object.entries(KINDS), ["end", "End"]]) {
      const button = document.createElement("button");
      button.type = "button"; button.dataset.kind = kind; button.textContent = word;
      const isEnd = kind === "end";
      button.setAttribute("aria-label", isEnd ? `End all outages of ${title}` : `${word}: an outage of ${title}`);
      this.connect(button, () => isEnd ? ending(code) : outage(code, kind));
      place.append(button, " ");
    }
  }

  show(figures) {
    this.figures = figures;
    if (!this.allowed) return;
    const { load, beside: { name, state }, targets } = figures;
    const write = (id, text) => { if (byId(id).textContent !== text) byId(id).textContent = text; };
    write("traffic", load.rate ? "Stop traffic" : "Start traffic");
    write("compare", this.stacks > 1 ? "End the comparison" : "Compare with");
    byId("beside").hidden = this.stacks > 1;
    byId("compare").disabled = state === "started" || state === "stopped";
    const title = targets[0]?.carriers[this.broken[0] ?? CARRIER]?.title ?? CARRIER;
    write("break", this.broken.length ? "End the outage" : `Hang ${title}`);
    byId("break").setAttribute("aria-pressed", Boolean(this.broken.length));
    if (load.rate && document.activeElement !== byId("rate") && document.activeElement !== byId("share")) {
      byId("rate").value = load.rate; byId("share").value = Math.round(load.share * 100);
      this.label();
    }
    const starting = " is being started …";
    if (state === "started") say(name + starting);
    else if (state && state !== "stopped") say(state, true);
    else if (byId("said").textContent.endsWith(starting)) say("");
  }
}
