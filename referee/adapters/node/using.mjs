// `using` of redlock and of its descendant, with one server: polls, and renews. Its signal tells a loss.
import Redis from "ioredis";
import { serve } from "./adapter.mjs";

const DELAY = 200;

export function serveUsing(name, Redlock, ExecutionError) {
  const client = new Redis(process.argv[2]);
  client.on("error", () => {});

  async function acquire(key, ttl, wait, lose) {
    const redlock = new Redlock([client], {
      retryCount: Math.ceil(wait / DELAY),
      retryDelay: DELAY,
      automaticExtensionThreshold: Math.min(500, ttl / 2),
    });
    redlock.on("error", () => {});
    const entered = gate();
    const left = gate();
    const ended = redlock.using([key], ttl, async (signal) => {
      signal.addEventListener("abort", () => {
        lose();
        left.resolve();
      });
      entered.resolve();
      await left.promise;
    });
    const released = ended.then(
      () => true,
      (error) => {
        if (error instanceof ExecutionError) return false;
        throw error;
      },
    );
    // What fails before the lock is held is the answer to the request.
    return Promise.race([entered.promise.then(() => ({ leave: left.resolve, released })), released.then(() => null)]);
  }

  function release({ leave, released }) {
    leave();
    return released;
  }

  serve(name, acquire, release, { waits: true, renews: true });
}

function gate() {
  const made = {};
  made.promise = new Promise((resolve) => {
    made.resolve = resolve;
  });
  return made;
}
