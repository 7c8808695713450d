#!/usr/bin/env python3
"""Makes a module Run for spec/Trace.tla of a recorded run.

    scripts/trace.py RUN.jsonl DIRECTORY [HOW]   writes DIRECTORY/Run.tla and DIRECTORY/lines.jsonl, in order

HOW breaks the run by hand:

    swapped    two lines of the server are swapped
    doubled    a process believes a reply that the server has not sent
    kept       a process ends its section, and sends no release; the run ends there
    together   two tasks of a process are inside
    repeated   a section has the fencing token of the section before

A run is a file of lines, each a JSON object. `distlock/src/backend/redis/recording` writes them:

    {"ev": "run", "ttl", "linger"}           the first one: milliseconds
    {"ev": "server", "t", "cmd", "n", ...}   MONITOR: the server has executed a script for token n
    {"ev": "link", "t", "p", "up"}           a process has noticed that its connection was lost, or made
    {"ev": "reply" | "push" | "other", ...}  an event, what the process sent then, and its state after that:
                                             ph, tok (token), fence, dl (microseconds until its deadline),
                                             section (a number of its own), inside (how many sections there are);
                                             us: the server's time in the reply
    {"ev": "crash", "t", "p"}                from now on, nothing of this process counts

t: microseconds of the wall clock; p: a client's id.
"""

import heapq
import json
import os
import sys


def number(token):
    digits = token.rsplit(":", 1)[1]
    return int(digits[:-5] if digits.startswith("0") and len(digits) > 6 else digits)


def client(token):
    return token.split(":", 1)[1].rsplit(":", 1)[0]


def rising(lines, of):
    """A line is never before another one of the same writer: its time was read before the mutex was taken."""
    last = {}
    for line in lines:
        later = max(last.get(of(line), 0) + 1 - line["t"], 0)
        line["t"] += later
        last[of(line)] = line["t"]
        if "dl" in line:
            line["dl"] -= later
    return lines


def exact(lines):
    """The server's own time, where a reply tells it: MONITOR shows a command a little earlier or later."""
    executed = {}
    for line in lines:
        if line["ev"] == "server":
            executed.setdefault((line["cmd"], line["n"]), []).append(line)
    for reply in (line for line in lines if line.get("us")):
        fit = executed.get((reply["cmd"], reply["n"]), [])
        if fit:
            min(fit, key=lambda line: abs(line["t"] - reply["us"]))["t"] = reply["us"]


def without_repeated_asks(lines):
    """On a new connection, a process that waits asks at once. In the model, that belongs to step Connect."""
    waiting, asks = {}, {}
    for line in lines:
        process = line.get("p")
        if line["ev"] == "link":
            asks[process] = waiting.get(process) if line["up"] else None
        elif "enters" in line:
            if asks.get(process) in line["enters"]:
                line["enters"].remove(asks.pop(process))
            waiting[process] = line["tok"] if line["ph"] == "wait" else None


def merged(lines):
    """All lines in the order of their times, from 1 up, no two at the same time."""
    own = [line for line in lines if line["ev"] != "server"]
    end = own[-1]["t"]
    writers = {}
    for line in rising(own, lambda line: line["p"]):
        writers.setdefault(line["p"], []).append(line)
    server = rising([line for line in lines if line["ev"] == "server"], lambda line: 0)
    writers["server"] = [line for line in server if line["t"] <= end]
    result = list(heapq.merge(*writers.values(), key=lambda line: line["t"]))
    # The server counts in whole milliseconds.
    begin = result[0]["t"] // 1000 * 1000 - 1000
    last = 0
    for line in result:
        line["t"] = last = max(line["t"] - begin, last + 1)
    return result


class Names:
    """Processes and tokens by their numbers."""

    def __init__(self, lines):
        tokens = {line["tok"] for line in lines if line.get("tok")}
        self.clients = sorted({client(token) for token in tokens} | {line["p"] for line in lines if "p" in line})
        self.numbers = {}
        for name in self.clients:
            mine = sorted((token for token in tokens if client(token) == name), key=number)
            self.numbers.update({token: place for place, token in enumerate(mine, 1)})

    def process(self, name):
        return f"p{self.clients.index(name) + 1}"

    def token(self, text):
        return self.numbers.get(text, 0)


def kept_replies(lines, index):
    """How many replies a process notices after its connection was lost."""
    count = 0
    for line in lines[index + 1 :]:
        if line.get("p") == lines[index]["p"]:
            if line["ev"] == "link" and line["up"]:
                break
            count += line["ev"] == "reply" and line["code"] != "failed"
    return count


def begins(lines, index):
    """Whether this is the first line of a section."""
    line = lines[index]
    if not line["section"]:
        return False
    before = (other for other in reversed(lines[:index]) if other.get("p") == line["p"] and other.get("section"))
    return next(before, {}).get("section") != line["section"]


def numbers_of(items):
    return "{" + ", ".join(map(str, sorted(set(items)))) + "}"


def truth(value):
    return "TRUE" if value else "FALSE"


def record(**fields):
    return "[" + ", ".join(f"{name} |-> {value}" for name, value in fields.items()) + "]"


def quoted(text):
    return f'"{text}"'


def ticks(millis):
    """A key lives until the millisecond of its end is over."""
    return millis * 1000 + 1000


