// The last two minutes, by uPlot.
/* global uPlot */

const SPAN = 120;
const DECADES = [0.001, 0.01, 0.1, 1, 10, 100];
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const duration = seconds => seconds == null ? "–"
  : seconds < 1 ? `${+(seconds * 1000).toPrecision(2)} ms` : `${+seconds.toPrecision(3)} s`;

export class Charts {
  constructor() {
    this.points = [];
    this.names = [];
    this.charts = [];
    const redo = () => this.make();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redo);
    new ResizeObserver(() => this.resize()).observe(document.getElementById("charts"));
  }

  fill(history) {
    this.points = history;
  }

  add(figures) {
    const names = figures.targets.map(target => target.name);
    const last = this.points.at(-1);
    if (last && figures.at - last.at < 1 && String(names) === String(this.names)) return;
    const points = Object.fromEntries(
      figures.targets.map(target => [target.name, [target.canary.now, target.goodput]]));
    this.points.push({ at: figures.at, points });
    while (this.points.length && this.points[0].at < figures.at - SPAN) this.points.shift();
    if (String(names) !== String(this.names)) { this.names = names; this.make(); }
    this.show();
  }

  column(name, which) {
    return this.points.map(point => point.points[name]?.[which] ?? null);
  }

  show() {
    const at = this.points.map(point => point.at);
    const end = at.at(-1) ?? 0;
    this.charts.forEach((chart, which) => {
      const floor = value => value === null ? null : which === 0 ? Math.max(value, 0.001) : value;
      chart.setData([at, ...this.names.map(name => this.column(name, which).map(floor))], false);
      const most = Math.max(1, ...this.names.flatMap(name => this.column(name, 1)));
      chart.batch(() => {
        chart.setScale("x", { min: end - SPAN, max: end });
        chart.setScale("y", which === 0 ? { min: 0.001, max: 100 } : { min: 0, max: most * 1.15 });
      });
    });
  }

  make() {
    for (const chart of this.charts) chart.destroy();
    this.charts = [
      this.chart("canary-chart", { scale: { distr: 3 }, shown: duration }),
      this.chart("goodput-chart", { scale: {}, shown: value => value == null ? "–" : `${+value.toFixed(1)}` }),
    ];
    this.show();
  }

  chart(id, { scale, shown }) {
    const parent = document.getElementById(id);
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    const seconds = { splits: () => DECADES, values: (chart, values) => values.map(duration), filter: (chart, splits) => splits };
    return new uPlot({
      width: parent.clientWidth, height: 190, cursor: { y: false }, legend: { live: false },
      scales: { x: { time: true }, y: { auto: false, ...scale } },
      axes: [
        { ...axis, values: (chart, values) => values.map(value => new Date(value * 1000).toTimeString().slice(0, 8)), space: 80 },
        { ...axis, size: 62, ...(scale.distr ? seconds : {}) },
      ],
      series: [{ value: (chart, at) => at ? new Date(at * 1000).toTimeString().slice(0, 8) : "–" },
        ...this.names.map((name, index) => ({
          label: name, width: 2.5, stroke: colour(index ? "second" : "first"),
          dash: index ? [8, 5] : undefined, value: (chart, value) => shown(value), points: { show: false },
        }))],
    }, [[], ...this.names.map(() => [])], parent);
  }

  resize() {
    for (const chart of this.charts) chart.setSize({ width: chart.root.parentElement.clientWidth, height: 190 });
  }
}
