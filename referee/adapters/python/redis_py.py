"""`redis.lock.Lock` of redis-py: polls, and does not renew."""

import sys

import redis
from redis.exceptions import LockError
from adapter import serve

client = redis.Redis.from_url(sys.argv[1])


def acquire(key, ttl, wait):
    # A lock may be released by another thread than the one that has acquired it.
    lock = client.lock(key, timeout=ttl, blocking_timeout=wait, thread_local=False)
    return lock if lock.acquire() else None


def release(lock):
    try:
        lock.release()
    except LockError:
        return False
    return True


serve("redis", acquire, release, renews=False)
