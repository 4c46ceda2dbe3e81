// Colours of the page for canvases, and the choice of a theme.

const listeners = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");
let known = {};

export const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export function color(name) {
  known[name] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return known[name];
}

export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

export function isDark() {
  return theme() === "dark" || (theme() === "auto" && dark.matches);
}

export function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("theme", name);
  } catch {
    // A browser without storage forgets the choice; the page works without it.
  }
  changed();
}

function changed() {
  known = {};
  for (const listener of listeners) listener();
}

dark.addEventListener("change", changed);
try {
  const stored = localStorage.getItem("theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
} catch {
  // As above.
}

// Okabe and Ito, "Color Universal Design" (2008), without black.
export const JOB_COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
const LIGHT = new Set(["#E69F00", "#56B4E9", "#F0E442", "#CC79A7"]);
export const inkOn = (fill) => (LIGHT.has(fill) ? "#10161b" : "#ffffff");

export function jobColor(id) {
  let hash = 0;
  for (const letter of id) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  const number = Number(id);
  return JOB_COLORS[(Number.isInteger(number) ? number : hash) % JOB_COLORS.length];
}

// Cividis in nine steps; each step differs for every kind of colour vision.
const CIVIDIS = ["#00204d", "#00336f", "#39486b", "#575d6d", "#707173", "#8a8779", "#a69d75", "#c4b56c", "#e4cf5b"];

export function scaleSteps() {
  return isDark() ? CIVIDIS.slice(1) : CIVIDIS;
}

export function scaleColor(share) {
  const steps = scaleSteps();
  return steps[Math.min(Math.floor(Math.max(share, 0) * steps.length), steps.length - 1)];
}

export function inkOnScale(share) {
  return share > 0.55 ? "#10161b" : "#ffffff";
}
