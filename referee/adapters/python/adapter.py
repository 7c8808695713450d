"""What all adapters in Python have in common: reads requests, and answers each in a thread of its own."""

import importlib.metadata
import sys
import threading

writing = threading.Lock()
held = {}


def say(line):
    with writing:
        print(line, flush=True)


def answer(words, acquire, release, granted):
    number = words[1]
    try:
        if words[0] == "acquire":
            lock = acquire(words[2], int(words[3]) / 1000, int(words[4]) / 1000)
            if lock is None:
                return say(f"{number} busy")
            # Together: a loss is told after the grant.
            with writing:
                held[number] = lock
                print(f"{number} ok", flush=True)
            granted()
        else:
            lock = held.pop(number, None)
            say(f"{number} released" if lock is not None and release(lock) else f"{number} lost")
    except Exception as error:  # Whatever it is, the referee wants to know it.
        say(f"{number} error {type(error).__name__}: {error}".replace("\n", " "))


def lose_all():
    """Tells the holders of all locks that these are lost, and returns the locks."""
    with writing:
        numbers = list(held)
        lost = [held.pop(number) for number in numbers]
        for number in numbers:
            print(f"{number} lost", flush=True)
    return lost


def serve(package, acquire, release, renews, granted=lambda: None):
    """`acquire` gets a key, a ttl and a limit for waiting in seconds, and returns a lock, or None if it is busy.

    `release` says whether the lock was still held. `granted` is called after each grant.
    """
    version = importlib.metadata.version(package)
    say(f"hello {package} {version} tokens=no waits=yes renews={'yes' if renews else 'no'}")
    for line in sys.stdin:
        words = line.split()
        threading.Thread(target=answer, args=(words, acquire, release, granted), daemon=True).start()
