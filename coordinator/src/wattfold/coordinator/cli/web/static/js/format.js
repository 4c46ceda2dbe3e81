// Text for numbers, times and states.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function watts(w) {
  const size = Math.abs(w);
  if (size >= 1e7) return `${(w / 1e6).toFixed(2)} MW`;
  if (size >= 1e4) return `${(w / 1e3).toFixed(size >= 1e6 ? 0 : 1)} kW`;
  if (size >= 1000) return `${grouped.format(w)} W`;
  return `${w.toFixed(size >= 100 || w === 0 ? 0 : 1)} W`;
}

export function joules(j) {
  if (j >= 1e9) return `${(j / 1e9).toFixed(2)} GJ`;
  if (j >= 1e6) return `${(j / 1e6).toFixed(2)} MJ`;
  if (j >= 1e3) return `${(j / 1e3).toFixed(1)} kJ`;
  return `${j.toFixed(0)} J`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "-";
  const whole = Math.round(Math.abs(seconds));
  const sign = seconds < -0.5 ? "-" : "";
  if (whole < 60) return `${sign}${whole} s`;
  if (whole >= 600 && whole < 3600) return `${sign}${Math.round(whole / 60)} min`;
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${sign}${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${sign}${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24} h`;
}

export function clock(seconds, withSeconds = false) {
  const date = new Date(seconds * 1000);
  const two = (n) => String(n).padStart(2, "0");
  const text = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return withSeconds ? `${text}:${two(date.getSeconds())}` : text;
}

const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

export function moment(seconds, now) {
  if (!seconds) return "-";
  const date = new Date(seconds * 1000);
  const other = new Date(now * 1000);
  if (date.toDateString() === other.toDateString()) return clock(seconds);
  if (Math.abs(seconds - now) < 6 * 86400) return `${days[date.getDay()]} ${clock(seconds)}`;
  return `${date.toISOString().slice(0, 10)} ${clock(seconds)}`;
}

export const percent = (share) => `${Math.round(Math.min(Math.max(share, 0), 1) * 100)} %`;
// A length in CSS, which takes no space before the sign.
export const part = (share) => `${Math.min(Math.max(share, 0), 1) * 100}%`;
export const count = (n, noun) => `${grouped.format(n)} ${noun}${n === 1 ? "" : "s"}`;
export const number = (n) => grouped.format(n);

// CPUs of a list such as 0-3,8.
export function cpuList(text) {
  const found = [];
  for (const part of text.split(",")) {
    const [first, last = first] = part.split("-").map(Number);
    if (part === "" || !Number.isInteger(first) || !Number.isInteger(last)) continue;
    for (let cpu = first; cpu <= last && found.length < 4096; cpu++) found.push(cpu);
  }
  return found;
}

export const byName = new Intl.Collator("en", { numeric: true }).compare;
