// Heat map of the nodes: one cell a node, drawn on a canvas, with keys and a table of the same data.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { fontOf, sized, useWidth } from "./charts.js";
import { byName, duration, part, watts } from "./format.js";
import { Choice } from "./parts.js";
import { color, inkOnScale, scaleColor, scaleSteps } from "./theme.js";

const GAP = 3;
// Why a node may draw what it may draw: a colour, a letter and words.
export const WHY = {
  jobs: ["#56B4E9", "J", "runs jobs", "#10161b"],
  idle: ["#009E73", "I", "idle, caps at the floor", "#ffffff"],
  closed: ["#F0E442", "C", "starts no jobs", "#10161b"],
  operator: ["#CC79A7", "O", "out of service by an operator", "#10161b"],
  silent: ["#D55E00", "S", "silent: charged until its lease ends", "#ffffff"],
  down: ["#5b3a29", "D", "down: its lease has ended", "#ffffff"],
  other: ["#9aa7b2", "?", "another state", "#10161b"],
};
const whyOf = (node) => WHY[node.cause] ?? WHY.other;
export const isAlarm = (node) => ["silent", "down", "refused"].includes(node.state);

function shareOf(node, mode) {
  const max = node.max_w || node.committed_w || 1;
  return Math.min((mode === "may" ? node.committed_w : node.measured_w) / max, 1);
}

export function gridOf(count, width) {
  let size = Math.floor(Math.sqrt((width * 340) / Math.max(count, 1))) - GAP;
  size = Math.min(Math.max(size, 16), 84);
  const columns = Math.max(Math.floor((width + GAP) / (size + GAP)), 1);
  const wide = Math.min(Math.floor((width + GAP) / Math.min(columns, count || 1)) - GAP, 240);
  return { columns, size, wide, rows: Math.ceil(count / columns) };
}

export function sortedNodes(nodes) {
  return [...nodes.values()].sort((a, b) => byName(a.id, b.id));
}

export function HeatMap({ nodes, now, onJob }) {
  const box = useRef(null);
  const canvas = useRef(null);
  const [mode, setMode] = useState("draws");
  const [asTable, setAsTable] = useState(false);
  const [chosen, setChosen] = useState(null);
  const width = useWidth(box);
  const list = sortedNodes(nodes);
  const grid = gridOf(list.length, width || 300);
  const index = Math.max(list.findIndex((node) => node.id === chosen), 0);

  useLayoutEffect(() => {
    if (width && canvas.current && !asTable) draw(canvas.current, list, grid, mode, chosen);
  });

  const nodeAt = (event) => {
    const { left, top } = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - left) / (grid.wide + GAP));
    const row = Math.floor((event.clientY - top) / (grid.size + GAP));
    return column < grid.columns ? list[row * grid.columns + column] : undefined;
  };
  const keys = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.min(Math.max(chosen === null ? 0 : index + step, 0), list.length - 1);
    setChosen(list[next]?.id ?? null);
  };
  const node = chosen === null ? null : nodes.get(chosen);
  const modes = [["draws", "draws"], ["may", "may draw"], ["why", "why"]];
  return html`<div class="heat" ref=${box}>
    <div class="tools">
      <${Choice} label="Colour of a node" options=${modes} value=${mode} onChoose=${setMode} />
      <${Choice} label="Form" options=${[[false, "map"], [true, "table"]]} value=${asTable} onChoose=${setAsTable} />
    </div>
    <div class="scroll">
      ${asTable
        ? html`<${NodeTable} list=${list} now=${now} />`
        : html`<canvas ref=${canvas} tabindex="0" role="application" aria-label=${`Map of ${list.length} nodes. Arrow keys choose a node.`}
            aria-describedby="node-about" onKeyDown=${keys}
            onMouseMove=${(event) => setChosen(nodeAt(event)?.id ?? chosen)} onClick=${(event) => setChosen(nodeAt(event)?.id ?? chosen)}></canvas>`}
    </div>
    ${!asTable && html`<${Scale} mode=${mode} list=${list} />`}
    ${!asTable && html`<div class="about" id="node-about" aria-live="polite">${node ? about(node, now, onJob) : overview(list)}</div>`}
  </div>`;
}

function draw(canvas, list, grid, mode, chosen) {
  const { columns, size, wide, rows } = grid;
  const context = sized(canvas, columns * (wide + GAP) - GAP, Math.max(rows * (size + GAP) - GAP, size));
  const named = wide >= 54 && size >= 40;
  const outline = color("cell");
  const ink = color("ink");
  const card = color("card");
  list.forEach((node, i) => {
    const x = (i % columns) * (wide + GAP);
    const y = Math.floor(i / columns) * (size + GAP);
    const share = shareOf(node, mode);
    const why = whyOf(node);
    context.fillStyle = mode === "why" ? why[0] : scaleColor(share);
    context.fillRect(x, y, wide, size);
    context.strokeStyle = outline;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, wide - 1, size - 1);
    const text = mode === "why" ? why[3] : inkOnScale(share);
    if (node.emulated) stripes(context, x, y, wide, size, text);
    if (named) {
      context.fillStyle = text;
      context.font = fontOf(12, 600);
      context.textAlign = "left";
      context.textBaseline = "top";
      context.fillText(node.id, x + 7, y + 6, wide - 14);
      context.font = fontOf(12);
      const value = mode === "why" ? node.cause : watts(mode === "may" ? node.committed_w : node.measured_w);
      context.fillText(value, x + 7, y + 22, wide - 14);
    } else if (mode === "why" && size >= 14) {
      context.fillStyle = text;
      context.font = fontOf(Math.min(size - 5, 13), 700);
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(why[1], x + wide / 2, y + size / 2 + 0.5);
    }
    if (isAlarm(node)) alarmMark(context, x, y, wide, size, named);
    if (node.id === chosen) {
      context.strokeStyle = card;
      context.lineWidth = 5;
      context.strokeRect(x + 1, y + 1, wide - 2, size - 2);
      context.strokeStyle = ink;
      context.lineWidth = 2.5;
      context.strokeRect(x + 1, y + 1, wide - 2, size - 2);
    }
  });
}

