// A server as a process of its own: node host.ts <module>. It loads the module, whose default function returns the config
// (`Hosted`), and opens the server when the test sends the options. Without a module it only loads its code.
import { flushCompileCache } from "node:module";
import { pathToFileURL } from "node:url";
import { toProject } from "../../src/config/load.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { closeOnSignal } from "../../src/server/shutdown.ts";
import type { CreateHosted, FromHost, Hosted, Memory, ToHost } from "./hosted.ts";
import { keepRecords } from "./logged.ts";

keepRecords();
const path = process.argv[2];
if (path === undefined) process.exit();
const { default: create } = (await import(pathToFileURL(path).href)) as { default: CreateHosted };
// The next process loads faster. One that is killed would not write the cache.
flushCompileCache();

let orders: Hosted["orders"];
let server: OpenServer | undefined;
const send = (message: FromHost): void => void process.send!(message);

async function start(options: unknown): Promise<void> {
  const hosted = await create(options, (report) => send({ report }));
  if (!hosted) return;
  const { config, onListening, orders: own, ...parts } = hosted;
  orders = own;
  server = openServer(toProject(config), { mode: "start", ...parts });
  closeOnSignal(() => server!.close(), {
    shuttingDown: () => console.log("shutting down"),
    shutdownFailed: console.error,
  });
  const { url } = await server.listen({ port: 0 });
  await onListening?.(server);
  send({ url });
}

/** Carries out an order. Every host knows `memory`. */
async function execute(name: string, value: unknown): Promise<unknown> {
  if (name === "memory") return readMemory();
  return orders![name]!(value, server!);
}

/** Collects garbage first: the host must run with `--expose-gc`. */
function readMemory(): Memory {
  for (let times = 0; times < 3; times++) globalThis.gc!();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss };
}

process.on("message", async (message: ToHost) => {
  if ("start" in message) return start(message.start);
  const { order, value, id } = message;
  send({ id, reply: await execute(order, value) });
});
process.on("disconnect", () => process.exit()); // the test is over
