// Shows what the server sends twice a second. Any client may have written parts of it: text is text here
// (textContent), never markup. Rows stay the same elements from one look to the next, so that the focus, a selection and
// an open question survive.
"use strict";

const at = (id) => document.getElementById(id);
class Refused extends Error {}

// What the server has sent last, and when.
let latest = null;
let received = 0;
// Since when the server of this page does not answer, or refuses, and why.
let cutSince = null;
let cutError = null;
// Ends the connection, to ask again with another filter.
let connection = new AbortController();
// The lock that the open question is about.
let asked = null;

function span(millis) {
  if (millis === null || millis === undefined) return "";
  const seconds = millis / 1000;
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.floor(seconds) + " s";
  if (seconds < 7200) return Math.floor(seconds / 60) + " min";
  if (seconds < 172800) return Math.floor(seconds / 3600) + " h";
  return Math.floor(seconds / 86400) + " d";
}

// The time of the day, this long ago.
function clock(millis) {
  const time = new Date(Date.now() - millis);
  const day = millis > 43200000 ? time.toLocaleDateString() + " " : "";
  return day + [time.getHours(), time.getMinutes(), time.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

// Of the last seconds; none if no client reports it.
function rate(each) {
  return each === null ? "–" : each.toFixed(1);
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(name, kind, dataName) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (dataName) made.dataset.name = dataName;
  return made;
}

// Makes the children of `parent` the elements of these items, in this order. An element stays with its item's name.
function sync(parent, items, name, create, update) {
  parent.known ??= new Map();
  const before = parent.known;
  const focus = document.activeElement;
  parent.known = new Map();
  const wanted = new Set(items.map(name));
  for (const [of, element] of before) if (!wanted.has(of)) element.remove();
  let next = parent.firstElementChild;
  for (const item of items) {
    const element = before.get(name(item)) ?? create(item);
    parent.known.set(name(item), element);
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
    update(element, item);
  }
  // An element that is moved loses the focus.
  if (focus !== document.activeElement && parent.contains(focus)) focus.focus({ preventScroll: true });
}

function makeParty(kind) {
  const party = make("div", kind);
  party.about = make("div");
  party.who = make("span", "who");
  party.details = make("small");
  party.tag = make("span", "tag bad");
  party.about.append(party.who, party.details, party.tag);
  party.append(party.about);
  return party;
}

function showParty(party, one, tag) {
  set(party.who, one.who);
  set(party.details, [one.label, one.token].filter(Boolean).join(" · "));
  party.details.title = party.details.textContent;
  set(party.tag, tag);
}

function makeHolder() {
  const holder = makeParty("holder");
  holder.since = make("span", "number", "for");
  holder.lease = make("span", "number", "lease");
  holder.append(holder.since, holder.lease);
  return holder;
}

function showHolder(holder, one, age) {
  showParty(holder, one, one.silent ? "no sign of life" : "");
  set(holder.since, one.since === null ? "" : span(one.since + age));
  set(holder.lease, one.remaining === null ? "" : span(Math.max(0, one.remaining - age)));
}

function makeLock(lock) {
  const row = make("tr");
  row.dataset.key = lock.key;
  row.name = make("td", "key");
  row.kind = make("td", "kind", "Kind");
  row.holders = make("td", "", "Holder");
  row.waiting = make("td", "", "Waiting");
  row.last = make("td");
  row.append(row.name, row.kind, row.holders, row.waiting, row.last);
  return row;
}

function showLock(row, lock, age) {
  row.lock = lock;
  row.className = lock.holders.some((one) => one.silent) ? "bad" : lock.waiters > 0 ? "warn" : "";
  set(row.name, lock.key);
  set(row.kind, lock.kind);
  const holders = lock.holders.length > 0 ? lock.holders : [{ who: "unknown", since: null, remaining: null }];
  sync(row.holders, holders, (one) => one.token ?? "", makeHolder, (made, one) => showHolder(made, one, age));
  const waiting = lock.waiting.map((one, place) => ({ ...one, place }));
  sync(row.waiting, waiting, (one) => one.token ?? one.who + one.place, () => makeParty("waiter"), (made, one) => {
    const count = one.requests > 1 ? one.requests + " requests, " : "";
    showParty(made, one, "");
    made.tag.className = "number";
    set(made.tag, count + (one.since === null ? "" : "for " + span(one.since + age)));
  });
  row.more ??= make("small");
  set(row.more, lock.more_waiting > 0 ? "and " + lock.more_waiting + " more processes" : "");
  if (lock.more_waiting > 0) row.waiting.append(row.more);
  else row.more.remove();
  if (latest.writable && lock.holders.length > 0) {
    if (!row.button) {
      row.button = make("button");
      row.button.type = "button";
      row.button.textContent = "Release";
      row.button.addEventListener("click", () => ask(row.lock));
      row.last.append(row.button);
    }
  } else if (row.button) {
    row.button.remove();
    row.button = null;
  }
}

function makeLoss(loss) {
  const row = make("tr");
  row.dataset.key = loss.key;
  row.name = make("td", "key");
  row.holder = make("td", "", "Holder");
  row.party = makeParty("");
  row.holder.append(row.party);
  row.when = make("td", "number", "When");
  row.why = make("td", "", "Why");
  row.append(row.name, row.holder, row.when, row.why);
  return row;
}

function showLoss(row, loss, age) {
  set(row.name, loss.key);
  showParty(row.party, loss, "");
  set(row.when, span(loss.ago + age) + " ago");
  set(row.why, loss.why);
}

const oldest = (lock) => Math.max(-1, ...lock.holders.map((one) => one.since ?? -1));
const trouble = (lock) => (lock.holders.some((one) => one.silent) ? 0 : lock.waiters > 0 ? 1 : 2);
const byKey = (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
const orders = {
  key: byKey,
  trouble: (a, b) => trouble(a) - trouble(b) || byKey(a, b),
  age: (a, b) => oldest(b) - oldest(a) || byKey(a, b),
  waiters: (a, b) => b.waiters - a.waiters || byKey(a, b),
};

// Asks whether to release the lock. The page continues meanwhile.
function ask(lock) {
  asked = { key: lock.key, owners: lock.holders.map((one) => one.token) };
  set(at("ask-key"), lock.key);
  const holders = lock.holders.map((one) => {
    const item = make("li");
    const party = makeParty("");
    showParty(party, one, one.silent ? "no sign of life" : "");
    item.append(party);
    return item;
  });
  at("ask-holders").replaceChildren(...holders);
  checkAsked();
  at("ask").showModal();
}

function checkAsked() {
  if (asked === null || latest === null) return;
  const lock = latest.locks.find((one) => one.key === asked.key);
  const holds = lock !== undefined && lock.holders.some((one) => asked.owners.includes(one.token));
  set(at("ask-changed"), lock === undefined ? "The lock is no longer listed." : "It now has another holder.");
  at("ask-changed").hidden = holds;
  at("ask-yes").disabled = !holds;
}

function say(text, kind) {
  set(at("said"), text);
  at("said").className = "note " + kind;
  at("said").hidden = text === "";
}

// From the holders that were shown, and from no others.
async function release({ key, owners }) {
  say("", "");
  try {
    const answer = await fetch("/release", {
      method: "POST",
      headers: headers({ "content-type": "application/json" }),
      body: JSON.stringify({ key, owners }),
    });
    const text = await answer.text();
    if (answer.ok) say(key + ": " + text + ".", "");
    else say(key + " was not released: " + text, "bad");
  } catch (error) {
    say("No answer from `distlock web` (" + error.message + "): check whether " + key + " was released.", "bad");
  }
}

// Why no row is shown.
function emptiness(filter) {
  const { trouble: failed, complete, looked, pattern } = latest;
  if (looked === null) return "The locks are not known yet.";
  if (failed !== null || cutSince !== null) return "No lock was seen at " + clock(looked + Date.now() - received) + ".";
  if (latest.filter !== filter) return "Looking …";
  const which = filter ? " with “" + filter + "” in its key" : pattern === "*" ? "" : " that matches " + pattern;
  if (at("only-waiting").checked) return "No process waits for a lock" + which + (complete ? "." : ", as far as is known.");
  return complete ? "No lock" + which + " is held or awaited." : "No lock" + which + " is known, but some are missing: see above.";
}

// What keeps this page from being true now; none: nothing.
function blocker(age) {
  if (cutError instanceof Refused && cutSince !== null) {
    return { short: "refused", long: "`distlock web` refuses: " + cutError.message + ". " };
  }
  if (cutSince !== null) {
    const since = Date.now() - cutSince;
    return { short: "page server unreachable since " + clock(since), long: "`distlock web`, which serves this page, has not "
      + "answered since " + clock(since) + " (" + span(since) + "): " + cutError.message + ". The page retries. This says nothing about the locks. " };
  }
  const failed = latest?.trouble;
  if (failed) {
    const since = failed.since + age;
    const what = failed.unreachable
      ? "The store has been unreachable from here since " + clock(since) + " (" + span(since) + "): " + failed.error
        + ". If the programs cannot reach it either, no lock can be acquired, and each holder stops when its lease ends. "
      : "The locks could not be listed since " + clock(since) + ": " + failed.error + ". ";
    return { short: (failed.unreachable ? "store unreachable since " : "cannot list locks since ") + clock(since), long: what };
  }
  if (latest !== null && age > 5000) return { short: "no news since " + clock(age), long: "" };
  return null;
}

function showHead(age) {
  const blocked = blocker(age);
  const seen = latest === null || latest.looked === null ? null : latest.looked + age;
  const rows = seen === null ? "" : "What is shown below was seen at " + clock(seen) + ", " + span(seen) + " ago.";
  set(at("state"), blocked ? blocked.short : latest === null ? "connecting …" : "live");
  at("state").className = blocked ? "bad" : "";
  set(at("trouble"), blocked ? blocked.long + rows : "");
  at("trouble").hidden = !blocked;
  document.body.className = blocked ? "stale" : "";
  const figure = (id, text, isBad) => {
    set(at(id), blocked || latest === null || latest.looked === null ? "–" : text);
    at(id).className = isBad && !blocked ? "bad" : "";
  };
  const now = latest ?? { held: 0, awaited: 0, waiting: 0, silent: 0, oldest: null, lost: 0, busy_per_second: null, lost_per_second: null, losses: [] };
  figure("held", String(now.held));
  figure("awaited", String(now.awaited));
  figure("waiting", String(now.waiting));
  figure("silent", String(now.silent), now.silent > 0);
  figure("oldest", now.oldest === null ? "–" : span(now.oldest + seen));
  figure("busy-rate", rate(now.busy_per_second));
  figure("lost", String(now.lost));
  figure("lost-rate", rate(now.lost_per_second), now.lost_per_second > 0);
  const lately = now.losses.filter((loss) => loss.ago + age < 60000).length;
  const title = blocked ? "⚠ " + blocked.short : now.silent > 0 ? "⚠ " + now.silent + " silent" : lately > 0 ? "⚠ " + lately + " lost" : "";
  document.title = title ? title + " · distlock" : "distlock";
}

function show() {
  const age = latest === null ? 0 : Date.now() - received;
  showHead(age);
  if (latest === null) return;
  set(at("store"), latest.store);
  // Rows that are stale say what was true when they were seen.
  const rowsAge = blocker(age) ? 0 : (latest.looked ?? 0) + age;
  const filter = at("filter").value;
  const fits = (one) => one.key.includes(filter);
  const locks = latest.locks.filter((lock) => fits(lock) && (!at("only-waiting").checked || lock.waiters > 0));
  locks.sort(orders[at("sort").value]);
  sync(at("locks"), locks, (lock) => lock.key, makeLock, (row, lock) => showLock(row, lock, rowsAge));
  sync(at("losses"), latest.losses.filter(fits), (loss) => String(loss.number), makeLoss, (row, loss) => showLoss(row, loss, age));
  set(at("none"), locks.length > 0 ? "" : emptiness(filter));
  at("none").hidden = locks.length > 0;
  set(at("more"), latest.more > 0 ? latest.more + " more not shown: those with waiters, without a sign of life, and held longest come first. Filter by key to see the others." : "");
  at("more").hidden = latest.more === 0;
  set(at("note"), latest.notes.join(" "));
  at("note").hidden = latest.notes.length === 0;
  at("noloss").hidden = latest.losses.length > 0;
  checkAsked();
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

// Server-sent events, read by hand: an EventSource cannot send the token.
async function follow(signal) {
  const filter = encodeURIComponent(at("filter").value);
  const answer = await fetch("/events?filter=" + filter, { headers: headers({}), signal });
  if (!answer.ok) throw new Refused(await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("it has closed the connection");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events.filter((one) => one.startsWith("data:"))) {
      latest = JSON.parse(event.slice(5));
      received = Date.now();
      cutSince = null;
      show();
    }
  }
}

async function followForEver() {
  for (;;) {
    connection = new AbortController();
    const { signal } = connection;
    try {
      await follow(signal);
    } catch (error) {
      // Another filter was chosen.
      if (signal.aborted) continue;
      cutSince ??= Date.now();
      cutError = error;
      show();
    }
    await new Promise((resume) => window.setTimeout(resume, 1000));
  }
}

let typing = 0;
at("filter").addEventListener("input", () => {
  show();
  window.clearTimeout(typing);
  typing = window.setTimeout(() => connection.abort(), 250);
});
at("sort").addEventListener("change", show);
at("only-waiting").addEventListener("change", show);
at("ask-no").addEventListener("click", () => at("ask").close());
at("ask-yes").addEventListener("click", () => {
  const about = asked;
  at("ask").close();
  void release(about);
});
at("ask").addEventListener("close", () => { asked = null; });
followForEver();
window.setInterval(show, 1000);
