// The table of jobs: the queue with reasons and expected starts, and jobs that run or have ended.

import { html, useMemo, useState } from "../vendor/preact-htm.module.js";
import { byName, duration, joules, moment, number, part, percent, watts } from "./format.js";
import { Card, Choice, Empty, stateMark } from "./parts.js";
import { now, state } from "./store.js";
import { Table } from "./table.js";

const WAITING = new Set(["pending", "held"]);
const ENDED = new Set(["completed", "failed", "cancelled", "lost", "timed-out"]);
export const groupOf = (job) => (WAITING.has(job.state) ? "waiting" : ENDED.has(job.state) ? "ended" : "running");

let counted = { version: -1 };

export function counts() {
  if (counted.version !== state.jobsVersion) {
    counted = { version: state.jobsVersion, waiting: 0, running: 0, ended: 0 };
    for (const job of state.jobs.values()) counted[groupOf(job)] += 1;
  }
  return counted;
}

function mark(job) {
  const span = document.createElement("span");
  span.className = `state ${job.state}`;
  span.textContent = `${stateMark(job.state)} ${job.state}`;
  return [span];
}

function meter(job) {
  if (!job.done) return job.remaining_s ? duration(job.remaining_s) : "-";
  const bar = document.createElement("span");
  bar.className = "meter";
  const filled = document.createElement("i");
  filled.style.width = part(job.done);
  bar.append(filled);
  return [bar, document.createTextNode(job.remaining_s ? duration(job.remaining_s) : percent(job.done))];
}

const started = (job) => {
  if (!job.expected_s) return "-";
  const wait = job.expected_s - now();
  const text = wait > 0 ? `${moment(job.expected_s, now())} (in ${duration(wait)})` : "due now";
  return job.promised ? `${text}, promised` : text;
};

const ID = { key: "id", title: "Job", width: "4.5rem", least: 68, cell: (job) => job.id, sort: (job) => job.id };
const NAME = { key: "name", title: "Name", width: "minmax(8rem, 1.2fr)", least: 128, cell: (job) => job.name || job.app || "-", sort: (job) => job.name };
const USER = { key: "user", title: "User", width: "minmax(5rem, 0.6fr)", least: 80, cell: (job) => job.user || "-", sort: (job) => job.user };
const SIZE = { key: "size", title: "Size", width: "6.5rem", least: 104, cell: (job) => job.size, sort: (job) => job.size };
const STATE = { key: "state", title: "State", width: "7.5rem", least: 112, cell: mark, sort: (job) => job.state };

