import { expect, it } from "vitest";
import { within } from "../harness/waiting.ts";
import { startDev, workflow } from "./dev-server.ts";

/** A config whose `authorize` shows a caller only executions with this beginning of the id. Without one, only their own. */
const toConfig = (shown?: string): string => `import { defineConfig } from "agentserve";
export default defineConfig({
  auth: { type: "names", verifyToken: (token) => ({ id: token }) },
  ${shown ? `authorize: ({ execution }) => !execution || execution.executionId.startsWith("${shown}"),` : ""}
  onDispose: () => console.log("disposed of ${shown}"),
});
`;

it("ends GET /executions/stream after a save, and the next one asks the new authorize", async () => {
  const dev = await startDev({ "agents.config.ts": toConfig("a-"), "workflows/it.ts": workflow("it") });
  const headers = { authorization: "Bearer ben", "content-type": "application/json" };
  const run = (executionId: string) => {
    const body = JSON.stringify({ input: {}, options: { executionId } });
    return fetch(`${dev.url}/workflows/it/execute`, { method: "POST", body, headers });
  };
  async function follow() {
    const response = await fetch(`${dev.url}/executions/stream`, { headers });
    expect(response.status).toBe(200);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const read = async (pattern: RegExp | undefined): Promise<string> => {
      while (!pattern?.test(text)) {
        const { done, value } = await within(reader.read(), `${pattern ?? "the end"}, after ${text}`);
        if (done && !pattern) return text;
        if (done) throw new Error(`ended before ${pattern}: ${text}`);
        text += value;
      }
      return text;
    };
    return { read, leave: () => reader.cancel() };
  }

  const first = await follow();
  await run("b-1");
  await run("a-1");
  expect(await first.read(/completed/)).not.toContain("b-1");
  const disposed = await dev.said(/disposed of a-/, () => dev.save({ "agents.config.ts": toConfig("b-") }));
  expect(disposed).toContain("disposed of a-");
  await first.read(undefined);

  const second = await follow();
  await run("a-2");
  await run("b-2");
  expect(await second.read(/completed/)).not.toContain("a-2");
  await dev.serves({ "agents.config.ts": toConfig() });
  await second.read(undefined);

  // A version without `authorize` is followed by one that has it.
  const third = await follow();
  await dev.serves({ "agents.config.ts": toConfig("a-") });
  await third.read(undefined);
  const last = await follow();
  await run("b-3");
  await run("a-3");
  expect(await last.read(/completed/)).not.toContain("b-3");
  await last.leave();
});
