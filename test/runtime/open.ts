import { onTestFinished } from "vitest";
import { createServer, type Config, type Server } from "agentserve";
import { chosenBackend } from "../harness/backends.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Opens a server until the test is over. @default on the backend that `TEST_BACKEND` names */
export function open(config: Config): Server {
  const backend = config.backend ?? chosenBackend.create();
  const server = createServer({ logger: silent, ...config, backend });
  onTestFinished(async () => {
    await server.close();
    if (!config.backend) await chosenBackend.discard?.(backend);
  });
  return server;
}
