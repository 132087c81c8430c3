// A page for a run, and one for lists of runs. It uses only the public API, and everything from it is set as text.
"use strict";

const api = "/api/v1";
const final = ["Completed", "Failed", "Canceled"];
const refreshMilliseconds = 2000;
const find = (id) => document.getElementById(id);

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

async function ask(path) {
  const answer = await fetch(api + path, { headers: { Authorization: `Bearer ${localStorage.getItem("token")}` } });
  if (answer.status === 401) throw new Error("refused");
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  return answer;
}

const json = async (path) => (await ask(path)).json();

function table(columns, rows) {
  const made = element("table");
  const head = made.createTHead().insertRow();
  for (const [name, kind] of columns) head.append(element("th", name, { class: kind || "" }));
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, i) => {
      const place = line.insertCell();
      place.className = columns[i][1] || "";
      place.append(cell instanceof Node ? cell : String(cell));
    });
  }
  return made;
}

const when = (text) => (text ? new Date(text).toLocaleString() : "");
const state = (run) => element("span", run.status, { class: `state ${run.state}` });
const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);
const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

const address = (workspace, experiment) =>
  `/workspaces/${encodeURIComponent(workspace)}/experiments/${encodeURIComponent(experiment)}`;

// The runs of all workspaces, of one, or of one of its experiments.
async function list(workspace, experiment) {
  document.title = `${experiment || workspace || "Runs"} · Windlass`;
  const main = find("main");
  const names = workspace ? [workspace] : (await json("/workspaces")).workspaces.map(({ name }) => name);
  for (const name of names) {
    const only = experiment ? `&experiment=${encodeURIComponent(experiment)}` : "";
    const { runs } = await json(`/workspaces/${encodeURIComponent(name)}/runs?limit=100${only}`);
    main.append(element("h2", experiment ? `Runs of experiment ${experiment}` : `Runs of workspace ${name}`));
    main.append(runs.length ? table([["Run"], ["Experiment"], ["State"], ["Submitted"]], runs.map((run) => [
      element("a", run.name || run.id, { href: new URL(run.url).pathname }),
      element("a", run.experiment, { href: address(name, run.experiment) }), state(run), when(run.created_at),
    ])) : element("p", "No runs yet. Start one: windlass submit train.py", { class: "nothing" }));
  }
}

function facts(run) {
  const made = element("dl");
  const add = (name, value) => { if (value !== null && value !== "" && value !== undefined) made.append(element("dt", name), value instanceof Node ? value : element("dd", value)); };
  const now = element("dd");
  now.append(state(run), run.message ? ` · ${run.message}` : "");
  add("State", now);
  const experiment = element("dd");
  experiment.append(element("a", run.experiment, { href: address(run.workspace, run.experiment) }), ` · number ${run.number}`);
  add("Experiment", experiment);
  add("Target", run.target);
  add("Script", run.spec && [run.spec.script, ...run.spec.arguments].filter((part) => part !== null).join(" "));
  for (const [key, text] of Object.entries(run.properties)) if (key.startsWith("replaced.")) add("Replaced", text);
  add("Submitted", when(run.created_at));
  add("Started", when(run.started_at));
  add("Ended", when(run.ended_at));
  add("Tags", Object.entries(run.tags).map(([key, value]) => (value === null ? key : `${key}=${value}`)).join(", "));
  add("Error", run.error && run.error.message);
  return made;
}

const nothing = (isFinal) => element("p", isFinal ? "None." : "None yet.", { class: "nothing" });

function metrics(found, isFinal) {
  const rows = Object.entries(found).map(([name, { values }]) => [name, shown(values[values.length - 1].v), values.length]);
  return rows.length ? table([["Metric"], ["Last", "number"], ["Points", "number"]], rows) : nothing(isFinal);
}

function files(base, found, isFinal) {
  const rows = found.map((file) => {
    const open = element("button", file.path, { type: "button" });
    open.addEventListener("click", async () => {
      const content = await (await ask(`${base}/files/${file.path.split("/").map(encodeURIComponent).join("/")}`)).blob();
      const link = element("a", "", { href: URL.createObjectURL(content), download: file.path.split("/").pop() });
      link.click();
      URL.revokeObjectURL(link.href);
    });
    return [open, bytes(file.size)];
  });
  return rows.length ? table([["File"], ["Size", "number"]], rows) : nothing(isFinal);
}

