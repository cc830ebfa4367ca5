import { expect, it, vi } from "vitest";
import { createServer, embedded } from "agentserve";
import { run } from "../harness/cli.ts";
import { testRows } from "../harness/rows.ts";
import { startServer } from "../harness/server.ts";

const backend = embedded({ path: ":memory:" });
const ask = (path: string) => new Request(`http://localhost${path}`);

it("ends though somebody in process never read an answer, or never got one", async () => {
  const server = createServer({
    backend,
    server: { limits: { drainMs: 100 } },
    configureApp: (app) => void app.get("/hi", () => "hi").get("/never", () => new Promise(() => {})),
  });
  await server.fetch(ask("/doc"));
  await server.fetch(ask("/hi"));
  void server.fetch(ask("/never"));
  await server.close();
  await server.close(); // twice is once
  const late = await server.fetch(ask("/doc"));
  expect([late.status, await late.json()]).toEqual([503, { success: false, error: "Server is shutting down" }]);
});

it("cuts a request that outlives drainMs", async () => {
  const server = await startServer("start", { config: { server: { limits: { drainMs: 200 } } }, rows: testRows });
  const waiting = server.send("/test/wait", {});
  const refused = expect(waiting).rejects.toThrow("fetch failed");
  await vi.waitFor(async () => expect((await server.get("/workflows")).status).toBe(200));
  await server.close();
  await refused;
});

it("listens once", async () => {
  const server = createServer({ backend });
  await server.listen({ port: 0 });
  expect(() => server.listen({ port: 0 })).toThrow("listens already");
  await server.close();
});

it("leaves nothing behind that would keep a process alive, not even a step that ignores its signal", async () => {
  const script = `
    import { createServer, defineWorkflow, embedded } from ${JSON.stringify(new URL("../../src/index.ts", import.meta.url).href)};
    const hangs = defineWorkflow({ id: "w" }).andThen({ id: "s", execute: () => new Promise(() => {}) });
    const server = createServer({ workflows: [hangs], backend: embedded({ path: ":memory:" }), server: { limits: { drainMs: 50 } } });
    const { url } = await server.listen({ port: 0 });
    const init = { method: "POST", headers: { "content-type": "application/json", prefer: "respond-async" }, body: '{"input":{}}' };
    await (await fetch(url + "/workflows/w/execute", init)).text();
    await server.close();
    console.log("closed");`;
  const child = run(process.execPath, ["--input-type=module", "-e", script]);
  expect(await child.ended).toMatchObject({ code: 0, stdout: "closed\n" });
});
