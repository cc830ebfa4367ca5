import { expect, it } from "vitest";
import { describeServer } from "../harness/server.ts";
import { gates, timesRan, workflows } from "./fixtures.ts";

let counter = 0;
const freshId = (): string => `stream-${++counter}`;
const init = (executionId: string, signal?: AbortSignal): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ input: {}, options: { executionId } }),
  ...(signal && { signal }),
});

describeServer("a workflow's stream", { config: { workflows } }, (server) => {
  const stateOf = async (id: string) => (await server.get(`/workflows/gated/executions/${id}/state`)).body.data;

  it("sends the first events of a stream before the step ends", async () => {
    const id = freshId();
    const response = await server.send("/workflows/gated/stream", init(id));
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let got = "";
    while (!got.includes('"from":"second"')) got += (await reader.read()).value;
    expect(got).toMatch(/^data: \{"type":"workflow-start"/);
    expect((await stateOf(id)).status).toBe("running"); // the gate is still closed
    gates.open(id);
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) got += chunk.value;
    expect(got).toMatch(/"type":"workflow-result"[^\n]*\n\n$/);
  });

  it.each(["execute", "stream"])("continues an execution whose client disconnects from %s", async (action) => {
    if (server.target === "in process") return; // there is nobody who could leave
    const id = freshId();
    const leave = new AbortController();
    const asked = server.send(`/workflows/gated/${action}`, init(id, leave.signal)).then((response) => response.text());
    const left = expect(asked).rejects.toThrow();
    await gates.reached(id);
    leave.abort();
    await left;
    gates.open(id);
    await expect.poll(async () => (await stateOf(id)).status).toBe("completed");
    expect([timesRan(id, "first"), timesRan(id, "second"), timesRan(id, "third")]).toEqual([1, 1, 1]);
  });

  it("streams the same events to many readers at once", async () => {
    const id = freshId();
    const began = server.post("/workflows/gated/stream", { input: {}, options: { executionId: id } });
    await gates.reached(id);
    const others = Array.from({ length: 20 }, () => server.get(`/workflows/gated/executions/${id}/stream`));
    gates.open(id);
    const first = await began;
    for (const other of await Promise.all(others)) expect(other.events.slice(0, -1)).toEqual(first.events.slice(0, -1));
  });
});
