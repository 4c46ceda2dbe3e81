// The state that the server sends: one WebSocket, rows by ID, and those who are notified.

const listeners = new Set();

export const state = {
  phase: "starting", // starting, live, lost, refused
  problem: "",
  about: { account: "", control: false },
  version: 0,
  jobsVersion: 0, // Raised when a job changes.
  time: 0,
  offset: 0, // Clock of the site minus clock of this computer, in seconds.
  power: null,
  alarms: [],
  round: {},
  jobs: new Map(),
  nodes: new Map(),
  segments: new Map(),
  history: null,
};

let session = "";
let columns = null;
let queued = false;

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const now = () => Date.now() / 1000 + state.offset;

function notify() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    for (const listener of [...listeners]) listener();
  });
}

function fail(phase, problem) {
  state.phase = phase;
  state.problem = problem;
  notify();
}

const stored = {
  get: () => {
    try {
      return sessionStorage.getItem("session") ?? "";
    } catch {
      return "";
    }
  },
  set: (value) => {
    try {
      sessionStorage.setItem("session", value);
    } catch {
      // Without storage, a reload needs a new link.
    }
  },
};

async function openSession() {
  const match = /^#t=([\w-]+)$/.exec(location.hash);
  if (match) history.replaceState(null, "", location.pathname);
  const known = stored.get();
  if (!match && known) return known;
  const answer = await fetch("api/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ link: match ? match[1] : "" }),
  });
  const found = await answer.json();
  if (!answer.ok) {
    // A link that was opened in this tab before: its session may still be valid.
    if (known) return known;
    throw new Error(found.error);
  }
  stored.set(found.session);
  return found.session;
}

export async function start() {
  try {
    session = await openSession();
  } catch (error) {
    fail("refused", error.message);
    return;
  }
  connect(0);
}

function connect(attempt) {
  const address = new URL("api/live", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  address.hash = "";
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => socket.send(session);
  socket.onmessage = ({ data }) => {
    attempt = 0;
    if (typeof data === "string") receive(JSON.parse(data));
    else receiveHistory(new Float32Array(data));
  };
  socket.onclose = async ({ code }) => {
    if (code === 1008) {
      stored.set("");
      try {
        // On a Unix socket, the server gives a session without a link.
        session = await openSession();
        connect(attempt + 1);
      } catch (error) {
        fail("refused", error.message);
      }
      return;
    }
    fail("lost", "the dashboard server does not answer");
    setTimeout(() => connect(attempt + 1), Math.min(1000 * 2 ** attempt, 15000));
  };
}

function receive(message) {
  if (message.type === "hello") {
    columns = message.columns;
    state.about = { account: message.account, control: message.control };
    return;
  }
  state.version = message.version;
  state.phase = message.lost ? "lost" : "live";
  state.problem = message.lost;
  if (message.power) {
    state.time = message.time_s;
    state.offset = message.time_s - Date.now() / 1000;
    state.power = message.power;
    state.alarms = message.alarms;
    state.round = message.round;
    if (message.whole) {
      state.jobs = new Map();
      state.nodes = new Map();
      state.segments = new Map();
    }
    if (message.whole || message.jobs.length || message.gone_jobs.length) state.jobsVersion += 1;
    put(state.jobs, columns.jobs, message.jobs, message.gone_jobs);
    put(state.nodes, columns.nodes, message.nodes, message.gone_nodes);
    put(state.segments, columns.segments, message.segments, []);
    addSample(message.origin_s, message.sample);
    for (const [key, segment] of state.segments) {
      if (segment.end_s && segment.end_s < state.time - 6 * 3600) state.segments.delete(key);
    }
  }
  notify();
}

function put(map, names, rows, gone) {
  for (const row of rows) {
    const entry = {};
    for (let i = 0; i < names.length; i++) entry[names[i]] = row[i];
    map.set(row[0], entry);
  }
  for (const key of gone) map.delete(key);
}

// The history as columns: time (offset to the origin until that is known) and values in watts.
function receiveHistory(values) {
  const names = columns.power;
  const length = values.length / names.length;
  const found = { names, origin: null, time: [] };
  for (const name of names.slice(1)) found[name] = [];
  for (let i = 0; i < length; i++) {
    const at = i * names.length;
    found.time.push(values[at]);
    for (let c = 1; c < names.length; c++) found[names[c]].push(values[at + c]);
  }
  state.history = found;
}

function addSample(origin, sample) {
  const found = state.history;
  if (found.origin === null) {
    found.origin = origin;
    found.time = found.time.map((offset) => offset + origin);
  }
  const time = sample[0] + origin;
  const last = found.time.length - 1;
  const at = last >= 0 && found.time[last] === time ? last : last + 1;
  found.time[at] = time;
  for (let c = 1; c < found.names.length; c++) found[found.names[c]][at] = sample[c];
  if (found.time.length > 9000) {
    for (const name of found.names) found[name].splice(0, 360);
  }
}

export async function call(path, body, signal) {
  const headers = { Authorization: `Bearer ${session}` };
  const options = body === undefined
    ? { headers, signal }
    : {
        method: "POST",
        headers: { ...headers, "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal,
      };
  const answer = await fetch(`api/${path}`, options);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? answer.statusText);
  return found;
}
