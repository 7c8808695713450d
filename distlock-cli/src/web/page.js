// Shows what the server tells once a second. Whatever it tells may have been written by anybody: text is text here
// (textContent), never markup.
"use strict";

const at = (id) => document.getElementById(id);
let latest = null;
let received = 0;

function span(millis) {
  if (millis === null || millis === undefined) return "";
  const seconds = millis / 1000;
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.floor(seconds) + " s";
  if (seconds < 7200) return Math.floor(seconds / 60) + " min";
  if (seconds < 172800) return Math.floor(seconds / 3600) + " h";
  return Math.floor(seconds / 86400) + " d";
}

// Of the last seconds; none if no client tells.
function rate(each) {
  return each === null ? "–" : each.toFixed(1);
}

function cell(row, name, text, kind) {
  const made = row.insertCell();
  made.textContent = text;
  if (name) made.dataset.name = name;
  if (kind) made.className = kind;
  return made;
}

function line(parent, text, kind) {
  const made = document.createElement(kind ? "span" : "small");
  made.textContent = text;
  if (kind) made.className = kind;
  parent.append(made);
}

function party(parent, one) {
  line(parent, one.who, "who");
  line(parent, [one.label, one.token].filter(Boolean).join(" · "));
}

function lockRow(body, lock, age) {
  const row = body.insertRow();
  row.dataset.key = lock.key;
  cell(row, "", lock.key, "key");
  cell(row, "Kind", lock.kind);
  const holders = cell(row, "Holder", "");
  const held = cell(row, "Held for", "", "number");
  const lease = cell(row, "Lease", "", "number");
  lock.holders.forEach((one, place) => {
    party(holders, one);
    if (place > 0) { held.append(document.createElement("br")); lease.append(document.createElement("br")); }
    held.append(one.since === null ? "" : span(one.since + age));
    lease.append(one.remaining === null ? "" : span(Math.max(0, one.remaining - age)));
    if (one.silent) {
      line(holders, "does not answer", "tag bad");
      row.className = "bad";
    }
  });
  if (lock.holders.length === 0) holders.textContent = "nobody known";
  const waiting = cell(row, "Waiting", "");
  for (const one of lock.waiting) {
    party(waiting, one);
    const count = one.requests > 1 ? one.requests + " requests, " : "";
    line(waiting, count + (one.since === null ? "" : "for " + span(one.since + age)));
  }
  if (lock.more_waiting > 0) line(waiting, "and " + lock.more_waiting + " more processes");
  if (lock.waiting.length > 0 && !row.className) row.className = "warn";
  const last = cell(row, "", "");
  if (latest.writable) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Release";
    button.addEventListener("click", () => release(lock.key));
    last.append(button);
  }
}

async function release(key) {
  const question = "Take this lock away from its holder? It may be in the middle of its work.\n\n" + key;
  if (!window.confirm(question)) return;
  const answer = await fetch("/release", {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify({ key }),
  });
  if (!answer.ok) window.alert("It was not released: " + (await answer.text()));
}

function show() {
  if (latest === null) return;
  const age = Date.now() - received;
  const wanted = at("filter").value;
  const fits = (one) => one.key.includes(wanted);
  const locks = latest.locks.filter(fits);
  const body = document.createElement("tbody");
  body.id = "locks";
  for (const lock of locks) lockRow(body, lock, age);
  // Not while a button has the focus: it would lose it.
  if (!at("locks").contains(document.activeElement)) at("locks").replaceWith(body);
  at("none").hidden = locks.length > 0;
  const losses = document.createElement("tbody");
  losses.id = "losses";
  for (const loss of latest.losses.filter(fits)) {
    const row = losses.insertRow();
    row.dataset.key = loss.key;
    cell(row, "", loss.key, "key");
    party(cell(row, "Holder", ""), loss);
    cell(row, "When", span(loss.ago + age) + " ago", "number");
    cell(row, "Why", loss.why);
  }
  at("losses").replaceWith(losses);
  at("noloss").hidden = latest.losses.length > 0;
  const ages = latest.locks.flatMap((lock) => lock.holders.map((one) => one.since)).filter((one) => one !== null);
  at("store").textContent = latest.store;
  at("held").textContent = latest.held;
  at("awaited").textContent = latest.awaited;
  at("waiting").textContent = latest.waiting;
  at("oldest").textContent = ages.length > 0 ? span(Math.max(...ages) + age) : "–";
  at("lost").textContent = latest.lost;
  at("busy-rate").textContent = rate(latest.busy_per_second);
  at("lost-rate").textContent = rate(latest.lost_per_second);
  at("note").textContent = latest.notes.join(" ");
  at("note").hidden = latest.notes.length === 0;
  const late = age > 5000;
  at("state").textContent = late ? "no news for " + span(age) : "live";
  at("state").className = late ? "bad" : "";
}

// The token comes behind the `#` of the address, which no server and no log sees, and stays in this tab.
function token() {
  const given = new URLSearchParams(window.location.hash.slice(1)).get("token");
  if (given) {
    window.sessionStorage.setItem("token", given);
    window.history.replaceState(null, "", window.location.pathname);
  }
  return window.sessionStorage.getItem("token");
}

function headers(more) {
  const secret = token();
  return secret ? { ...more, authorization: "Bearer " + secret } : more;
}

function state(text) {
  at("state").textContent = text;
  at("state").className = "bad";
}

// Server-sent events, read by hand: an EventSource cannot send the token.
async function follow() {
  const answer = await fetch("/events", { headers: headers({}) });
  if (!answer.ok) throw new Error(await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("disconnected");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events.filter((one) => one.startsWith("data:"))) {
      latest = JSON.parse(event.slice(5));
      received = Date.now();
      show();
    }
  }
}

async function followAgainAndAgain() {
  for (;;) {
    try {
      await follow();
    } catch (error) {
      latest = null;
      state(error.message + " – trying again …");
    }
    await new Promise((resume) => window.setTimeout(resume, 1000));
  }
}

followAgainAndAgain();
at("filter").addEventListener("input", show);
window.setInterval(show, 1000);
