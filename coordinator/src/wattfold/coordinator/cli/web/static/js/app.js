// The page: its head, its pages by the fragment of the address, and the state of the connection.

import { html, render, useEffect, useState } from "../vendor/preact-htm.module.js";
import { AuditCard, ControlCard, WhatIfCard } from "./budget.js";
import { watts } from "./format.js";
import { TimelineCard } from "./gantt.js";
import { HeatMap } from "./heatmap.js";
import { JobPage } from "./job.js";
import { counts, JobsCard } from "./jobs.js";
import { Card, useSnapshots } from "./parts.js";
import { AlarmsCard, EmulatedMark, HistoryCard, NowCard } from "./power.js";
import { now, start, state } from "./store.js";
import { setTheme, theme } from "./theme.js";

const PAGES = [["", "Overview"], ["nodes", "Nodes"], ["jobs", "Jobs"], ["timeline", "Timeline"], ["budget", "Budget"]];
const THEMES = { auto: "light", light: "dark", dark: "auto" };

const route = () => {
  const [page, id = ""] = location.hash.replace(/^#/, "").split("/");
  return { page, id: decodeURIComponent(id) };
};

function useRoute() {
  const [found, setFound] = useState(route());
  useEffect(() => {
    const changed = () => {
      setFound(route());
      window.scrollTo(0, 0);
    };
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return found;
}

const heading = (page, id) => (page === "job" ? `Job ${id}` : (PAGES.find(([key]) => key === page) ?? PAGES[0])[1]);

function NodesCard() {
  return html`<${Card} id="nodes-title" title="Nodes" note="One cell a node." tools=${html`<${EmulatedMark} power=${state.power} />`}>
    <${HeatMap} nodes=${state.nodes} now=${now()} />
  <//>`;
}

function Page({ page, id, group, setGroup }) {
  const jobs = (height, brief) => html`<${JobsCard} key=${brief} group=${group} onGroup=${setGroup} height=${height} brief=${brief} />`;
  if (page === "nodes") return html`<${NodesCard} /><${AlarmsCard} />`;
  if (page === "jobs") return jobs("72vh", false);
  if (page === "job") return html`<${JobPage} id=${id} key=${id} />`;
  if (page === "timeline") return html`<${TimelineCard} />`;
  if (page === "budget") {
    return html`<div class="half"><${WhatIfCard} /></div>
      ${state.about.control
        ? html`<div class="half"><${ControlCard} /></div><${AuditCard} />`
        : html`<div class="half"><${Card} id="control-title" title="Change the budget"><p class="empty">This dashboard only shows. Start it with <code>wattfold web --control</code>, or use <code>wattfold budget</code>.</p><//></div>`}
      <${HistoryCard} />`;
  }
  return html`<div class="two-thirds"><${NowCard} /></div><div class="third"><${AlarmsCard} /></div>
    <${HistoryCard} />
    <div class="half"><${NodesCard} /></div><div class="half">${jobs("26rem", true)}</div>`;
}

function App() {
  useSnapshots();
  const { page, id } = useRoute();
  const [group, setGroup] = useState("waiting");
  const [, again] = useState(0);
  const current = page === "job" ? "jobs" : page;
  useEffect(() => {
    document.title = state.power ? `${watts(state.power.measured_w)} of ${watts(state.power.budget_w)} · ${heading(page, id)} · Wattfold` : "Wattfold";
  });
  if (state.phase === "refused") {
    return html`<main id="main"><div class="center"><h1>No session</h1><p>${state.problem}</p>
      <p>Press Enter in the terminal of <code>wattfold web</code> and open the new link.</p></div></main>`;
  }
  const found = counts();
  const badges = { jobs: found.waiting + found.running, nodes: state.nodes.size };
  const urgent = state.alarms.filter((alarm) => alarm.level === "alarm").length;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <header class="head"><div>
      <a class="brand" href="#" aria-label="Wattfold, overview"><img src="icon.svg" alt="" width="28" height="28" /><span>Wattfold</span></a>
      <nav aria-label="Pages">${PAGES.map(([key, name]) => html`<a key=${key} href=${`#${key}`} aria-current=${current === key ? "page" : undefined}>
        ${name}${badges[key] ? html`<span class="badge">${badges[key].toLocaleString("en")}</span>` : ""}${key === "" && urgent ? html`<span class="badge" aria-label=${`${urgent} alarms`}>! ${urgent}</span>` : ""}</a>`)}</nav>
      <div class="status">
        <span role="status"><span class=${`dot ${state.phase}`} aria-hidden="true"></span>${state.phase}</span>
        ${state.about.account && html`<span class="who">as ${state.about.account}${state.about.control ? ", with control" : ", read only"}</span>`}
        <button class="theme" type="button" onClick=${() => { setTheme(THEMES[theme()]); again((n) => n + 1); }} aria-label=${`Theme: ${theme()}. Change it.`}>${{ auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme()]}</button>
      </div>
    </div></header>
    ${state.phase === "lost" && html`<div class="bar lost" role="alert">No new data: ${state.problem}. The page shows the state of ${state.time ? new Date(state.time * 1000).toLocaleTimeString("en-GB") : "before"}.</div>`}
    <main id="main" tabindex="-1"><h1 class="hidden">${heading(page, id)}</h1>${state.power && state.history
      ? html`<${Page} page=${page} id=${id} group=${group} setGroup=${setGroup} />`
      : html`<div class="center"><p>Loading the state of the site.</p></div>`}</main>`;
}

render(html`<${App} />`, document.getElementById("app"));
start();
