import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, embedded } from "agentserve";
import { expect, it, onTestFinished } from "vitest";

function open() {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-close-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const backend = embedded({ path: join(folder, "data.db") });
  return { backend, server: createServer({ server: { port: 0 }, backend }) };
}
const ask = () => new Request("http://localhost/workflows");

it.each(["listen", "fetch"] as const)("leaves the store to others when it is closed right after %s", async (what) => {
  const { backend, server } = open();
  const begun = what === "listen" ? server.listen() : server.fetch(ask());
  begun.catch(() => {});
  await server.close();
  await expect(begun).rejects.toThrow("cannot be opened");
  const next = createServer({ backend });
  expect((await next.fetch(ask())).status).toBe(200);
  await next.close();
});

it("does not listen once it is closed", async () => {
  const { server } = open();
  await server.close();
  expect(() => server.listen()).toThrow("This server is closed");
});
