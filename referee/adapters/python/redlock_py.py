"""`redlock.Redlock` of redlock-py with one server: tries every 0.2 s, and does not renew."""

import logging
import math
import sys

from adapter import serve
from redlock import Redlock

logging.disable(logging.CRITICAL)


def acquire(key, ttl, wait):
    redlock = Redlock([sys.argv[1]], retry_count=math.ceil(wait / Redlock.default_retry_delay) + 1)
    lock = redlock.lock(key, int(ttl * 1000))
    return (redlock, lock) if lock else None


def release(held):
    redlock, lock = held
    # It does not say whether the lock was held.
    redlock.unlock(lock)
    return True


serve("redlock-py", acquire, release, renews=False)