// Writes a log as a terminal would show it: \r and \b move back in the line, and what follows overwrites. Escape sequences
// are left out, also those that arrive in two pieces.
function screen(log) {
  const last = document.createTextNode("");
  log.append(last);
  let line = "", column = 0, rest = "";
  return (text) => {
    const whole = rest + text;
    const cut = whole.search(/\x1b(\[[0-?]*[ -\/]*|\][^\x07\x1b\n]{0,4096})?$/);
    rest = cut < 0 ? "" : whole.slice(cut);
    const clean = (cut < 0 ? whole : whole.slice(0, cut)).replace(/\x1b(\[[0-?]*[ -\/]*[@-~]|\][^\x07\x1b\n]*(\x07|\x1b\\)|.)/g, "");
    let done = "";
    for (const part of clean.split(/([\n\r\b])/)) {
      if (part === "\n") { done += `${line}\n`; line = ""; column = 0; }
      else if (part === "\r") column = 0;
      else if (part === "\b") column = Math.max(0, column - 1);
      else { line = line.slice(0, column) + part + line.slice(column + part.length); column += part.length; }
    }
    if (done) last.before(done);
    last.data = line;
  };
}

async function follow(base, log, changed) {
  const reader = (await ask(`${base}/stream?log=auto`)).body.pipeThrough(new TextDecoderStream()).getReader();
  const decoder = new TextDecoder();
  const write = screen(log);
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = (block.match(/^event: (.*)$/m) || [])[1];
      const data = (block.match(/^data: (.*)$/m) || [])[1];
      if (event === "log") {
        const raw = Uint8Array.from(atob(JSON.parse(data).data), (c) => c.charCodeAt(0));
        const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
        write(decoder.decode(raw, { stream: true }));
        if (isAtEnd) log.scrollTop = log.scrollHeight;
      } else if (event === "state" || event === "end") {
        await changed();
      }
    }
  }
}

async function show(workspace, id) {
  const base = `/workspaces/${workspace}/runs/${id}`;
  const main = find("main");
  const places = ["facts", "metrics", "files"].map(() => element("div"));
  const log = element("pre", "", { tabindex: "0", "aria-label": "log" });
  main.append(element("h1", decodeURIComponent(id)), places[0], element("h2", "Metrics"), places[1],
    element("h2", "Log"), log, element("h2", "Files"), places[2]);
  document.title = `${decodeURIComponent(id)} · Windlass`;
  let isFinal = false;
  const changed = async () => {
    const [run, found, held] = await Promise.all([json(base), json(`${base}/metrics`), json(`${base}/files`)]);
    isFinal = final.includes(run.state);
    places[0].replaceChildren(facts(run));
    places[1].replaceChildren(metrics(found.metrics, isFinal));
    places[2].replaceChildren(files(base, held.files, isFinal));
  };
  await changed();
  // The stream tells of states and of the log; metrics and files are asked for while the run is under way.
  const timer = setInterval(() => (isFinal ? clearInterval(timer) : changed().catch(() => {})), refreshMilliseconds);
  await follow(base, log, changed);
}

async function open() {
  const [, workspace, kind, name] = location.pathname.match(/^\/workspaces\/([^/]+)(?:\/(runs|experiments)\/([^/]+))?$/) || [];
  const plain = (text) => text && decodeURIComponent(text);
  find("login").hidden = true;
  find("leave").hidden = false;
  find("main").hidden = false;
  find("main").replaceChildren();
  try {
    await (kind === "runs" ? show(workspace, name) : list(plain(workspace), plain(name)));
  } catch (error) {
    if (error.message !== "refused") return void find("main").append(element("p", error.message, { role: "alert" }));
    find("main").hidden = true;
    find("login").hidden = false;
    find("leave").hidden = true;
    find("refused").textContent = localStorage.getItem("token") ? "This token is not good here." : "";
    find("token").focus();
  }
}

find("leave").addEventListener("click", () => {
  localStorage.removeItem("token");
  location.reload();
});
find("login").addEventListener("submit", (event) => {
  event.preventDefault();
  localStorage.setItem("token", find("token").value.trim());
  open();
});
open();
