"""`kazoo.recipe.lock.Lock`: a lock lasts as long as the session, which is 2 s without its server."""

import logging
import sys
import threading
from urllib.parse import urlsplit

from adapter import lose_all, serve
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import LockTimeout

logging.disable(logging.CRITICAL)
# A release is tried again until the session has ended: otherwise its node would stay as long as the process.
client = KazooClient(urlsplit(sys.argv[1]).netloc, timeout=2, command_retry={"max_tries": -1})


def on_state(state):
    """As documented: while the client is not connected, no holder relies on a lock."""
    if state != KazooState.CONNECTED:
        for lock in lose_all():
            threading.Thread(target=lock.release, daemon=True).start()


def acquire(key, _ttl, wait):
    lock = client.Lock(f"/{key}")
    try:
        return lock if lock.acquire(timeout=wait) else None
    except LockTimeout:
        return None


client.add_listener(on_state)
client.start(timeout=60)
# A state that changed between the grant and its registration reached a listener that did not know of the lock.
serve("kazoo", acquire, lambda lock: lock.release(), renews=True, granted=lambda: on_state(client.state))
