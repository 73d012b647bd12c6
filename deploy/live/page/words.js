// What the figures mean, in words.

export const duration = seconds => seconds == null ? "–"
  : seconds < 0.0995 ? `${Math.max(1, Math.round(seconds * 1000))} ms`
  : seconds < 9.95 ? `${seconds.toFixed(seconds < 0.995 ? 2 : 1)} s` : `${Math.round(seconds)} s`;
export const rate = value => value < 9.95 ? value.toFixed(1) : String(Math.round(value));

const FAULTS = {
  slow: "is slow", hang: "hangs", error: "answers errors", reset_before: "resets connections",
  flap: "comes and goes", refuse: "refuses connections",
};
export const does = kind => FAULTS[kind] ?? kind;

// A carrier's faults as `[what it does, seconds left]`; null where it has none.
export function trouble(carrier) {
  if (!carrier?.faults.length) return null;
  const left = Math.max(...carrier.faults.map(fault => fault.left ?? Infinity));
  return [carrier.faults.map(fault => does(fault.kind)).join(", "), left];
}

export const otherPages = seconds => seconds === null ? "no answer" : duration(seconds);

// More than this many labels to come and the backlog of an outage isn't worked off.
const calm = load => Math.max(3, 1.5 * load.rate);

// Where all stands: `[mood, sentence]`; a new mood is worth telling a screen reader.
export function sentence({ targets, load }, before) {
  const pages = `Other pages: ${targets.map(one => targets.length > 1
    ? `${otherPages(one.canary)} with ${one.name}` : otherPages(one.canary)).join(", ")}.`;
  const broken = Object.values(targets[0]?.carriers ?? {}).filter(trouble);
  if (broken.length) {
    const what = broken.map(carrier => {
      const [words, left] = trouble(carrier);
      return `${carrier.title} ${words}${left < Infinity ? `, ${Math.ceil(left)} s left` : ""}`;
    });
    return [`broken: ${broken.map(carrier => carrier.title)}`, `${what.join("; ")}. ${pages}`];
  }
  const behind = targets.filter(one => one.to_come > calm(load));
  if (behind.length && !["healthy", "idle", ""].includes(before)) {
    return ["recovering", `Recovering. To come: ${behind.map(one => targets.length > 1
      ? `${one.to_come} labels with ${one.name}` : `${one.to_come} labels`).join(", ")}. ${pages}`];
  }
  return load.rate ? ["healthy", `All carriers answer. ${pages}`] : ["idle", `No traffic. ${pages}`];
}
