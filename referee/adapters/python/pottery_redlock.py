"""`pottery.Redlock` with one server: polls, and does not renew by itself."""

import logging
import sys

import redis
from adapter import serve
from pottery import Redlock, ReleaseUnlockedLock

logging.disable(logging.CRITICAL)
client = redis.Redis.from_url(sys.argv[1])


def acquire(key, ttl, wait):
    lock = Redlock(key=key, masters={client}, auto_release_time=ttl)
    return lock if lock.acquire(timeout=wait) else None


def release(lock):
    try:
        lock.release()
    except ReleaseUnlockedLock:
        return False
    return True


serve("pottery", acquire, release, renews=False)
