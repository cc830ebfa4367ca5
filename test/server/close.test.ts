import { join } from "node:path";
import { createServer, embedded } from "agentserve";
import { expect, it } from "vitest";
import { defineWorkflow } from "../../src/workflows/define.ts";
import { createFolder } from "../harness/folders.ts";
import { createGates } from "../harness/gates.ts";
import { startServer } from "../harness/server.ts";

function open() {
  const folder = createFolder("close");
  const backend = embedded({ path: join(folder, "data.db") });
  return { backend, server: createServer({ server: { port: 0 }, backend }) };
}
const ask = () => new Request("http://localhost/workflows");

it.each(["listen", "fetch"] as const)("releases the store when a server is closed right after %s", async (what) => {
  const { backend, server } = open();
  const begun = what === "listen" ? server.listen() : server.fetch(ask());
  begun.catch(() => {});
  await server.close();
  await expect(begun).rejects.toThrow("cannot be opened");
  const next = createServer({ backend });
  expect((await next.fetch(ask())).status).toBe(200);
  await next.close();
});

it("refuses to listen once the server is closed", async () => {
  const { server } = open();
  await server.close();
  expect(() => server.listen()).toThrow("This server is closed");
});

it("close waits for the response to a request in progress", async () => {
  const gates = createGates();
  const waits = defineWorkflow({ id: "waits" }).andThen({ id: "gate", execute: () => gates.pass("open") });
  const server = await startServer("start", { config: { workflows: [waits] } });
  const answer = server.post("/workflows/waits/execute", { input: {} });
  await gates.reached("open");
  const closed = server.close();
  gates.open("open");
  expect((await answer).status).toBe(200);
  await closed;
});

it.each(["dev", "start"] as const)("%s keeps an idle connection longer than a proxy does", async (target) => {
  const server = await startServer(target);
  const answer = await server.raw("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await server.close();
  expect(answer).toMatch(/^keep-alive: timeout=75\r$/im);
});