// Two lines in a corner: the power of this node is emulated.
function stripes(context, x, y, wide, size, ink) {
  const long = Math.min(size * 0.34, 13);
  context.save();
  context.beginPath();
  context.rect(x + 1, y + 1, wide - 2, size - 2);
  context.clip();
  context.strokeStyle = ink;
  context.globalAlpha = 0.55;
  context.lineWidth = Math.max(long / 9, 1);
  for (const part of [0.5, 1]) {
    context.beginPath();
    context.moveTo(x + wide - long * part, y + size);
    context.lineTo(x + wide, y + size - long * part);
    context.stroke();
  }
  context.restore();
}

// A double ring and a cross: visible on every colour of the scale.
function alarmMark(context, x, y, wide, size, named) {
  for (const [ink, width, inset] of [["#000000", 4.5, 2], ["#ffffff", 2, 2]]) {
    context.strokeStyle = ink;
    context.lineWidth = width;
    context.strokeRect(x + inset, y + inset, wide - 2 * inset, size - 2 * inset);
    const half = Math.min(size, wide) * (named ? 0.11 : 0.2);
    const [cx, cy] = named ? [x + wide - half - 9, y + half + 9] : [x + wide / 2, y + size / 2];
    context.beginPath();
    context.moveTo(cx - half, cy - half);
    context.lineTo(cx + half, cy + half);
    context.moveTo(cx + half, cy - half);
    context.lineTo(cx - half, cy + half);
    context.stroke();
  }
}

function Scale({ mode, list }) {
  const emulated = list.some((node) => node.emulated);
  const alarms = list.some(isAlarm);
  const marks = html`${emulated && html`<span><span class="stripes"></span> corner: emulated power</span>`}
    ${alarms && html`<span>⊠ does not answer</span>`}`;
  if (mode === "why") {
    const causes = Object.keys(WHY).filter((cause) => list.some((node) => whyOf(node) === WHY[cause]));
    return html`<div class="scale">
      ${causes.map((cause) => html`<span><span class="key" style=${{ background: WHY[cause][0] }}></span><b>${WHY[cause][1]}</b> ${WHY[cause][2]}</span>`)} ${marks}
    </div>`;
  }
  return html`<div class="scale">
    <span>0</span>
    <span class="steps" aria-hidden="true">${scaleSteps().map((step) => html`<i style=${{ background: step }}></i>`)}</span>
    <span>maximum of the node</span> ${marks}
  </div>`;
}

function overview(list) {
  const draws = list.reduce((sum, node) => sum + node.measured_w, 0);
  const may = list.reduce((sum, node) => sum + node.committed_w, 0);
  const busy = list.filter((node) => node.jobs.length).length;
  return html`<h3>${list.length} nodes</h3>
    <p>They draw ${watts(draws)} and may draw ${watts(may)}. ${busy} of them run jobs. Point at a node, or press an arrow key in the map.</p>`;
}

function about(node, now, onJob) {
  const max = node.max_w || node.committed_w || 1;
  const lease = node.lease_ends_s > now ? ` Its lease ends in ${duration(node.lease_ends_s - now)}.` : "";
  return html`<h3>${node.id} <span class="note">${node.status}</span>
      ${node.emulated && html`<span class="emulated"><span class="stripes" aria-hidden="true"></span>emulated power</span>`}</h3>
    <div class="watts" aria-hidden="true">
      <i class="may" style=${{ width: part(node.committed_w / max) }}></i>
      <i class="draws" style=${{ width: part(node.measured_w / max) }}></i>
    </div>
    <p>Draws ${node.measured ? watts(node.measured_w) : "an unknown power"}, may draw ${watts(node.committed_w)} of ${watts(max)}: ${whyOf(node)[2]}.${lease}
      ${node.jobs.length > 0 && html` Jobs: ${node.jobs.slice(0, 12).map((job, i) => html`${i ? ", " : ""}<a href=${`#job/${encodeURIComponent(job)}`} onClick=${onJob}>${job}</a>`)}.`}</p>
    ${node.why && html`<p>${node.why}</p>`}`;
}

function NodeTable({ list, now }) {
  return html`<div class="over"><table class="plain">
    <caption class="hidden">Nodes with their power</caption>
    <thead><tr><th>Node</th><th>State</th><th class="right">Draws</th><th class="right">May draw</th><th class="right">Maximum</th><th>Why</th><th>Jobs</th></tr></thead>
    <tbody>${list.slice(0, 2000).map((node) => html`<tr key=${node.id}>
      <th scope="row">${node.id}${node.emulated && html` <span class="stripes" role="img" aria-label="emulated power"></span>`}</th>
      <td>${node.status}</td><td class="right">${watts(node.measured_w)}</td><td class="right">${watts(node.committed_w)}</td>
      <td class="right">${watts(node.max_w)}</td>
      <td>${node.why || whyOf(node)[2]}${node.lease_ends_s > now ? `, lease ends in ${duration(node.lease_ends_s - now)}` : ""}</td>
      <td>${node.jobs.join(", ")}</td>
    </tr>`)}</tbody>
  </table></div>`;
}
