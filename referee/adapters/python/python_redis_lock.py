"""`redis_lock.Lock` of python-redis-lock: waits by BLPOP, and renews. Its ttl is a whole number of seconds."""

import logging
import math
import sys
import threading

import redis
import redis_lock
from adapter import serve

logging.disable(logging.CRITICAL)
# Otherwise each renewal that fails is reported on the terminal, as the end of its thread.
threading.excepthook = lambda _: None
client = redis.Redis.from_url(sys.argv[1])


def acquire(key, ttl, wait):
    lock = redis_lock.Lock(client, key, expire=math.ceil(ttl), auto_renewal=True)
    return lock if lock.acquire(timeout=math.ceil(wait)) else None


def release(lock):
    try:
        lock.release()
    except redis_lock.NotAcquired:
        return False
    return True


serve("python-redis-lock", acquire, release, renews=True)
