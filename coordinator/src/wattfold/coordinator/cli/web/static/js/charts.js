// Charts: power over time (uPlot), and the canvas that fits its box.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { clock, moment, watts } from "./format.js";
import { color, onTheme } from "./theme.js";

export const CAUSES = [
  ["base", "base power"],
  ["idle", "idle at the floor"],
  ["jobs", "jobs"],
  ["changing", "caps that change"],
  ["away", "not in service"],
  ["outside", "outside the ledger"],
];
const GAP_S = 90; // No line over a longer time without samples.
const RANGES = [["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "24 h"]];

// The width of an element, kept up to date.
export function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(ref.current);
    setWidth(Math.floor(ref.current.clientWidth));
    return () => observer.disconnect();
  }, []);
  return width;
}

// Size a canvas for the density of the screen and return its context.
export function sized(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export const fontOf = (size, weight = 400) =>
  `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;

// The range that shows the whole history, at most 24 h.
export function rangeFor(seconds) {
  return (RANGES.find(([key]) => Number(key) >= seconds) ?? RANGES.at(-1))[0];
}
export { RANGES };

// Columns for uPlot: times, the stack from its top to its bottom, measured, budget, announced.
export function powerData(history, power, now, range) {
  const from = now - range;
  let first = history.time.findIndex((time) => time >= from);
  if (first < 0) first = history.time.length;
  if (first > 0) first -= 1;
  const times = [];
  const rows = [];
  for (let i = first; i < history.time.length; i++) {
    const time = history.time[i];
    if (times.length && time - times.at(-1) > GAP_S) {
      times.push(times.at(-1) + 1);
      rows.push(-1);
    }
    times.push(time);
    rows.push(i);
  }
  // A bin lasts until the next one, or until now.
  if (times.length && now > times.at(-1) && now - times.at(-1) < GAP_S) {
    times.push(now);
    rows.push(rows.at(-1));
  }
  const value = (name, i) => (i < 0 ? null : history[name][i]);
  const sums = rows.map(() => 0);
  const stack = CAUSES.map(([cause]) =>
    rows.map((i, at) => (i < 0 ? null : (sums[at] += history[cause][i]))),
  );
  const budget = rows.map((i) => value("budget", i));
  const ahead = announcedSteps(power, now, range);
  const nothing = ahead.map(() => null);
  return [
    [...times, ...ahead.map(([time]) => time)],
    ...stack.reverse().map((sum) => [...sum, ...nothing]),
    [...rows.map((i) => value("measured", i)), ...nothing],
    [...budget, ...nothing],
    [...rows.map(() => null), ...ahead.map(([, budgetW]) => budgetW)],
  ];
}

// Future budgets as steps: the current budget from now on, then every announced one.
export function announcedSteps(power, now, range) {
  const known = power.announced.filter((one) => one.at_s > now && one.at_s < now + range);
  const pending = power.pending_budget_w;
  if (!known.length && !pending) return [];
  const steps = [[now, power.budget_w]];
  if (pending) steps.push([Math.max(power.pending_deadline_s, now + 1), power.pending_budget_w]);
  for (const one of known) steps.push([one.at_s, one.budget_w]);
  steps.sort((a, b) => a[0] - b[0]);
  const end = Math.max(steps.at(-1)[0] + range * 0.05, now + range * 0.12);
  steps.push([end, steps.at(-1)[1]]);
  return steps;
}

function nowLine(getNow) {
  return (u) => {
    const x = u.valToPos(getNow(), "x", true);
    const { left, top, width, height } = u.bbox;
    if (x < left || x > left + width - 4) return;
    const context = u.ctx;
    context.save();
    context.fillStyle = color("sunk");
    context.fillRect(x, top, left + width - x, height);
    context.restore();
  };
}

export function PowerChart({ history, power, now, range, height = 300 }) {
  const box = useRef(null);
  const plot = useRef(null);
  const at = useRef(now);
  const shown = useRef(null);
  const [theme, setTheme] = useState(0);
  const [cursor, setCursor] = useState(null);
  const width = useWidth(box);
  at.current = now;
  useEffect(() => onTheme(() => setTheme((n) => n + 1)), []);

  useLayoutEffect(() => {
    if (!width) return undefined;
    const density = window.devicePixelRatio || 1;
    const axis = { stroke: color("soft"), font: fontOf(12), ticks: { show: false } };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const options = {
      width,
      height,
      padding: [12, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { y: { range: (_u, _low, high) => [0, (high || 1) * 1.12] } },
      axes: [
        { ...axis, grid: { show: false }, values: (_u, ticks) => ticks.map((t) => clock(t)), space: 64, incrs: [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600] },
        { ...axis, grid: { stroke: color("grid"), width: 1 }, size: 62, space: 44, values: (_u, ticks) => ticks.map((w) => watts(w).replace(".0 ", " ")) },
      ],
      series: [
        {},
        ...[...CAUSES].reverse().map(([cause, label]) => ({
          label, fill: color(cause), stroke: color("card"), width: 0.75 / density, points: { show: false }, spanGaps: false,
        })),
        { label: "measured", stroke: color("measured"), width: 2.25, points: { show: false } },
        { label: "budget", stroke: color("budget"), width: 2.75, points: { show: false }, paths: stepped },
        { label: "announced", stroke: color("budget"), width: 2.25, dash: [7, 5], points: { show: false }, paths: stepped },
      ],
      hooks: {
        drawAxes: [nowLine(() => at.current)],
        setCursor: [(u) => setCursor(u.cursor.idx ?? null)],
      },
    };
    plot.current = new uPlot(options, powerData(history, power, now, range), box.current);
    return () => {
      plot.current.destroy();
      plot.current = null;
    };
  }, [width, theme, height, range]);

  useEffect(() => {
    const data = powerData(history, power, at.current, range);
    shown.current = data;
    if (!plot.current) return;
    plot.current.setData(data, false);
    const end = Math.max(data[0].at(-1) ?? now, now);
    const start = Math.min(Math.max(now - range, history.time[0] ?? now), now - Math.min(range, 120));
    plot.current.batch(() => {
      plot.current.setScale("x", { min: start, max: end });
    });
  });

  const data = shown.current;
  const index = cursor !== null && data && data[0][cursor] !== undefined ? cursor : null;
  return html`<div class="chart">
    <div ref=${box} role="img" aria-label=${sentence(power, history)}></div>
    <div class="readout">${readout(data, index, power, now)}</div>
  </div>`;
}

function sentence(power, history) {
  const highest = Math.max(0, ...history.measured);
  return `Power over time. Budget ${watts(power.budget_w)}, committed ${watts(power.committed_w)}, ` +
    `measured ${watts(power.measured_w)}, highest measured ${watts(highest)}.`;
}

function readout(data, index, power, now) {
  const last = CAUSES.length;
  const picked = (at) => {
    if (data === null || at === null) {
      return { time: "now", measured: power.measured_w, budget: power.budget_w, causes: power.causes };
    }
    const column = (c) => data[c][at];
    const causes = {};
    CAUSES.forEach(([cause], k) => {
      const top = column(last - k);
      const below = k === 0 ? 0 : column(last - k + 1);
      causes[cause] = top === null ? null : top - below;
    });
    const ahead = column(last + 3);
    return { time: moment(data[0][at], now), measured: column(last + 1), budget: column(last + 2) ?? ahead, causes };
  };
  const { time, measured, budget, causes } = picked(index);
  const value = (w) => (w === null || w === undefined ? "-" : watts(w));
  return html`<ul class="keys">
    <li><b>${time}</b></li>
    <li><span class="key stroke budget"></span>budget <b>${value(budget)}</b></li>
    <li><span class="key stroke measured"></span>measured <b>${value(measured)}</b></li>
    ${CAUSES.filter(([cause]) => cause !== "outside" || causes[cause]).map(
      ([cause, label]) => html`<li><span class=${`key ${cause}`}></span>${label} <b>${value(causes[cause])}</b></li>`,
    )}
  </ul>`;
}