const COLUMNS = {
  waiting: [
    ID, NAME, USER, SIZE, STATE,
    { key: "waited", title: "Waits for", width: "7.5rem", least: 112, right: true, cell: (job) => duration(now() - job.submitted_s), sort: (job) => -job.submitted_s },
    { key: "expected", title: "Expected start", width: "minmax(11rem, 0.9fr)", least: 176, cell: started, sort: (job) => job.expected_s || Infinity },
    { key: "priority", title: "Priority", width: "5.5rem", least: 88, right: true, cell: (job) => String(job.priority || 1), sort: (job) => -job.priority },
    { key: "reason", title: "Why it waits", width: "minmax(14rem, 2fr)", least: 224, cell: (job) => job.reason || "-", sort: (job) => job.reason },
  ],
  running: [
    ID, NAME, USER, SIZE, STATE,
    { key: "remaining", title: "Remaining", width: "10rem", least: 160, cell: meter, sort: (job) => job.remaining_s || Infinity },
    { key: "cap", title: "Cap", width: "6rem", least: 96, right: true, cell: (job) => (job.cap_w ? watts(job.cap_w) : "-"), sort: (job) => -job.cap_w },
    { key: "energy", title: "Energy", width: "6.5rem", least: 104, right: true, cell: (job) => joules(job.energy_j), sort: (job) => -job.energy_j },
    { key: "nodes", title: "Nodes", width: "minmax(9rem, 1.2fr)", least: 144, cell: (job) => job.nodes.join(", "), sort: (job) => job.nodes[0] ?? "" },
    { key: "resizes", title: "Resizes", width: "5.5rem", least: 84, right: true, cell: (job) => String(job.resizes), sort: (job) => -job.resizes },
  ],
  ended: [
    ID, NAME, USER, STATE,
    { key: "ended", title: "Ended", width: "7rem", least: 112, cell: (job) => moment(job.ended_s, now()), sort: (job) => -job.ended_s },
    { key: "ran", title: "Ran for", width: "7.5rem", least: 112, right: true, cell: (job) => (job.started_s ? duration(job.ended_s - job.started_s) : "-"), sort: (job) => job.started_s - job.ended_s },
    { key: "energy", title: "Energy", width: "6.5rem", least: 104, right: true, cell: (job) => joules(job.energy_j), sort: (job) => -job.energy_j },
    { key: "message", title: "How it ended", width: "minmax(12rem, 2fr)", least: 192, cell: (job) => job.message || "-", sort: (job) => job.message },
  ],
};
// Columns of the overview.
const BRIEF_KEYS = {
  waiting: ["id", "name", "size", "expected", "reason"],
  running: ["id", "name", "size", "remaining", "cap"],
  ended: ["id", "name", "state", "ended", "energy"],
};
const BRIEF = Object.fromEntries(
  Object.entries(BRIEF_KEYS).map(([group, keys]) => [group, COLUMNS[group].filter((column) => keys.includes(column.key))]),
);
// The coordinator's order of the queue is that of the expected starts, then of the IDs.
const FIRST_ORDER = { waiting: { key: "expected", down: false }, running: { key: "id", down: false }, ended: { key: "ended", down: false } };

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a - b;
  return byName(String(a), String(b));
}

export function sorted(jobs, column, down) {
  const keyed = jobs.map((job) => [column.sort(job), job]);
  keyed.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]) || byName(a[1].id, b[1].id));
  return keyed.map(([, job]) => job);
}

export function matches(job, words) {
  const text = `${job.id} ${job.name} ${job.app} ${job.user} ${job.state} ${job.reason} ${job.queue}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export function JobsCard({ group, onGroup, height, brief = false }) {
  const [search, setSearch] = useState("");
  const [orders, setOrders] = useState(FIRST_ORDER);
  const order = orders[group];
  const columns = brief ? BRIEF[group] : COLUMNS[group];
  const found = counts();
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = useMemo(() => {
    const jobs = [...state.jobs.values()].filter((job) => groupOf(job) === group && matches(job, words));
    return sorted(jobs, columns.find((column) => column.key === order.key) ?? columns[0], order.down);
  }, [state.jobsVersion, columns, search, order.key, order.down]);
  const tools = html`
    <input class="search" type="search" aria-label="Search jobs" placeholder="Search" value=${search} onInput=${(event) => setSearch(event.target.value)} />
    <${Choice} label="Jobs to show" value=${group} onChoose=${onGroup} options=${[
      ["waiting", `waiting ${number(found.waiting)}`],
      ["running", `running ${number(found.running)}`],
      ["ended", `ended ${number(found.ended)}`],
    ]} />`;
  return html`<${Card} id="jobs-title" title="Jobs" tools=${tools}>
    ${rows.length
      ? html`<${Table}
          key=${group} label="Jobs" columns=${columns} rows=${rows} order=${order} height=${`min(${height}, ${rows.length * 36 + 14}px)`}
          keyOf=${(job) => job.id} classOf=${(job) => (job.access === "other" ? "other" : "")}
          onOrder=${(next) => setOrders({ ...orders, [group]: next })}
          onOpen=${(job) => { location.hash = `#job/${encodeURIComponent(job.id)}`; }}
        />`
      : html`<${Empty}>${search ? "No job matches the search." : { waiting: "No job waits.", running: "No job runs.", ended: "No job has ended since this server started." }[group]}<//>`}
  <//>`;
}
