// A log of a test's own behind real routes and sockets, with a clock of its own.
import { onTestFinished, vi } from "vitest";
import { runInScope } from "../../../src/core/scope.ts";
import { createLogs, type Logs } from "../../../src/observability/logs.ts";
import { logRoutes } from "../../../src/observability/routes.ts";
import { logSocket } from "../../../src/observability/log-socket.ts";
import { withBounds } from "../../harness/bounds.ts";
import { startServer, type TestServer, type TestSocket } from "../../harness/server.ts";
import { began, type Plan, type Written } from "./oracle.ts";

export interface World {
  readonly server: TestServer;
  readonly logs: Logs;
  /** All that was ever written. */
  readonly written: Written[];
  /** How many listen. */
  listeners(): number;
  write(plans: readonly Plan[]): void;
}
export interface WorldLimits {
  logRecords?: number;
  logBytes?: number;
  socketBufferBytes?: number;
}

export const httpPath = "/test/logs";
export const socketPath = "/test/logs/live";

export async function openWorld(limits: WorldLimits = {}, target: "in process" | "start" = "start"): Promise<World> {
  const { socketBufferBytes = 1_048_576, logRecords = 10_000, logBytes = 16_777_216 } = limits;
  let now = began;
  const clock = vi.spyOn(Date, "now").mockImplementation(() => now);
  const inner = createLogs({ logRecords, logBytes, output: () => {} });
  let listening = 0;
  const logs: Logs = {
    ...inner,
    listen(listener) {
      const stop = inner.listen(listener);
      let isOn = true;
      listening++;
      return () => {
        if (isOn) listening--;
        isOn = false;
        stop();
      };
    },
  };
  const server = await startServer(target, {
    config: withBounds({ socketBufferBytes, sockets: 5_000 }, {}),
    rows: [
      ...logRoutes(logs).map((row) => ({ ...row, path: httpPath })),
      { ...logSocket(logs, { socketBufferBytes }), path: socketPath },
    ],
  });
  onTestFinished(async () => {
    await server.close();
    clock.mockRestore();
  });
  const written: Written[] = [];
  return {
    server,
    logs,
    written,
    listeners: () => listening,
    write(plans) {
      for (const { level, later, pad, agentId, workflowId, executionId } of plans) {
        now += later;
        const seq = written.length + 1;
        const message = `${seq} ${"x".repeat(pad)}`;
        written.push({ seq, at: now, level, message, agentId, workflowId, executionId });
        runInScope({ agentId, workflowId, executionId }, () => logs.logger[level](message));
      }
    },
  };
}

/** What a record is to its readers. */
export function toRecord({ at, ...rest }: Written): object {
  const entries = Object.entries({ ...rest, timestamp: new Date(at).toISOString() });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/** Whatever has come until now. */
export async function readAll(socket: TestSocket): Promise<any[]> {
  await new Promise((resolve) => setImmediate(resolve)); // whoever listens may be told once a turn
  socket.send('{"type":"PING"}');
  const found: any[] = [];
  for (;;) {
    const message = await socket.next();
    if (message.type === "PONG") return found;
    found.push(message);
  }
}
