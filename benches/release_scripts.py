#!/usr/bin/env python3
"""What the scripts of a release cost a Redis server: `leave_alone` beside `leave`, and `leave` with and without `hand_on`.

    python3 benches/release_scripts.py

The forms take turns on one server, which is started on a Unix socket and ended. Printed: medians over the rounds.
"""

import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../distlock/src/backend/redis/scripts")
ROUNDS, RELEASES, TOGETHER = 9, 20_000, 100
KEY, TOKEN, WAITER = "order:4242", "dl1:checkout-0123456789abcdef:123456", "dl1:other:9"
KEYS = [KEY] + [f"dl1:{kind}:{KEY}" for kind in "qwfm"]
SETTINGS = "1 0 100000 dl1:ch:"


def lua(*names):
    return "".join(open(os.path.join(SCRIPTS, f"{name}.lua")).read() for name in names)


FORMS = {
    "leave": lua("leave_fast", "clock", "push", "gap", "hand_on", "queue", "members", "serve", "leave"),
    "leave without hand_on": lua("leave_fast", "clock", "push", "gap", "queue", "members", "serve", "leave"),
    "leave_alone": lua("leave_alone"),
}


def encoded(*words):
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Server:
    def __init__(self, folder):
        path = os.path.join(folder, "socket")
        self.path = path
        arguments = ["--unixsocket", path, "--port", "0", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(["redis-server", *arguments], stdout=subprocess.DEVNULL)
        while not os.path.exists(path):
            time.sleep(0.01)
        self.socket = self.connection()
        self.replies = self.socket.makefile("rb")
        self.hashes = {form: self.ask("SCRIPT", "LOAD", text).decode() for form, text in FORMS.items()}

    def connection(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        return connection

    def reply(self):
        line = self.replies.readline().strip()
        if line[:1] == b"-":
            raise RuntimeError(line)
        if line[:1] == b"$":
            length = int(line[1:])
            return None if length < 0 else self.replies.read(length + 2)[:-2]
        return [self.reply() for _ in range(int(line[1:]))] if line[:1] == b"*" else line[1:]

    def ask(self, *words):
        self.socket.sendall(encoded(*words))
        return self.reply()

    def script_time(self, commands, form_of_last):
        """Microseconds of scripts for each repetition of these commands, the last of which is the release."""
        self.ask("CONFIG", "RESETSTAT")
        for _ in range(RELEASES // TOGETHER):
            self.socket.sendall(b"".join(commands) * TOGETHER)
            for _ in range(TOGETHER * len(commands)):
                reply = self.reply()
        released = reply[0] if isinstance(reply, list) else reply.split()[0]
        assert released == b"RELEASED", (form_of_last, reply)
        lines = self.ask("INFO", "commandstats").decode().split("\r\n")
        line = next(line for line in lines if line.startswith("cmdstat_evalsha:"))
        return float(line.split("usec=")[1].split(",")[0]) / RELEASES

    def release(self, form, keys, *arguments):
        return encoded("EVALSHA", self.hashes[form], keys, *KEYS[:keys], TOKEN, *arguments)


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            measure(server)
        finally:
            server.process.terminate()
            server.process.wait()


def measure(server):
    subscriber = server.connection()
    subscriber.sendall(encoded("SUBSCRIBE", "dl1:ch:other"))
    threading.Thread(target=lambda: all(iter(lambda: subscriber.recv(1 << 20), b"")), daemon=True).start()
    taken = encoded("SET", KEY, TOKEN, "PX", 30_000)
    waited_for = [
        taken,
        encoded("RPUSH", KEYS[1], WAITER),
        encoded("HSET", KEYS[2], WAITER, "99999999999999999 3000 0 w e"),
    ]
    short = server.release("leave_alone", 2)
    cases = {
        ("nobody waits", "leave_alone"): [taken, short],
        ("nobody waits", "leave"): [taken, server.release("leave", 5, SETTINGS)],
        ("one waits", "leave"): [*waited_for, server.release("leave", 5, 0, 0, SETTINGS)],
        ("one waits", "leave without hand_on"): [
            *waited_for, server.release("leave without hand_on", 5, 0, 0, SETTINGS)
        ],
        ("one waits", "leave_alone, then leave"): [
            *waited_for, short, server.release("leave", 5, 0, 0, SETTINGS)
        ],
    }
    times = {case: [] for case in cases}
    for number in range(ROUNDS + 1):
        for case in list(cases) if number % 2 else reversed(list(cases)):
            took = server.script_time(cases[case], case)
            if number:
                times[case].append(took)
    for (when, form), took in times.items():
        print(f"{when}: {form}: {statistics.median(took):.2f} µs of the server for a release")


if __name__ == "__main__":
    main()
