// The page of a job: why it waits or how it runs, its attempts, its profile and its energy.

import { html, useEffect, useRef, useState, useLayoutEffect } from "../vendor/preact-htm.module.js";
import { fontOf, sized } from "./charts.js";
import { duration, joules, moment, part, percent, watts } from "./format.js";
import { Card, Empty, State } from "./parts.js";
import { EmulatedMark } from "./power.js";
import { call, now, state } from "./store.js";
import { color, JOB_COLORS } from "./theme.js";

const REFRESH_MS = 5000;

export function JobPage({ id }) {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    setFound(null);
    setProblem("");
    const load = async () => {
      try {
        setFound(await call(`job/${encodeURIComponent(id)}`, undefined, stop.signal));
        setProblem("");
      } catch (error) {
        if (error.name === "AbortError") return;
        setProblem(error.message);
      }
      timer = setTimeout(load, REFRESH_MS);
    };
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id]);
  const row = state.jobs.get(id);
  if (!row && !found) {
    return html`<${Card} id="job-title" title=${`Job ${id}`}><${Empty}>${problem || "Loading the job."}<//><//>`;
  }
  return html`<${Summary} id=${id} row=${row} found=${found} problem=${problem} />
    ${found && !found.refused && html`<${Explained} found=${found} />`}
    ${found && html`<${Attempts} job=${found.job} />`}
    ${found && html`<${ProfileCard} profiles=${found.profiles} />`}`;
}

function Summary({ id, row, found, problem }) {
  const spec = found?.job.spec ?? {};
  const facts = row ? [
    ["user", row.user || "-"],
    ["application", row.app || "-"],
    ["size", row.size],
    ["submitted", moment(row.submitted_s, now())],
    row.started_s ? ["started", moment(row.started_s, now())] : ["expected start", row.expected_s ? moment(row.expected_s, now()) : "-"],
    row.ended_s ? ["ran for", duration(row.ended_s - (row.started_s || row.ended_s))] : ["remaining", row.remaining_s ? duration(row.remaining_s) : "-"],
    ["time limit", row.limit_s ? duration(row.limit_s) : "none"],
    ["cap per node", row.cap_w ? watts(row.cap_w) : "-"],
    ["energy", joules(row.energy_j)],
    ["resizes", String(row.resizes)],
    ["attempt", String(row.attempt)],
    ["queue", row.queue || "-"],
    ["nodes", row.nodes.join(", ") || "-"],
  ] : [];
  return html`<${Card} id="job-title" title=${`Job ${id} ${row?.name ?? spec.name ?? ""}`}
      note=${row && html`<${State} state=${row.state} />`} tools=${html`<${EmulatedMark} power=${state.power} />`}>
    ${problem && html`<p class="answer bad" role="alert">${problem}</p>`}
    ${found?.refused && html`<p class="answer">${found.refused}</p>`}
    ${row?.done > 0 && html`<div class="gauge" role="img" aria-label=${`${percent(row.done)} done`}><div class="track"><div class="part jobs" style=${{ flex: `0 0 ${part(row.done)}` }}></div></div>
      <div class="draw" style=${{ left: part(row.done) }}><span>${percent(row.done)} done</span></div></div>`}
    <dl class="facts">${facts.map(([name, value]) => html`<div class="figure" key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
  <//>`;
}

function Explained({ found }) {
  return html`<${Card} id="explain-title" title=${found.job.started_at_s ? "How it runs" : "Why it waits"}>
    <p class="lead">${found.summary}</p>
    <ul class="explain">${found.explanation.map((line, i) => html`<li key=${i}>${line}</li>`)}</ul>
  <//>`;
}

function Attempts({ job }) {
  const attempts = job.attempts ?? [];
  if (!attempts.length) return null;
  const energy = (one) => (Number(one.energy_j ?? 0) || Number(one.energy_uj ?? 0) / 1e6);
  return html`<${Card} id="attempts-title" title="Earlier attempts">
    <div class="over"><table class="plain"><thead><tr><th>Attempt</th><th>Started</th><th>Ended</th><th>Nodes</th><th class="right">Energy</th><th>Why it ended</th></tr></thead>
    <tbody>${attempts.map((one) => html`<tr key=${one.number}><th scope="row">${one.number}</th><td>${moment(one.started_at_s, now())}</td><td>${moment(one.ended_at_s, now())}</td>
      <td>${(one.node_ids ?? []).join(", ")}</td><td class="right">${joules(energy(one))}</td><td>${one.why}</td></tr>`)}</tbody></table></div>
  <//>`;
}

