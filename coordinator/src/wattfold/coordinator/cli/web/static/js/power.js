// Power now, power over time, and the alarms.

import { html, useState } from "../vendor/preact-htm.module.js";
import { CAUSES, PowerChart, RANGES, rangeFor } from "./charts.js";
import { clock, count, duration, joules, moment, percent, watts } from "./format.js";
import { Card, Choice, Empty, useTick } from "./parts.js";
import { now, state } from "./store.js";

export function NowCard() {
  const { power } = state;
  const top = Math.max(power.budget_w, power.committed_w, power.pending_budget_w, power.measured_w) * 1.04 || 1;
  const at = (w) => `${Math.min((w / top) * 100, 100)}%`;
  const spare = power.budget_w - power.committed_w;
  const ahead = power.announced[0];
  return html`<${Card} id="now-title" title="Power now" tools=${html`<${EmulatedMark} power=${power} />`}>
    <div class="now">
      <div class="line">
        <p class="big">${watts(power.measured_w)}<small>drawn of a budget of ${watts(power.budget_w)}</small></p>
      </div>
      <div class="gauge" role="img" aria-label=${spoken(power)}>
        <div class="track">
          ${CAUSES.map(([cause, label]) => power.causes[cause] > 0 && html`<div
            key=${cause} class=${`part ${cause}`} title=${`${label}: ${watts(power.causes[cause])}`} style=${{ flex: `0 0 ${at(power.causes[cause])}` }}></div>`)}
        </div>
        <div class=${`mark ${power.budget_w / top > 0.85 ? "edge" : ""}`} style=${{ left: at(power.budget_w) }}><span>budget ${watts(power.budget_w)}</span></div>
        <div class="draw" style=${{ left: at(power.measured_w) }}><span>measured</span></div>
      </div>
      <dl class="figures">
        <${Figure} name="committed" value=${watts(power.committed_w)} />
        <${Figure} name=${spare >= 0 ? "free for raises" : "over the budget"} value=${watts(Math.abs(spare))} />
        <${Figure} name="used of the budget" value=${percent(power.measured_w / (power.budget_w || 1))} />
        ${power.pending_budget_w > 0 && html`<${Figure} name=${`budget falls by ${clock(power.pending_deadline_s, true)}`} value=${watts(power.pending_budget_w)} />`}
        ${ahead && html`<${Figure} name=${`announced from ${moment(ahead.at_s, now())}`} value=${watts(ahead.budget_w)} />`}
        <${Figure} name="energy so far" value=${joules(power.energy_j)} />
        <${Figure} name="policy" value=${power.policy} />
      </dl>
    </div>
  <//>`;
}

function Figure({ name, value }) {
  return html`<div class="figure"><dt>${name}</dt><dd>${value}</dd></div>`;
}

export function EmulatedMark({ power }) {
  if (!power.emulated_nodes) return null;
  const all = power.emulated_nodes >= power.known_nodes;
  return html`<span class="emulated" title="The power of emulated zones is not real.">
    <span aria-hidden="true" class="stripes"></span>${all ? "emulated power" : `${power.emulated_nodes} of ${power.known_nodes} nodes emulated`}</span>`;
}

function spoken(power) {
  const parts = CAUSES.filter(([cause]) => power.causes[cause] > 0).map(([cause, label]) => `${label} ${watts(power.causes[cause])}`);
  return `Committed ${watts(power.committed_w)} of ${watts(power.budget_w)}: ${parts.join(", ")}. Measured ${watts(power.measured_w)}.`;
}

// Seconds until the first announced budget; 0 = none within a day.
function nextAnnounced(power) {
  const first = power.announced.map((one) => one.at_s - state.time).filter((wait) => wait > 0 && wait < 86_000);
  return first.length ? Math.min(...first) : 0;
}

export function HistoryCard() {
  const { history, power } = state;
  const known = history.time.length ? state.time - history.time[0] : 0;
  const [range, setRange] = useState("");
  const chosen = range || rangeFor(Math.max(known, 600, nextAnnounced(power)));
  const note = known < Number(chosen) - 60
    ? `What the nodes may draw, by cause. Recorded since ${moment(history.time[0] ?? state.time, now())}.`
    : "What the nodes may draw, by cause, below the budget.";
  const tools = html`<${EmulatedMark} power=${power} /><${Choice} label="Time shown" options=${RANGES} value=${chosen} onChoose=${setRange} />`;
  return html`<${Card} id="history-title" title="Budget and power" note=${note} tools=${tools}>
    <${PowerChart} history=${history} power=${power} now=${state.time} range=${Number(chosen)} />
    <${Announced} power=${power} />
  <//>`;
}

function Announced({ power }) {
  if (!power.announced.length) return null;
  return html`<details><summary>${count(power.announced.length + power.announced_later, "announced budget")}</summary>
    <div class="over"><table class="plain"><thead><tr><th>From</th><th class="right">Budget</th><th>In</th><th>Note</th></tr></thead>
    <tbody>${power.announced.map((one) => html`<tr key=${one.number}><th scope="row">${moment(one.at_s, now())}</th><td class="right">${watts(one.budget_w)}</td>
      <td>${duration(one.at_s - now())}</td><td>${[one.schedule, one.obstacle].filter(Boolean).join("; ") || "-"}</td></tr>`)}</tbody></table></div></details>`;
}

export function AlarmsCard() {
  useTick(1000);
  const { alarms } = state;
  return html`<${Card} id="alarms-title" title="Alarms" note=${alarms.length ? `${alarms.length} open` : ""}>
    ${alarms.length === 0
      ? html`<p class="calm"><span aria-hidden="true">✓</span> Nothing needs attention.</p>`
      : html`<ul class="alarms">${alarms.map((alarm) => html`<li class=${alarm.level} key=${alarm.title}>
          <div><span class="level">${alarm.level}</span>
          <strong>${alarm.job ? html`<a href=${`#job/${encodeURIComponent(alarm.job)}`}>${alarm.title}</a>` : alarm.title}</strong>
          ${alarm.detail && html`<p>${alarm.detail}</p>`}</div>
          ${alarm.until_s > 0 && html`<div class="countdown" role="timer" aria-live="off">${duration(Math.max(alarm.until_s - now(), 0))}<small>${alarm.until}</small></div>`}
        </li>`)}</ul>`}
  <//>`;
}

export function NoPower() {
  return html`<${Empty}>There is no data yet.<//>`;
}
