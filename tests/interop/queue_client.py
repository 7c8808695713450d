"""Stands in the same queue as distlock's own processes, as docs/protocol.md says. Arguments: port, folder of the scripts.

Speaks the language of `lock-client`: one command per line, one JSON object per answer.
"""

import json
import os
import pathlib
import sys
import time

import redis

PORT, SCRIPTS = int(sys.argv[1]), pathlib.Path(sys.argv[2])
CLAIM, HEARTBEAT, ENTRY = 3_000, 2.0, 10_000  # milliseconds, seconds, milliseconds
GAP_MS, GAP_INTERVAL_US = 10, 200_000

server = redis.Redis(host="127.0.0.1", port=PORT, decode_responses=True)
client = "python." + os.urandom(6).hex()
pushes = server.pubsub(ignore_subscribe_messages=False)
pushes.subscribe(f"dl1:c:{client}")
while pushes.get_message(timeout=10)["type"] != "subscribe":
    pass
numbers = iter(range(1, 1 << 40))


def script(*files):
    text = "".join((SCRIPTS / f"{file}.lua").read_text() for file in files)
    return server.register_script(text)


enter_script = script("clock", "push", "queue", "enter")
leave_script = script("leave_fast", "clock", "push", "gap", "hand_on", "queue", "members", "serve", "leave")


def names(key):
    return [key, f"dl1:q:{key}", f"dl1:e:{key}", "dl1:f", f"dl1:m:{key}"]


def enter(key, token, ttl, mode):
    reply = enter_script(keys=names(key), args=[token, ttl, min(CLAIM, ttl), ENTRY, 0, mode])
    assert reply[1] == token, f"the answer to another command: {reply}"
    return reply


def leave(key, token, began):
    settings = f"1 {GAP_MS} {GAP_INTERVAL_US} dl1:c:"
    reply = leave_script(keys=names(key), args=[token, 0, began, settings])
    words = reply.split() if isinstance(reply, str) else reply
    assert words[:2] == ["RELEASED", token], f"lost: {reply}"


def acquire(key, ttl):
    """Returns the token, and when the run of hand-offs began."""
    token, mode, began, granted = f"dl1:{client}:{next(numbers)}", "wait", 0, 0
    while True:
        status, _, *rest = enter(key, token, ttl, mode)
        if status in ("FRESH", "MINE"):
            return token, began, granted
        assert status == "BUSY", status
        mode = "held"
        remaining = int(rest[2]) / 1000 if int(rest[2]) > 0 else HEARTBEAT
        wait = time.monotonic() + min(HEARTBEAT, remaining)
        while (left := wait - time.monotonic()) > 0:
            message = pushes.get_message(timeout=left)
            if message is None or message["type"] != "message":
                continue
            what, *fields = message["data"].split(" ", 5)
            if what == "g" and fields[3] == token:
                # Ours since the server's time in fields[0]: `enter` makes it last for the whole ttl.
                began, granted = int(fields[1]), granted + 1
                break
            if what == "p" and fields[0] == token:
                time.sleep(GAP_MS / 1000)  # left free for clients that poll
                break


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


say("ready")
for line in sys.stdin:
    command, key, count, ttl, tally = line.split()
    assert command == "sections", command
    pushed = 0
    for _ in range(int(count)):
        token, began, granted = acquire(key, int(ttl))
        pushed += granted
        entered = now()
        server.set(tally, int(server.get(tally) or 0) + 1)
        left = now()
        leave(key, token, began)
        say("section", key=key, entered=entered, left=left)
    say("done", key=key, pushed=pushed)
