// Timeline by core: which job held which cores, with resizes and caps, and the expected ends.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { fontOf, sized, useWidth } from "./charts.js";
import { byName, clock, cpuList, duration, watts } from "./format.js";
import { Card, Choice, Empty } from "./parts.js";
import { EmulatedMark } from "./power.js";
import { now, state } from "./store.js";
import { color, inkOn, jobColor } from "./theme.js";

const HEAD = 26;
const SIDE = 78;
const NODE_GAP = 8;
const SPANS = [["600", "10 min"], ["3600", "1 h"], ["21600", "6 h"]];
const NODES_SHOWN = 24; // On one page of the timeline.

// Runs of neighbouring rows, as [first, count].
export function runsOf(rows) {
  const runs = [];
  for (const row of [...rows].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && last[0] + last[1] === row) last[1] += 1;
    else runs.push([row, 1]);
  }
  return runs;
}

export function layout(nodes, first, budgetHeight) {
  const sorted = [...nodes.values()].sort((a, b) => byName(a.id, b.id));
  const lanes = sorted.slice(first, first + NODES_SHOWN).map((node) => ({ node, cpus: cpuList(node.cpus) }));
  const cores = lanes.reduce((sum, lane) => sum + lane.cpus.length, 0) || 1;
  const core = Math.min(Math.max(Math.floor((budgetHeight - lanes.length * NODE_GAP) / cores), 2), 24);
  let y = HEAD;
  for (const lane of lanes) {
    lane.y = y;
    lane.row = new Map(lane.cpus.map((cpu, i) => [cpu, i]));
    lane.height = Math.max(lane.cpus.length * core, 14);
    y += lane.height + NODE_GAP;
  }
  return { lanes, core, height: y + 4 };
}

export function TimelineCard({ title = "Timeline" }) {
  const box = useRef(null);
  const canvas = useRef(null);
  const boxes = useRef([]);
  const [span, setSpan] = useState("600");
  const [tip, setTip] = useState(null);
  const [start, setStart] = useState(0);
  const width = useWidth(box);
  const segments = [...state.segments.values()];
  const first = Math.min(start, Math.max(state.nodes.size - 1, 0));
  const plan = layout(state.nodes, first, 620);
  const ahead = Number(span) / 2;
  const view = { from: now() - Number(span), to: now() + ahead, width };

  useLayoutEffect(() => {
    if (width > 40) boxes.current = draw(canvas.current, plan, segments, view, tip?.job);
  });
  const point = (event) => {
    const frame = canvas.current.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const hit = boxes.current.findLast((one) => x >= one.x && x <= one.x + one.w && y >= one.y && y <= one.y + one.h);
    setTip(hit ? { job: hit.segment.job, segment: hit.segment, x: Math.min(x + 14, width - 230), y: y + 14 } : null);
  };
  const tools = html`<${EmulatedMark} power=${state.power} />${state.nodes.size > NODES_SHOWN && html`<${Pages} first=${first} shown=${plan.lanes.length} all=${state.nodes.size} onFirst=${setStart} />`}
    <${Choice} label="Time before now" options=${SPANS} value=${span} onChoose=${setSpan} />`;
  const note = "One row a core. Hatched: until the expected end. A notch: the job was resized.";
  return html`<${Card} id="timeline-title" title=${title} note=${note} tools=${tools}>
    <div class="gantt" ref=${box}>
      ${plan.lanes.length === 0 && html`<${Empty}>There is no node yet.<//>`}
      <canvas ref=${canvas} role="img" aria-label=${spoken(segments)} onMouseMove=${point} onMouseLeave=${() => setTip(null)}
        onClick=${() => tip && (location.hash = `#job/${encodeURIComponent(tip.job)}`)}></canvas>
      ${tip && html`<div class="tip" style=${{ left: `${tip.x}px`, top: `${tip.y}px` }}>${tipText(tip.segment)}</div>`}
      <details><summary>Table of the same data</summary><${SegmentTable} segments=${segments} /></details>
    </div>
  <//>`;
}

