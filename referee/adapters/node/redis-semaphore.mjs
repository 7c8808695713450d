// `Mutex` of redis-semaphore: polls, and renews.
import Redis from "ioredis";
import { Mutex, TimeoutError } from "redis-semaphore";
import { serve } from "./adapter.mjs";

const client = new Redis(process.argv[2]);
client.on("error", () => {});

async function acquire(key, ttl, wait, lose) {
  const state = { lost: false };
  const mutex = new Mutex(client, key, {
    lockTimeout: ttl,
    acquireTimeout: wait,
    onLockLost: () => {
      state.lost = true;
      lose();
    },
  });
  return (await mutex.tryAcquire()) || (await waited(mutex)) ? { mutex, state } : null;
}

async function waited(mutex) {
  try {
    await mutex.acquire();
    return true;
  } catch (error) {
    // Its name is that of any error.
    if (error instanceof TimeoutError) return false;
    throw error;
  }
}

async function release({ mutex, state }) {
  const was = mutex.isAcquired && !state.lost;
  await mutex.release();
  return was;
}

serve("redis-semaphore", acquire, release, { waits: true, renews: true });
