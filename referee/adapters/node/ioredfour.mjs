// ioredfour: waits for a message, or for the end of the ttl, and does not renew by itself.
import Lock from "ioredfour";
import { serve } from "./adapter.mjs";

const locks = new Lock({ redis: process.argv[2], namespace: "referee" });
// Otherwise each cut link is reported on the terminal.
locks._redisConnection.on("error", () => {});
locks._redisSubscriber.on("error", () => {});

async function acquire(key, ttl, wait) {
  const lock = await locks.waitAcquireLock(key, ttl, wait);
  return lock.success ? lock : null;
}

async function release(lock) {
  return (await locks.releaseLock(lock)).result === "released";
}

serve("ioredfour", acquire, release, { waits: true, renews: false });
