import { copyFileSync, existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { embedded, type Config } from "agentserve";
import { createClock, createServer, type TestClock } from "agentserve/testing";
import { onTestFinished } from "vitest";
import { newFile } from "../../harness/folders.ts";

export { newFile };

export const start = "2030-01-01T00:00:00.000Z";
/** An ISO time, some milliseconds after `start`. */
export const after = (ms: number): string => new Date(Date.parse(start) + ms).toISOString();
export const minute = 60_000;
export const hour = 60 * minute;

export interface Answer {
  status: number;
  body: any;
}

/** A server in memory, or on a file, with a clock that starts at `start` unless it is given. */
export function serve(config: Config, { file = ":memory:", clock = createClock({ now: start }) as TestClock } = {}) {
  const server = createServer({ backend: embedded({ path: file }), ...config }, { clock });
  onTestFinished(() => server.close());
  const send = async (path: string, init?: RequestInit): Promise<Answer> => {
    const response = await server.fetch(new Request(`http://localhost${path}`, init));
    return { status: response.status, body: await response.json() };
  };
  const post = (path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> =>
    send(path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json", ...headers },
    });
  return {
    clock,
    server,
    close: () => server.close(),
    get: (path: string) => send(path),
    post,
    /** Starts an execution whose id is that of its workflow, unless it is given. */
    begin: (workflow: string, executionId = workflow, input: object = {}) =>
      post(`/workflows/${workflow}/execute`, { input, options: { executionId } }, { prefer: "respond-async" }),
    resume: (workflow: string, body: object = {}, id = workflow) =>
      post(`/workflows/${workflow}/executions/${id}/resume`, body, { prefer: "respond-async" }),
    state: async (workflow: string, id = workflow) =>
      (await send(`/workflows/${workflow}/executions/${id}/state`)).body.data,
  };
}

/** A copy of the file of a server that runs: what a SIGKILL would leave. */
export function copyOf(file: string): string {
  const copy = newFile();
  for (const end of ["", "-wal"]) if (existsSync(file + end)) copyFileSync(file + end, copy + end);
  return copy;
}
/** Looks into a data file. */
export function query<Row>(path: string, sql: string): Row[] {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return db.prepare(sql).all() as Row[];
  } finally {
    db.close();
  }
}
