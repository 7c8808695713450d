// `Mutex` of redis-semaphore: polls, and renews. It tells a loss.
import Redis from "ioredis";
import { Mutex } from "redis-semaphore";
import { serve } from "./adapter.mjs";

const client = new Redis(process.argv[2]);
client.on("error", () => {});

async function acquire(key, ttl, wait, lose) {
  const mutex = new Mutex(client, key, { lockTimeout: ttl, acquireTimeout: wait, onLockLost: lose });
  return (await mutex.tryAcquire()) ? mutex : null;
}

async function release(mutex) {
  const held = mutex.isAcquired;
  await mutex.release();
  return held;
}

serve("redis-semaphore", acquire, release, { waits: true, renews: true });