function Pages({ first, shown, all, onFirst }) {
  return html`<span class="pages"><button class="button" type="button" disabled=${first === 0} aria-label="Earlier nodes" onClick=${() => onFirst(Math.max(first - NODES_SHOWN, 0))}>‹</button>
    nodes ${first + 1} to ${first + shown} of ${all}
    <button class="button" type="button" disabled=${first + shown >= all} aria-label="Later nodes" onClick=${() => onFirst(first + NODES_SHOWN)}>›</button></span>`;
}

function spoken(segments) {
  const open = segments.filter((segment) => !segment.end_s);
  return `Timeline of cores. ${new Set(open.map((segment) => segment.job)).size} jobs hold cores now. A table follows.`;
}

function tipText(segment) {
  const job = state.jobs.get(segment.job);
  const mates = new Set();
  for (const other of state.segments.values()) {
    if (!other.end_s && other.node === segment.node && other.job !== segment.job) mates.add(other.job);
  }
  return html`<b>${segment.job} ${job?.name ?? ""}</b><br />
    ${segment.node}, CPUs ${segment.cpus}${segment.cap_w ? `, cap ${watts(segment.cap_w)}` : ""}<br />
    ${clock(segment.start_s, true)} to ${segment.end_s ? clock(segment.end_s, true) : "now"}
    ${segment.resized ? html`<br />resized at ${clock(segment.start_s, true)}` : ""}
    ${mates.size && !segment.end_s ? html`<br />shares the node with ${[...mates].slice(0, 6).join(", ")}` : ""}
    ${job?.remaining_s && !segment.end_s ? html`<br />expected end in ${duration(job.remaining_s)}` : ""}`;
}

function draw(canvas, plan, segments, view, chosen) {
  const context = sized(canvas, view.width, plan.height);
  const { from, to, width } = view;
  const toX = (time) => SIDE + ((time - from) / (to - from)) * (width - SIDE - 4);
  const [ink, soft, grid, card] = [color("ink"), color("soft"), color("grid"), color("card")];
  const present = toX(now());
  context.fillStyle = color("sunk");
  context.fillRect(present, HEAD, width - present, plan.height - HEAD);
  axis(context, plan, view, toX, soft, grid);
  const lanes = new Map();
  context.textBaseline = "top";
  for (const lane of plan.lanes) {
    lanes.set(lane.node.id, lane);
    context.font = fontOf(12, 600);
    context.textAlign = "left";
    context.fillStyle = ink;
    context.fillText(lane.node.id, 0, lane.y + Math.min(lane.height / 2 - 7, 3), SIDE - 12);
    context.fillStyle = color("sunk");
    context.fillRect(SIDE, lane.y, width - SIDE, lane.height);
    if (lane.cpus.length * plan.core >= 2 * plan.core && plan.core >= 8) {
      context.strokeStyle = grid;
      context.lineWidth = 1;
      for (let i = 1; i < lane.cpus.length; i++) {
        context.beginPath();
        context.moveTo(SIDE, lane.y + i * plan.core + 0.5);
        context.lineTo(width, lane.y + i * plan.core + 0.5);
        context.stroke();
      }
    }
  }
  const boxes = [];
  for (const segment of segments) {
    const lane = lanes.get(segment.node);
    if (!lane) continue;
    const x = Math.max(toX(segment.start_s), SIDE);
    const end = segment.end_s ? Math.min(toX(segment.end_s), present) : present;
    if (end < SIDE) continue;
    const rows = cpuList(segment.cpus).map((cpu) => lane.row.get(cpu)).filter((row) => row !== undefined);
    const fill = jobColor(segment.job);
    runsOf(rows).forEach(([row, count], index) => {
      const y = lane.y + row * plan.core;
      const h = count * plan.core;
      const w = Math.max(end - x, 1.5);
      boxes.push({ segment, x, y, w, h });
      context.globalAlpha = chosen && chosen !== segment.job ? 0.3 : 1;
      context.fillStyle = fill;
      context.fillRect(x, y, w, h - 1);
      if (!segment.end_s) expected(context, segment, toX, x + w, y, h, width, fill);
      if (segment.resized && x > SIDE) notch(context, x, y, h, card, ink);
      if (w > 26 && h >= 11 && index === 0) label(context, segment, x, y, w, h, inkOn(fill));
      context.globalAlpha = 1;
    });
  }
  context.fillStyle = color("budget");
  context.fillRect(present - 1, HEAD - 4, 2, plan.height - HEAD);
  return boxes;
}

