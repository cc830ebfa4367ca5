import { expect, it } from "vitest";
import { openSocket } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";
import { openConsole } from "./world.ts";

const mark = { "x-agentserve-console": "1" };
const toRoutes = (logs: readonly { level: string; message: string; data?: any }[]) =>
  logs.filter(({ message }) => message === "Request completed").map(({ level, data }) => `${level} ${data.route}`);

it("dev logs reads of the console page at debug, so that the log is about the application", async () => {
  const { ask, logs } = await openConsole();
  await ask("/workflows", { headers: mark });
  await ask("/workflows");
  await ask("/console/session", { headers: mark });
  await ask("/events", { headers: mark, json: { name: "paid" } });
  await eventually(() =>
    expect(toRoutes(logs)).toEqual(["debug /workflows", "info /workflows", "debug /console/session", "info /events"]),
  );
});

it.each([
  ["dev", "have no spans", ["GET /agents"]],
  ["start", "have spans: anyone can send the mark", ["GET /workflows", "GET /agents"]],
] as const)("reads of the console page in %s %s", async (mode, _, expected) => {
  const { ask, url } = await openConsole({ console: true }, { mode });
  const socket = await openSocket(`${url.replace("http", "ws")}/ws/observability`);
  await ask("/workflows", { headers: mark });
  await ask("/agents");
  const named = new Set<string>();
  while (!named.has("GET /agents")) {
    const { type, data } = await socket.next();
    if (type === "OBSERVABILITY_EVENT") named.add(data.span.name);
  }
  expect([...named]).toEqual(expected);
});
