import { toObject } from "../../core/json.ts";
import { Client } from "../call/client.ts";
import { ConnectionError } from "../call/failure.ts";
import { toTarget } from "../call/target.ts";
import type { RunItem, RunSource } from "./source.ts";

export interface ServerFlags {
  readonly url?: string;
  readonly token?: string;
}

/** The executions of a running server. */
export interface ServerRuns extends RunSource {
  readonly client: Client;
}

const pageItems = 200;

export function openServerRuns(flags: ServerFlags): ServerRuns {
  const target = toTarget(flags);
  const client = new Client(target, (line) => void process.stderr.write(`${line}\n`));
  const get = (path: string): Promise<unknown> =>
    client.get(path).catch((error: unknown) => {
      if (!(error instanceof ConnectionError) || error.wasSent) throw error;
      const hint = `${error.hint}; read the file of a stopped server with --data .agentserve/data.db`;
      throw new ConnectionError(error.message, { hint, wasSent: false });
    });

  /** Follows `nextCursor` until there are enough items. */
  async function readPages<Item>(
    path: string,
    query: Record<string, string | undefined>,
    limit: number,
  ): Promise<Item[]> {
    const items: Item[] = [];
    for (let cursor: string | undefined; ;) {
      const asked = { ...query, limit: String(Math.min(limit - items.length, pageItems)), cursor };
      const given = Object.entries(asked).filter((entry): entry is [string, string] => entry[1] !== undefined);
      const page = toObject(await get(`${path}?${new URLSearchParams(given)}`));
      items.push(...((Array.isArray(page["items"]) ? page["items"] : []) as Item[])); // as our server sends them
      if (typeof page["nextCursor"] !== "string" || items.length >= limit) return items;
      cursor = page["nextCursor"];
    }
  }

  return {
    client,
    flag: target.flag,
    list: ({ statuses, workflow: workflowId, kind, user: userId, id, limit }) =>
      readPages<RunItem>("/executions", { status: statuses?.join(), workflowId, kind, userId, id }, limit),
    state: (run) => get(`${toPath(run)}/state`) as ReturnType<RunSource["state"]>, // as our server sends it
    steps: (run, filter) => readPages(`${toPath(run)}/steps`, { ...filter }, Infinity),
  };
}

export const toPath = ({ workflowId, executionId }: Pick<RunItem, "workflowId" | "executionId">): string =>
  `/workflows/${encodeURIComponent(workflowId)}/executions/${encodeURIComponent(executionId)}`;
