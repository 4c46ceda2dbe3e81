// Small parts that several pages use.

import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { subscribe } from "./store.js";
import { onTheme } from "./theme.js";

// Draw a component again after each snapshot, and after a change of the theme.
export function useSnapshots() {
  const [, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((n) => n + 1);
    const ends = [subscribe(again), onTheme(again)];
    return () => ends.forEach((end) => end());
  }, []);
}

export function useTick(milliseconds) {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => draw((n) => n + 1), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
}

export function Card({ title, note, tools, wide, children, id }) {
  return html`<section class=${`card ${wide ? "wide" : ""}`} aria-labelledby=${id}>
    <header>
      <h2 id=${id}>${title}</h2>
      ${note && html`<p class="note">${note}</p>`}
      ${tools && html`<div class="tools">${tools}</div>`}
    </header>
    ${children}
  </section>`;
}

// Buttons of which one is chosen.
export function Choice({ label, options, value, onChoose }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(
      ([key, text]) => html`<button
        type="button"
        aria-pressed=${key === value}
        onClick=${() => onChoose(key)}
      >${text}</button>`,
    )}
  </div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

const STATE_MARKS = {
  running: "▶", starting: "▷", ending: "◁", pending: "…", held: "‖", suspended: "‖",
  completed: "✓", failed: "✕", cancelled: "–", lost: "✕", "timed-out": "✕",
};

export function State({ state }) {
  return html`<span class=${`state ${state}`}><span aria-hidden="true">${STATE_MARKS[state] ?? "·"}</span> ${state}</span>`;
}

export const stateMark = (state) => STATE_MARKS[state] ?? "·";

export function Emulated({ nodes, known }) {
  if (!nodes) return null;
  const all = nodes === known;
  return html`<span class="emulated" title="The power of emulated zones is not real.">
    <span aria-hidden="true" class="stripes"></span>
    ${all ? "emulated power" : `${nodes} of ${known} nodes emulated`}
  </span>`;
}
