import { expect } from "vitest";
import type { Running } from "./client.ts";
import type { Case } from "./faults.ts";
import type { Mode } from "./oracle-modes.ts";
import { fill, type Minted } from "./tokens.ts";
import { eventually } from "../../harness/waiting.ts";

/** What has become of the case's execution. */
export function toStatus({ route, due }: Case): string | undefined {
  const [request = ""] = route.name.split(" | ");
  const [, before] = /\{(running|suspended)\}/.exec(request) ?? [];
  if (due.refused || due.status[0]! >= 400) return before;
  if (request.endsWith("/suspend")) return "suspended";
  if (request.endsWith("/cancel")) return "error";
  return /^POST \/workflows\/.*\/(execute|stream|resume)$/.test(request) ? "completed" : before;
}

const asAda = ({ provider }: Mode, minted: Minted): [string, string] =>
  provider === "cookie"
    ? ["cookie", fill("session=<session valid>", minted)]
    : ["authorization", fill("Bearer <valid>", minted)];

export async function execute(
  server: Running,
  [mode, minted]: readonly [Mode, Minted],
  workflow: string,
  executionId: string,
): Promise<void> {
  const answer = await server.send({
    method: "POST",
    path: `/workflows/${workflow}/execute`,
    headers: [
      asAda(mode, minted),
      ["content-type", "application/json"],
      ["prefer", workflow === "waits" ? "respond-async" : "wait"],
    ],
    body: JSON.stringify({ input: { n: 1 }, options: { executionId } }),
  });
  if (answer.status > 202) throw new Error(`cannot begin ${workflow}: ${answer.text}`);
}

/** On a busy machine that process may come too late for whoever asks first. */
export async function warmUp(server: Running, mode: Mode, minted: Minted): Promise<void> {
  const headers = [asAda(mode, minted), ["content-type", "application/json"] as const];
  const body = JSON.stringify({ input: "warm up", schema: { type: "object" } });
  const wire = { method: "POST", path: "/agents/helper/object", headers, body };
  await eventually(async () => expect((await server.send(wire)).status).toBe(200));
}

/** Of every execution that exists, once none of `quick` and `asks` runs any more. */
export async function readStatuses(server: Running, mode: Mode, minted: Minted): Promise<Map<string, string>> {
  const statuses = new Map<string, string>();
  for (const workflow of ["quick", "asks", "waits"]) {
    let cursor: string | null = "";
    while (cursor !== null) {
      const path = `/workflows/${workflow}/executions?limit=200${cursor && `&cursor=${cursor}`}`;
      const answer = await server.send({ method: "GET", path, headers: [asAda(mode, minted)] });
      const { items, nextCursor } = JSON.parse(answer.text).data;
      for (const { executionId, status } of items) statuses.set(executionId, status);
      cursor = nextCursor;
    }
    const isBusy = workflow !== "waits" && [...statuses.values()].includes("running");
    if (isBusy) return readStatuses(server, mode, minted);
  }
  return statuses;
}
