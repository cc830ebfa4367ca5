import { createServer } from "node:net";
import { ConfigError } from "../../config/error.ts";

const tries = 100;

/** Returns the port if it is free, or with `mayMove` the next free one. Throws if there is none. */
export async function freePort({
  port,
  host,
  mayMove,
}: {
  port: number;
  host: string;
  mayMove: boolean;
}): Promise<number> {
  for (let next = port; next < port + (mayMove ? tries : 1); next++) {
    if (await isFree(next, host)) return next;
  }
  throw portTaken(port);
}

export function portTaken(port: number): ConfigError {
  return new ConfigError(`Port ${port} is already in use`, {
    hint: "stop the other process, or choose another port with --port",
  });
}

async function isFree(port: number, host: string): Promise<boolean> {
  const probe = createServer();
  const outcome = Promise.withResolvers<boolean>();
  probe.once("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EADDRINUSE") outcome.resolve(false);
    else {
      const hint = "choose another address with --host, or another port with --port";
      outcome.reject(new ConfigError(`Cannot listen on ${host}:${port}: ${error.message}`, { hint, cause: error }));
    }
  });
  probe.listen(port, host, () => probe.close(() => outcome.resolve(true)));
  return outcome.promise;
}
