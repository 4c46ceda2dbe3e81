// What another budget would do, and the control of the budget for those who may change it.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { duration, moment, watts } from "./format.js";
import { Card, Empty } from "./parts.js";
import { EmulatedMark } from "./power.js";
import { call, now, state } from "./store.js";

const SETTLE_MS = 700; // The slider rests for this time before a simulation starts.

export function limitsOf(power, nodes) {
  const max = [...nodes.values()].reduce((sum, node) => sum + node.max_w, 0);
  return [Math.ceil(power.floor_w), Math.ceil(Math.max(max, power.budget_w, power.floor_w + 1))];
}

export function WhatIfCard() {
  const [low, high] = limitsOf(state.power, state.nodes);
  const [value, setValue] = useState(null);
  const [answer, setAnswer] = useState(null);
  const [phase, setPhase] = useState("");
  const running = useRef(null);
  const timer = useRef(0);
  const budget = Math.min(Math.max(value ?? Math.round(state.power.budget_w), low), high);
  useEffect(() => () => {
    clearTimeout(timer.current);
    running.current?.abort();
  }, []);

  const simulate = async (budgetW) => {
    running.current?.abort();
    const stop = (running.current = new AbortController());
    setPhase("simulating");
    try {
      const found = await call(`what-if?budget_w=${budgetW}`, undefined, stop.signal);
      if (stop.signal.aborted) return;
      setAnswer(found);
      setPhase("");
    } catch (error) {
      if (error.name !== "AbortError") setPhase(error.message);
    }
  };
  const move = (event) => {
    const next = Number(event.target.value);
    setValue(next);
    setPhase("waiting");
    running.current?.abort();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => simulate(next), SETTLE_MS);
  };
  const busy = phase === "waiting" || phase === "simulating";
  return html`<${Card} id="what-if-title" title="What if the budget were" note="Simulates the queue from its state now. Nothing changes at the site." tools=${html`<${EmulatedMark} power=${state.power} />`}>
    <div class="slider">
      <output for="what-if">${watts(budget)}</output>
      <input id="what-if" type="range" min=${low} max=${high} step="1" value=${budget} onInput=${move}
        aria-labelledby="what-if-title" aria-valuetext=${watts(budget)} />
      <div class="ends"><span>${watts(low)}, the floors</span><span>now ${watts(state.power.budget_w)}</span><span>${watts(high)}, all nodes at full power</span></div>
    </div>
    <div aria-live="polite">
      ${busy && html`<p class="empty">${phase === "waiting" ? "…" : "Simulating both budgets…"}</p>`}
      ${!busy && phase && html`<p class="answer bad">${phase}</p>`}
      ${!busy && !phase && !answer && html`<${Empty}>Move the slider to compare.<//>`}
      ${answer && !busy && !phase && html`<${Comparison} answer=${answer} />`}
    </div>
  <//>`;
}

