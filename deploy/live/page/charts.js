// The last two minutes, by uPlot.
/* global uPlot */
import { duration } from "./words.js";

const SPAN = 120, HEIGHT = 165;
const DECADES = [0.001, 0.01, 0.1, 1, 10, 100];
// Pixels: an outage that is shorter has no room for its name.
const ROOM = 50;
const CHARTS = [
  { id: "canary-chart", logarithmic: true }, { id: "goodput-chart" }, { id: "backlog-chart" },
];
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const time = at => new Date(at * 1000).toTimeString().slice(0, 8);

export class Charts {
  constructor(history) {
    this.points = history;
    this.names = [];
    this.charts = [];
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.make());
    new ResizeObserver(() => this.resize()).observe(document.getElementById("charts"));
  }

  add(figures) {
    const names = figures.targets.map(target => target.name);
    const last = this.points.at(-1);
    if (last && figures.at - last.at < 1 && String(names) === String(this.names)) return;
    this.points.push({
      at: figures.at,
      outage: figures.targets.some(one => Object.values(one.carriers).some(carrier => carrier.faults.length)),
      points: Object.fromEntries(
        figures.targets.map(one => [one.name, [one.canary, one.goodput, one.to_come]])),
    });
    while (this.points.length && this.points[0].at < figures.at - SPAN) this.points.shift();
    if (String(names) !== String(this.names)) { this.names = names; this.make(); }
    this.show();
  }

  show() {
    const at = this.points.map(point => point.at);
    const end = at.at(-1) ?? 0;
    this.charts.forEach((chart, which) => {
      const { logarithmic } = CHARTS[which];
      const value = point => logarithmic && point !== null ? Math.max(point, DECADES[0]) : point;
      const columns = this.names.map(name =>
        this.points.map(point => value(point.points[name]?.[which] ?? null)));
      chart.setData([at, ...columns], false);
      chart.batch(() => {
        chart.setScale("x", { min: end - SPAN, max: end });
        chart.setScale("y", logarithmic ? { min: DECADES[0], max: DECADES.at(-1) }
          : { min: 0, max: Math.max(1, ...columns.flat()) * 1.15 });
      });
    });
  }

  make() {
    for (const chart of this.charts) chart.destroy();
    this.charts = CHARTS.map(chart => this.chart(chart));
    this.show();
  }

  chart({ id, logarithmic }) {
    const parent = document.getElementById(id);
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    const decades = { splits: () => DECADES, values: (chart, values) => values.map(duration), filter: (chart, splits) => splits };
    return new uPlot({
      width: parent.clientWidth, height: HEIGHT, cursor: { show: false }, legend: { show: false },
      padding: [8, 30, 0, 0],
      scales: { x: { time: true }, y: { auto: false, distr: logarithmic ? 3 : 1 } },
      axes: [
        { ...axis, values: (chart, values) => values.map(time), space: 90, size: 28 },
        { ...axis, size: 54, ...(logarithmic ? decades : {}) },
      ],
      series: [{}, ...this.names.map((name, index) => ({
        label: name, width: 2.5, stroke: colour(index ? "second" : "first"),
        dash: index ? [8, 5] : undefined, points: { show: false },
      }))],
      hooks: { drawClear: [chart => this.band(chart)], draw: [chart => this.sign(chart)] },
    }, [[], ...this.names.map(() => [])], parent);
  }

  // The outages, behind all else.
  band(chart) {
    const { ctx, bbox } = chart, x = at => chart.valToPos(at, "x", true);
    let begin = null, before = null;
    for (const { at, outage } of [...this.points, { at: null, outage: false }]) {
      if (outage) begin ??= before ?? at;
      else if (begin !== null) {
        const left = Math.max(x(begin), bbox.left), right = x(at ?? before);
        ctx.fillStyle = colour("band");
        ctx.fillRect(left, bbox.top, right - left, bbox.height);
        ctx.fillStyle = colour("trouble");
        ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
        ctx.textAlign = "left"; ctx.textBaseline = "top";
        if (right - left > ROOM * devicePixelRatio) ctx.fillText("outage", left + 4, bbox.top + 3);
        begin = null;
      }
      before = at;
    }
  }

  // Each line's name at its end; one below the other where the ends are close.
  sign(chart) {
    if (this.names.length < 2) return;
    const { ctx, bbox } = chart, line = 13 * devicePixelRatio;
    const ends = this.names.map((name, index) => {
      const value = chart.data[index + 1].at(-1);
      return value == null ? null : { name, index, y: chart.valToPos(value, "y", true) - line * 0.6 };
    }).filter(Boolean).sort((a, b) => a.y - b.y);
    if (ends.length > 1 && ends[1].y - ends[0].y < line) ends[1].y = ends[0].y + line;
    const over = Math.max(0, (ends.at(-1)?.y ?? 0) + line - bbox.top - bbox.height);
    ctx.font = `600 ${12 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "right"; ctx.textBaseline = "middle";
    for (const { name, index, y } of ends) {
      const at = [bbox.left + bbox.width - 4, Math.max(y, bbox.top + line / 2) - over];
      ctx.lineWidth = 4 * devicePixelRatio; ctx.strokeStyle = colour("card"); ctx.setLineDash([]);
      ctx.strokeText(name, ...at);
      ctx.fillStyle = colour(index ? "second" : "first");
      ctx.fillText(name, ...at);
    }
  }

  resize() {
    for (const chart of this.charts) chart.setSize({ width: chart.root.parentElement.clientWidth, height: HEIGHT });
  }
}