def line_of(lines, index, names, first_fence):
    line = lines[index]
    head = {"t": line["t"], "ev": quoted(line["ev"])}
    if line["ev"] == "server":
        later = (other for other in lines[index + 1 :] if other["ev"] == "server" and other["n"] == line["n"])
        more = line["cmd"].startswith("leave") and any(other["cmd"].startswith("leave") for other in later)
        over = (f"<<{names.process(client(token))}, {names.token(token)}>>" for token in line["passed_over"])
        return record(
            **head,
            p=names.process(client(line["n"])),
            cmd=quoted(line["cmd"]),
            n=names.token(line["n"]),
            ttl=ticks(line["ttl"]),
            over="{" + ", ".join(over) + "}",
            more=truth(more),
        )
    head["p"] = names.process(line["p"])
    if line["ev"] == "crash":
        return record(**head)
    head["up"] = truth(line["up"])
    if line["ev"] == "link":
        return record(**head, kept=0 if line["up"] else kept_replies(lines, index))
    if line["ev"] != "other":
        head |= {"cmd": quoted(line["cmd"]), "tn": names.token(line["n"])}
    if line["ev"] == "reply":
        head |= {"code": quoted(line["code"]), "stale": truth(line["stale"]), "ttl": ticks(line["ttl"])}
    if line["ev"] == "push":
        same = ((other["ev"], other.get("cmd"), other.get("n")) for other in lines[index + 1 :])
        head["again"] = truth(("push", line["cmd"], line["n"]) in same)
    return record(
        **head,
        ph=quoted(line["ph"]),
        n=names.token(line["tok"]),
        f=max(line["fence"] - first_fence, 0),
        begins=truth(begins(lines, index)),
        inside=line["inside"],
        dl=max(line["dl"], 1),
        enters=numbers_of(names.token(token) for token in line["enters"]),
        leaves=numbers_of(names.token(token) for token in line["leaves"]),
        renews=numbers_of(map(ticks, line["renews"])),
    )


def last_pushes(lines, names, command):
    """For each process and token: the last line that tells of such a push."""
    by_process = []
    for name in names.clients:
        count = sum(client(token) == name for token in names.numbers)
        last = [0] * count
        for index, line in enumerate(lines, 1):
            if line["ev"] == "push" and line["cmd"] == command and line["p"] == name and names.token(line["n"]):
                last[names.token(line["n"]) - 1] = index
        by_process.append(f"{names.process(name)} :> <<{', '.join(map(str, last))}>>")
    return " @@ ".join(by_process)


def module(run, lines):
    names = Names(lines)
    fences = [line["fence"] for line in lines if line.get("fence")]
    first_fence = min(fences, default=1) - 1
    body = ",\n  ".join(line_of(lines, index, names, first_fence) for index in range(len(lines)))
    processes = ", ".join(names.process(name) for name in names.clients)
    return f"""---- MODULE Run ----
EXTENDS Integers, Sequences, TLC
CONSTANTS p1, p2, p3, p4
RunProcs == {{{processes}}}
RunTTL == {ticks(run["ttl"])}
RunClaim == {ticks(min(run["ttl"], 3000))}
RunLinger == {run["linger"] * 1000}
HeardUntil == [
  grant |-> {last_pushes(lines, names, "grant")},
  wanted |-> {last_pushes(lines, names, "wanted")}]
Lines == <<
  {body}>>
====
"""


def swapped(lines):
    """The server has let somebody in before it let the holder go."""
    server = [line for line in lines if line["ev"] == "server"]
    fresh = {line["n"] for line in lines if line["ev"] == "reply" and line["code"] == "FRESH"}
    for first, second in zip(server, server[1:]):
        if first["cmd"].startswith("leave") and second["cmd"] == "enter" and second["n"] in fresh - {first["n"]}:
            first["t"], second["t"] = second["t"], first["t"]
            return sorted(lines, key=lambda line: line["t"])
    raise SystemExit("no two lines can be swapped")


def doubled(lines):
    """A process believes that it was let in. So this only proves that replies are compared."""
    for line in lines:
        if line["ev"] == "reply" and line["code"] == "BUSY" and line["ph"] == "wait":
            fence = max(other.get("fence", 0) for other in lines) + 1
            line |= {"code": "FRESH", "ph": "held", "fence": fence, "section": fence, "inside": 1, "dl": 1000}
            return lines
    raise SystemExit("none has waited")


def kept(lines):
    """A process ends its section, and sends no release. What would follow from that is not in the run."""
    inside = {}
    for index, line in enumerate(lines):
        if line.get("ph") == "idle" and inside.get(line["p"]) in line["leaves"]:
            line["leaves"].remove(inside[line["p"]])
            return lines[: index + 1]
        if "ph" in line:
            inside[line["p"]] = line["tok"] if line["ph"] == "held" else None
    raise SystemExit("none has released")


def together(lines):
    """Two tasks of a process are inside."""
    next(line for line in lines if line.get("inside"))["inside"] = 2
    return lines


def repeated(lines):
    """A section has the fencing token of the section before."""
    fences = {}
    for index, line in enumerate(lines):
        if line.get("section"):
            before = fences.get(line["p"])
            if before and begins(lines, index) and before["tok"] == line["tok"]:
                line["fence"] = before["fence"]
                return lines[: index + 1]
            fences[line["p"]] = line
    raise SystemExit("no lease has served two sections")


BREAKS = {"swapped": swapped, "doubled": doubled, "kept": kept, "together": together, "repeated": repeated}


def main():
    source, directory, *how = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        run, *lines = map(json.loads, file)
    exact(lines)
    without_repeated_asks(lines)
    lines = merged(lines)
    for name in how:
        lines = BREAKS[name](lines)
    with open(os.path.join(directory, "Run.tla"), "w", encoding="utf-8") as file:
        file.write(module(run, lines))
    with open(os.path.join(directory, "lines.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