function Comparison({ answer }) {
  const [before, after] = [answer.as_it_is, answer.with_the_change];
  const pairs = [
    ["all jobs end after", before.makespan_s, after.makespan_s, duration],
    ["mean wait", before.mean_wait_s, after.mean_wait_s, duration],
    ["energy", before.energy_kwh, after.energy_kwh, (kwh) => (kwh < 10 ? `${(kwh * 1000).toFixed(0)} Wh` : `${kwh.toFixed(1)} kWh`)],
  ].filter(([, a, b]) => Number.isFinite(a) && Number.isFinite(b));
  const moved = later(answer.jobs ?? []);
  return html`<div class="compare">
    ${pairs.map(([name, a, b, text]) => {
      const most = Math.max(a, b) || 1;
      const bar = (x) => ({ width: `${(x / most) * 55}%` });
      return html`<div class="pair" key=${name}><b>${name}</b>
        <div class="value"><i style=${bar(a)}></i>${text(a)} <span class="note">at ${watts(before.budget_w)}</span></div>
        <div class="value then"><i style=${bar(b)}></i><b>${text(b)}</b> <span class="note">at ${watts(after.budget_w)}</span></div></div>`;
    })}
    ${after.never_start > before.never_start && html`<p class="answer bad">${after.never_start - before.never_start} more jobs would never start.</p>`}
    ${moved.length > 0 && html`<details open><summary>Starts that move most</summary><div class="over"><table class="plain"><thead><tr><th>Job</th><th>Name</th><th>Start now</th><th>Start then</th><th class="right">Difference</th></tr></thead>
      <tbody>${moved.map(([job, by]) => html`<tr key=${job.job_id}><th scope="row"><a href=${`#job/${encodeURIComponent(job.job_id)}`}>${job.job_id}</a></th><td>${state.jobs.get(job.job_id)?.name ?? ""}</td>
        <td>${moment(job.as_it_is.start_s, now())}</td><td>${moment(job.with_the_change.start_s, now())}</td>
        <td class="right">${by > 0 ? `${duration(by)} later` : `${duration(-by)} earlier`}</td></tr>`)}</tbody></table></div></details>`}
  </div>`;
}

export function later(jobs) {
  return jobs
    .filter((job) => job.waits && job.as_it_is?.start_s && job.with_the_change?.start_s)
    .map((job) => [job, job.with_the_change.start_s - job.as_it_is.start_s])
    .filter(([, by]) => Math.abs(by) >= 1)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
    .slice(0, 8);
}

export function ControlCard() {
  const [watt, setWatt] = useState("");
  const [at, setAt] = useState("");
  const [preview, setPreview] = useState(null);
  const [done, setDone] = useState(null);
  const [busy, setBusy] = useState(false);
  const budgetW = Number(watt);
  const change = (set) => (event) => {
    set(event.target.value);
    setPreview(null);
    setDone(null);
  };
  const run = async (work) => {
    setBusy(true);
    setDone(null);
    try {
      await work();
    } catch (error) {
      setDone({ bad: true, text: error.message });
    }
    setBusy(false);
  };
  const soon = () => (at ? new Date(at).getTime() / 1000 : now() + 5);
  const look = (event) => {
    event.preventDefault();
    run(async () => setPreview({ at, watt, ...(await call("budget/preview", { budget_w: budgetW, at_s: soon() })) }));
  };
  const act = () => run(async () => {
    if (at) await call("budget/announce", { budget_w: budgetW, at_s: soon() });
    else await call("budget/set", { budget_w: budgetW });
    setPreview(null);
    setDone({ text: at ? `${watts(budgetW)} is announced from ${moment(soon(), now())}.` : `The budget is now ${watts(budgetW)}, or falls to it by its deadline.` });
  });
  const cancel = (number) => run(async () => {
    await call("budget/cancel", { number });
    setDone({ text: `Announced budget ${number} is cancelled.` });
  });
  const possible = preview && !preview.refused && preview.at === at && preview.watt === watt;
  return html`<${Card} id="control-title" title="Change the budget" note=${`As ${state.about.account}. The coordinator checks and records each change.`}>
    <form class="form" onSubmit=${look}>
      <label>Budget in watts<input type="number" inputmode="decimal" min="1" step="any" required value=${watt} onInput=${change(setWatt)} /></label>
      <label>From (empty = now)<input type="datetime-local" value=${at} onInput=${change(setAt)} /></label>
      <div class="actions">
        <button class="button" type="submit" disabled=${busy || !(budgetW > 0)}>Preview</button>
        <button class="button main" type="button" disabled=${busy || !possible} onClick=${act}>${at ? "Announce" : "Set"} the budget</button>
      </div>
    </form>
    <div aria-live="polite" style="margin-top:0.9rem">
      ${preview && html`<p class=${`answer ${preview.refused ? "bad" : ""}`}>${preview.refused || consequence(budgetW)} The nodes need at least ${watts(preview.minimum_w)}.</p>`}
      ${done && html`<p class=${`answer ${done.bad ? "bad" : ""}`}>${done.text}</p>`}
    </div>
    ${state.power.announced.length > 0 && html`<h3 style="margin-top:1.2rem">Announced</h3><div class="over"><table class="plain"><tbody>${state.power.announced.map((one) => html`<tr key=${one.number}>
      <th scope="row">${moment(one.at_s, now())}</th><td class="right">${watts(one.budget_w)}</td><td>${one.schedule || ""}</td>
      <td class="right"><button class="button" type="button" disabled=${busy} onClick=${() => cancel(one.number)} aria-label=${`Cancel the budget of ${moment(one.at_s, now())}`}>Cancel</button></td></tr>`)}</tbody></table></div>`}
  <//>`;
}

function consequence(budgetW) {
  const { committed_w: committed } = state.power;
  const below = committed - budgetW;
  if (below > 0) return `Possible. Caps must fall by ${watts(below)} in total, from ${watts(committed)}.`;
  return `Possible. ${watts(-below)} more than is committed now.`;
}

// Times of a call as a clock shows them.
const valuesOf = (detail) =>
  (detail ?? "").replace(/\bat_s=(\d+(?:\.\d+)?)/g, (_all, at) => `from ${moment(Number(at), now())}`).replace(/budget_w=([\d.]+)/g, (_all, w) => watts(Number(w)));

export function AuditCard() {
  const [entries, setEntries] = useState(null);
  const [problem, setProblem] = useState("");
  const { budget_w: budget, announced } = state.power;
  const stamp = `${budget} ${announced.map((one) => one.number).join(" ")}`;
  useEffect(() => {
    const stop = new AbortController();
    call("audit", undefined, stop.signal).then(
      (found) => setEntries(found.entries),
      (error) => error.name !== "AbortError" && setProblem(error.message),
    );
    return () => stop.abort();
  }, [stamp]);
  return html`<${Card} id="audit-title" title="Changes of the budget" note="From the audit log: who, when and with which answer.">
    ${problem && html`<p class="answer bad">${problem}</p>`}
    ${entries && !entries.length && html`<${Empty}>No change is recorded.<//>`}
    ${entries && entries.length > 0 && html`<div class="over"><table class="plain"><thead><tr><th>Time</th><th>Account</th><th>Call</th><th>Values</th><th>Answer</th></tr></thead>
      <tbody>${entries.slice(0, 30).map((one, i) => html`<tr key=${i}><td>${moment(one.time_s, now())}</td><td>${one.account}</td><td>${one.action}</td><td>${valuesOf(one.detail)}</td>
        <td>${one.outcome}${one.message ? `: ${one.message}` : ""}</td></tr>`)}</tbody></table></div>`}
  <//>`;
}