function axis(context, plan, view, toX, soft, grid) {
  const wide = view.width < 600 ? 90 : 110;
  const steps = [60, 120, 300, 600, 900, 1800, 3600, 7200];
  const least = ((view.to - view.from) * wide) / (view.width - SIDE);
  const step = steps.find((one) => one >= least) ?? 7200;
  context.font = fontOf(12);
  context.textAlign = "center";
  context.textBaseline = "top";
  for (let time = Math.ceil(view.from / step) * step; time < view.to; time += step) {
    const x = Math.round(toX(time)) + 0.5;
    context.strokeStyle = grid;
    context.beginPath();
    context.moveTo(x, HEAD - 4);
    context.lineTo(x, plan.height);
    context.stroke();
    context.fillStyle = soft;
    if (x > SIDE + 16 && x < view.width - 18) context.fillText(clock(time), x, 4);
  }
}

// From now until the expected end, with hatching.
function expected(context, segment, toX, x, y, h, width, fill) {
  const job = state.jobs.get(segment.job);
  if (!job?.remaining_s) return;
  const end = Math.min(toX(now() + job.remaining_s), width);
  if (end - x < 2) return;
  context.save();
  context.beginPath();
  context.rect(x, y, end - x, h - 1);
  context.clip();
  context.globalAlpha *= 0.22;
  context.fillStyle = fill;
  context.fillRect(x, y, end - x, h);
  context.globalAlpha = Math.min(context.globalAlpha * 3.4, 1);
  context.strokeStyle = fill;
  context.lineWidth = 1.5;
  for (let at = x - h; at < end; at += 7) {
    context.beginPath();
    context.moveTo(at, y + h);
    context.lineTo(at + h, y);
    context.stroke();
  }
  context.restore();
}

function notch(context, x, y, h, card, ink) {
  const size = Math.min(h / 2, 6);
  context.fillStyle = card;
  context.fillRect(x - 1, y, 2, h - 1);
  context.fillStyle = ink;
  context.beginPath();
  context.moveTo(x - size, y);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size * 1.3);
  context.fill();
}

function label(context, segment, x, y, w, h, ink) {
  const job = state.jobs.get(segment.job);
  const cap = segment.cap_w ? ` · ${watts(segment.cap_w)}` : "";
  const name = job?.name ? ` ${job.name}` : "";
  context.save();
  context.beginPath();
  context.rect(x, y, w - 3, h);
  context.clip();
  context.fillStyle = ink;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.font = fontOf(Math.min(12, h - 1), 600);
  const texts = [`${segment.job}${name}${cap}`, `${segment.job}${name}`, segment.job];
  context.fillText(texts.find((text) => context.measureText(text).width <= w - 10) ?? texts[2], x + 6, y + h / 2);
  context.restore();
}

function SegmentTable({ segments }) {
  const open = segments.filter((segment) => !segment.end_s).slice(0, 500);
  return html`<div class="over"><table class="plain"><thead><tr><th>Job</th><th>Node</th><th>CPUs</th><th>Cap</th><th>Since</th></tr></thead>
    <tbody>${open.map((one) => html`<tr key=${one.number}><th scope="row">${one.job}</th><td>${one.node}</td><td>${one.cpus}</td>
      <td>${one.cap_w ? watts(one.cap_w) : "-"}</td><td>${clock(one.start_s, true)}</td></tr>`)}</tbody></table></div>`;
}
