// `Redlock` of redlock, with one server: polls. Its automatic extension belongs to `using`; here locks are not renewed.
import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock";
import { serve } from "./adapter.mjs";

const client = new Redis(process.argv[2]);
client.on("error", () => {});
const DELAY = 200;

async function acquire(key, ttl, wait) {
  const redlock = new Redlock([client], { retryCount: Math.ceil(wait / DELAY), retryDelay: DELAY });
  redlock.on("error", () => {});
  try {
    return await redlock.acquire([key], ttl);
  } catch (error) {
    if (error instanceof ExecutionError) return null;
    throw error;
  }
}

async function release(lock) {
  try {
    await lock.release();
    return true;
  } catch (error) {
    if (error instanceof ExecutionError) return false;
    throw error;
  }
}

serve("redlock", acquire, release, { waits: true, renews: false });