// Run time by size, one line a cap: the measured points of the application.
function ProfileCard({ profiles }) {
  const profile = profiles.find((one) => (one.points ?? []).length > 0);
  const box = useRef(null);
  const canvas = useRef(null);
  const width = useWidthOf(box, Boolean(profile));
  const lines = profile ? linesOf(profile) : [];
  useLayoutEffect(() => {
    if (width > 40 && canvas.current) drawProfile(canvas.current, lines, width);
  });
  if (!profile) return null;
  return html`<${Card} id="profile-title" title="Profile of the application" note=${`Run time by size. Source: ${profile.source}.`}>
    <div ref=${box}><canvas ref=${canvas} role="img" aria-label=${`Run times of ${profile.app} at ${lines.length} caps`}></canvas></div>
    <ul class="keys">${lines.map((line, i) => html`<li key=${line.cap}><span class="key stroke" style=${{ background: JOB_COLORS[i % 5] }}></span>${line.cap ? watts(line.cap) : "full power"} <b>${"●■▲◆✚"[i % 5]}</b></li>`)}</ul>
    <details><summary>Table of the same data</summary><div class="over"><table class="plain"><thead><tr><th>Cap</th><th class="right">Size</th><th class="right">Run time</th></tr></thead>
      <tbody>${lines.flatMap((line) => line.points.map(([size, seconds]) => html`<tr><td>${watts(line.cap)}</td><td class="right">${size}</td><td class="right">${duration(seconds)}</td></tr>`))}</tbody></table></div></details>
  <//>`;
}

function useWidthOf(ref, there) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!there || !ref.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [there]);
  return width;
}

export function linesOf(profile) {
  const byCap = new Map();
  for (const point of profile.points) {
    const cap = point.cap_w ?? Number(point.cap_uw ?? 0) / 1e6;
    if (!byCap.has(cap)) byCap.set(cap, []);
    byCap.get(cap).push([point.size, point.seconds]);
  }
  const lines = [...byCap].map(([cap, points]) => ({ cap, points: points.sort((a, b) => a[0] - b[0]) }));
  return lines.sort((a, b) => a.cap - b.cap).slice(0, 5);
}

function drawProfile(canvas, lines, width) {
  const height = 240;
  const context = sized(canvas, width, height);
  const all = lines.flatMap((line) => line.points);
  const most = Math.max(...all.map(([, seconds]) => seconds)) * 1.1 || 1;
  const sizes = [...new Set(all.map(([size]) => size))].sort((a, b) => a - b);
  const toX = (size) => 64 + (sizes.length > 1 ? (sizes.indexOf(size) / (sizes.length - 1)) * (width - 96) : (width - 96) / 2);
  const toY = (seconds) => 12 + (1 - seconds / most) * (height - 48);
  context.font = fontOf(12);
  context.lineWidth = 1;
  context.textBaseline = "middle";
  for (let i = 0; i <= 4; i++) {
    const y = toY((most * i) / 4);
    context.strokeStyle = color("grid");
    context.beginPath();
    context.moveTo(60, y);
    context.lineTo(width, y);
    context.stroke();
    context.fillStyle = color("soft");
    context.textAlign = "right";
    context.fillText(duration((most * i) / 4), 54, y);
  }
  context.textAlign = "center";
  for (const size of sizes) context.fillText(String(size), toX(size), height - 16);
  lines.forEach((line, i) => {
    context.strokeStyle = context.fillStyle = JOB_COLORS[i % 5];
    context.lineWidth = 2.5;
    context.beginPath();
    line.points.forEach(([size, seconds], at) => (at ? context.lineTo(toX(size), toY(seconds)) : context.moveTo(toX(size), toY(seconds))));
    context.stroke();
    context.font = fontOf(14);
    for (const [size, seconds] of line.points) context.fillText("●■▲◆✚"[i % 5], toX(size), toY(seconds));
  });
}
