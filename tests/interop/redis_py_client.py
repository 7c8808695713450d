"""Speaks the language of `lock-client` with the `Lock` of redis-py: one command per line, one JSON object per answer."""

import json
import sys
import time

import redis

server = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
held = {}


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def lock(key, ttl):
    return server.lock(key, timeout=int(ttl) / 1000, sleep=0.003)


say("ready")
for line in sys.stdin:
    command, key, *rest = line.split()
    if command == "try":
        candidate = lock(key, rest[0])
        if candidate.acquire(blocking=False):
            held[key] = candidate
            say("acquired", key=key)
        else:
            say("busy", key=key)
    elif command == "release":
        held.pop(key).release()
        say("released", key=key)
    elif command == "sections":
        count, ttl, tally = int(rest[0]), rest[1], rest[2]
        for _ in range(count):
            with lock(key, ttl):
                entered = now()
                read = int(server.get(tally) or 0)
                server.set(tally, read + 1)
                left = now()
            say("section", key=key, entered=entered, left=left)
        say("done", key=key)
