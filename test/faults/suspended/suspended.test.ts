import { once } from "node:events";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { bySize } from "../../harness/size.ts";
import { startHost, type Host } from "../../harness/start-host.ts";
import { timed } from "../../harness/waiting.ts";

const count = bySize(2_400, 10_000);
const warming = bySize(1_000, 2_000);
const parts = 4;

it(`keeps ${count} suspended executions at next to no memory, listens again as soon as without them, and resumes them`, async () => {
  const folder = createFolder("suspended");
  const first = await open(join(folder, "data.db"));
  await begin(first.url, warming); // until it is warm
  const grown: { heap: number; rss: number }[] = [];
  for (let before = await first.memory(); grown.length < parts;) {
    await begin(first.url, count / parts);
    const after = await first.memory();
    grown.push({ heap: after.heap - before.heap, rss: after.rss - before.rss });
    before = after;
  }
  // What is kept is there in each part. What a busy machine adds is not.
  const heapEach = Math.min(...grown.map(({ heap }) => heap)) / (count / parts);
  const rssEach = Math.min(...grown.map(({ rss }) => rss)) / (count / parts);
  await first.end();

  const empty = await timed(() => open(join(folder, "empty.db")));
  const second = await timed(() => open(join(folder, "data.db")));
  const again = await second.value.memory();
  const idle = await empty.value.memory();
  const restartEach = (again.rss - idle.rss) / (count + warming);
  const figures = [heapEach, rssEach, restartEach].map((bytes) => Math.round(bytes));
  console.log(
    `suspended: bytes each ${figures[0]} of heap, ${figures[1]} of RSS, ${figures[2]} of RSS after a restart;`,
    `listening after ${Math.round(second.ms)} ms, with an empty file after ${Math.round(empty.ms)} ms`,
  );
  expect(Math.max(...figures)).toBeLessThan(2_048);
  expect(second.ms).toBeLessThan(2 * empty.ms + 1_000);

  const ids = await list(second.value.url, 200);
  const answers = await Promise.all(
    ids.map((id) => post(second.value.url, `/executions/${id}/resume`, { resumeData: id })),
  );
  expect(answers).toEqual(ids.map((id) => expect.objectContaining({ status: "completed", result: id })));
});

function open(file: string): Promise<Host> {
  // With the young generation at its full size from the start, RSS grows by what is kept, not by how busy it was.
  const execArgv = ["--expose-gc", "--min-semi-space-size=2", "--max-semi-space-size=2"];
  return startHost(join(import.meta.dirname, "asks-app.ts"), { file }, { execArgv });
}

/** With a client that costs next to nothing: these are most of the test's time. */
async function begin(url: string, many: number): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  const headers = { "content-type": "application/json" };
  let left = many;
  const one = async (): Promise<void> => {
    while (left-- > 0) {
      const sent = request(`${url}/workflows/asks/execute`, { method: "POST", headers, agent }).end(`{"input":{}}`);
      const [response] = await once(sent, "response");
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      await once(response, "end");
      expect(JSON.parse(text).data.status).toBe("suspended");
    }
  };
  await Promise.all(Array.from({ length: 16 }, one));
  agent.destroy();
}

async function post(url: string, path: string, body: unknown): Promise<{ status: string }> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/workflows/asks${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return (await response.json()).data;
}

async function list(url: string, limit: number): Promise<string[]> {
  const response = await fetch(`${url}/workflows/asks/executions?status=suspended&limit=${limit}`);
  return (await response.json()).data.items.map(({ executionId }: { executionId: string }) => executionId);
}
