// The knobs and buttons. Each says which command does the same.

const KINDS = ["slow", "hang", "errors", "reset", "flap"];
const LABELS = { slow: "Slow", hang: "Hang", errors: "Errors", reset: "Reset", flap: "Flap" };
const byId = id => document.getElementById(id);

// An operator's ticket comes in the fragment, which no server sees; it stays in this tab.
const given = new URLSearchParams(location.hash.slice(1)).get("ticket");
if (given) { sessionStorage.setItem("ticket", given); history.replaceState(null, "", location.pathname); }

export const headers = () => {
  const ticket = sessionStorage.getItem("ticket");
  return { "X-Live": "1", ...(ticket ? { Authorization: `Bearer ${ticket}` } : {}) };
};

async function send(method, path, body) {
  byId("said").textContent = "";
  try {
    const answer = await fetch(path, {
      method, body: JSON.stringify(body),
      headers: { ...headers(), "Content-Type": "application/json" },
    });
    if (!answer.ok) byId("said").textContent = (await answer.json()).error;
  } catch {
    byId("said").textContent = "The live page's process doesn't answer. Start it again: make run";
  }
}

const curl = (path, body) => `curl -H 'X-Live: 1' -d '${JSON.stringify(body)}' ${location.origin}${path}`;
const seconds = () => Number(byId("seconds").value);

function outageCommand(code, kind, stacks) {
  if (stacks > 1) return curl(`/api/carriers/${code}/outage`, { kind, for: seconds() });
  return `.venv/bin/python manage.py outage ${code} ${kind} --for ${seconds()}s`;
}

export class Controls {
  constructor(start) {
    this.allowed = start.controls;
    this.stacks = 1;
    this.explainers = [];
    byId("knobs").hidden = byId("duration").hidden = !this.allowed;
    if (!this.allowed) return;
    byId("beside").closest(".knob").hidden = !start.strategies.length;
    for (const name of start.strategies) byId("beside").add(new Option(name));
    const usual = start.strategies.includes("uwsgi-prefork") ? "uwsgi-prefork" : "asgi-hold";
    byId("beside").value = usual;
    this.connectLoad();
    byId("compare").addEventListener("click", () =>
      send("POST", "/api/beside", { strategy: this.stacks > 1 ? "" : byId("beside").value }));
    for (const event of ["focus", "pointerenter", "change"]) {
      byId("beside").addEventListener(event, () => this.showBeside());
      byId("compare").addEventListener(event, () => this.showBeside());
    }
  }

  showBeside() {
    const strategy = this.stacks > 1 ? "" : byId("beside").value;
    byId("load-command").textContent = curl("/api/beside", { strategy });
    byId("load-command").dataset.of = "beside";
  }

  connectLoad() {
    const rate = byId("rate"), share = byId("share");
    const knobs = () => ({ rate: Number(rate.value), share: Number(share.value) / 100 });
    const show = () => {
      byId("rate-shown").textContent = rate.value;
      byId("share-shown").textContent = `${share.value} %`;
      byId("load-command").textContent = curl("/api/load", knobs());
      byId("load-command").dataset.of = "load";
    };
    for (const knob of [rate, share]) {
      knob.addEventListener("input", show);
      knob.addEventListener("change", () => send("POST", "/api/load", knobs()));
      knob.addEventListener("focus", show);
    }
    byId("play").addEventListener("click", () => { rate.value = 6; show(); send("POST", "/api/load", knobs()); });
    byId("pause").addEventListener("click", () => { rate.value = 0; show(); send("POST", "/api/load", knobs()); });
    this.showLoad = load => {
      if (document.activeElement === rate || document.activeElement === share) return;
      rate.value = load.rate; share.value = Math.round(load.share * 100);
      if (byId("load-command").dataset.of === "load") show();
    };
    show();
  }

  connectCarrier(card, code) {
    if (!this.allowed) return;
    const place = card.querySelector(".buttons"), line = card.querySelector(".command");
    place.hidden = line.hidden = false;
    const command = line.querySelector("code");
    const explain = kind => { command.textContent = outageCommand(code, kind, this.stacks); };
    for (const kind of KINDS) {
      const button = document.createElement("button");
      button.type = "button"; button.dataset.kind = kind; button.textContent = LABELS[kind];
      button.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-label", `${LABELS[kind]}: an outage of ${code}`);
      button.addEventListener("click", () => send("POST", `/api/carriers/${code}/outage`, { kind, for: seconds() }));
      for (const event of ["focus", "pointerenter", "click"]) button.addEventListener(event, () => explain(kind));
      place.append(button);
    }
    const end = document.createElement("button");
    end.type = "button"; end.dataset.kind = "end"; end.textContent = "End";
    end.setAttribute("aria-label", `End all outages of ${code}`);
    end.addEventListener("click", () => send("DELETE", `/api/carriers/${code}/outage`));
    const ending = () => { command.textContent = `.venv/bin/python manage.py outage ${code} end`; };
    for (const event of ["focus", "pointerenter", "click"]) end.addEventListener(event, ending);
    place.append(end);
    byId("seconds").addEventListener("change", () => explain("hang"));
    this.explainers.push(() => explain("hang"));
    explain("hang");
  }

  show(figures) {
    if (!this.allowed) return;
    if (this.stacks !== figures.targets.length) {
      this.stacks = figures.targets.length;
      for (const explain of this.explainers) explain();
    }
    this.showLoad(figures.load);
    const { name, state } = figures.beside;
    byId("compare").textContent = this.stacks > 1 ? "End" : "Start";
    byId("compare").disabled = state === "started" || state === "stopped";
    if (state === "started") byId("said").textContent = `${name} is being started …`;
    else if (state && state !== "stopped") byId("said").textContent = state;
    else if (byId("said").textContent.endsWith("is being started …")) byId("said").textContent = "";
  }
}
