"use strict";
// Draws the charts with uPlot; the legend at the top serves all of them.
const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set();
let plots = [];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// All lines of a chart on one x axis; gaps where a line has no point.
function table(chart) {
  const xs = [...new Set(chart.lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  const ys = chart.lines.map((line) => {
    const known = new Map(line.points);
    return xs.map((x) => (known.has(x) ? known.get(x) : undefined));
  });
  return [xs, ...ys];
}

function shade(chart) {
  return (plot) => {
    if (!chart.band) return;
    const [from, to] = chart.band.map((x) => plot.valToPos(x, "x", true));
    plot.ctx.save();
    plot.ctx.fillStyle = css("--band");
    plot.ctx.fillRect(from, plot.bbox.top, to - from, plot.bbox.height);
    plot.ctx.fillStyle = css("--soft");
    plot.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    plot.ctx.fillText(chart.band_label, from + 4 * devicePixelRatio, plot.bbox.top + 13 * devicePixelRatio);
    plot.ctx.restore();
  };
}

function axis(label, extra) {
  return { label, stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, ...extra };
}

const short = (value) => (value === null || value === undefined ? "" : value >= 100 || Number.isInteger(value) ? value.toLocaleString("en", { maximumFractionDigits: 0 }) : String(Number(value.toPrecision(3))));

function options(chart, place, say) {
  const named = chart.ticks.length > 0;
  return {
    width: place.clientWidth,
    height: 270,
    legend: { show: false },
    scales: {
      x: { time: false, range: named ? [-0.2, chart.ticks.length - 0.8] : undefined },
      y: chart.log ? { distr: 3 } : { range: (plot, low, high) => [0, high > 0 ? high * 1.05 : 1] },
    },
    axes: [
      axis(chart.x, named ? { splits: () => chart.ticks.map((_, index) => index), values: () => chart.ticks } : {}),
      axis(chart.y, { size: 62, values: (plot, values) => values.map(short) }),
    ],
    series: [
      {},
      ...chart.lines.map((line) => ({
        label: line.strategy,
        stroke: data.colours[line.strategy],
        width: 1.8,
        dash: line.family.startsWith("is held") ? [] : [7, 4],
        spanGaps: !chart.log || named,
        show: !hidden.has(line.strategy),
        points: { show: named || line.points.length < 3, size: 5 },
      })),
    ],
    focus: { alpha: 0.15 },
    cursor: { focus: { prox: 24 }, y: false },
    hooks: {
      drawClear: [shade(chart)],
      setSeries: [(plot, index) => { plot.near = index; }],
      setCursor: [(plot) => {
        const at = plot.cursor.idx;
        if (!plot.near || at === null || at === undefined) { say.textContent = ""; return; }
        const x = named ? chart.ticks[plot.data[0][at]] : `${short(plot.data[0][at])} (${chart.x})`;
        const y = plot.data[plot.near][at];
        say.textContent = y === undefined || y === null ? "" : `${plot.series[plot.near].label}: ${short(y)} ${chart.y.replace(", log", "")} at ${x}`;
      }],
    },
  };
}

function drawAll() {
  for (const plot of plots) plot.destroy();
  plots = [...document.querySelectorAll(".chart")].map((place) => {
    const chart = data.charts[place.dataset.chart];
    return new uPlot(options(chart, place, place.nextElementSibling), table(chart), place);
  });
}

function each(strategy, act) {
  for (const plot of plots) plot.series.forEach((series, index) => { if (index && series.label === strategy) act(plot, index); });
}

for (const button of document.querySelectorAll("nav button")) {
  const strategy = button.dataset.strategy;
  button.addEventListener("click", () => {
    const hide = !hidden.has(strategy);
    hidden[hide ? "add" : "delete"](strategy);
    button.classList.toggle("off", hide);
    button.setAttribute("aria-pressed", String(hide));
    each(strategy, (plot, index) => plot.setSeries(index, { show: !hide }));
  });
  button.addEventListener("mouseenter", () => each(strategy, (plot, index) => plot.setSeries(index, { focus: true })));
  button.addEventListener("mouseleave", () => { for (const plot of plots) plot.setSeries(null, { focus: true }); });
}

let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 150); });
addEventListener("beforeprint", drawAll);
addEventListener("afterprint", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
