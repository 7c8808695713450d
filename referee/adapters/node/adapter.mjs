// What all adapters in Node have in common: reads requests, and answers each as soon as it can.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// `acquire` gets a key, a ttl and a limit for waiting in milliseconds, and what to call when the library says that the
// lock is lost. It returns a lock, or null if it is busy. `release` says whether the lock was still held.
export function serve(name, acquire, release, { waits, renews }) {
  const { version } = createRequire(import.meta.url)(`./node_modules/${name}/package.json`);
  const held = new Map();
  const say = (line) => process.stdout.write(`${line.replaceAll("\n", " ")}\n`);
  const answer = async ([command, id, key, ttl, wait]) => {
    try {
      if (command === "acquire") {
        let early = false;
        const lose = () => {
          // A loss is told after the grant.
          if (held.delete(id)) say(`${id} lost`);
          else early = true;
        };
        const lock = await acquire(key, Number(ttl), Number(wait), lose);
        if (lock !== null) held.set(id, lock);
        say(lock === null ? `${id} busy` : `${id} ok`);
        if (early) lose();
      } else {
        const lock = held.get(id);
        held.delete(id);
        say(lock && (await release(lock)) ? `${id} released` : `${id} lost`);
      }
    } catch (error) {
      say(`${id} error ${error.name}: ${error.message}`);
    }
  };
  say(`hello ${name} ${version} tokens=no waits=${waits ? "yes" : "no"} renews=${renews ? "yes" : "no"}`);
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => answer(line.split(" ")));
  lines.on("close", () => process.exit(0));
}
