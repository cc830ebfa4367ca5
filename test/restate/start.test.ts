import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { defineWorkflow } from "agentserve";
import { restate } from "agentserve/backends/restate";
import { agentserve } from "../harness/cli.ts";
import { createFolder } from "../harness/folders.ts";
import { patienceMs } from "../harness/patience.ts";
import { createProject } from "../harness/project.ts";
import { startTestServer } from "../harness/server.ts";
import { freePort, RestateServer } from "./restate-server.ts";

const hello = defineWorkflow({ id: "hello" }).andThen({ id: "say", execute: () => "hello" });
const timeout = 2 * patienceMs;

async function startRestate(settings?: string): Promise<RestateServer> {
  const server = await RestateServer.start(settings);
  onTestFinished(() => server.remove());
  return server;
}

async function startReplica({ ingress, admin }: RestateServer, identityKeys: string[] = []) {
  const port = await freePort();
  const create = () => restate({ ingress, admin, name: "app", serve: { port }, identityKeys });
  const server = await startTestServer("start", {
    config: { workflows: [hello] },
    backend: { name: "restate", create },
  });
  return { server, port, execute: () => server.post("/workflows/hello/execute", { input: {} }) };
}

it("a replica that starts before Restate serves when Restate runs", { timeout }, async () => {
  const restateServer = await startRestate();
  await restateServer.kill();
  const { server, execute } = await startReplica(restateServer);
  expect((await execute()).status).toBe(503);
  expect((await server.send("/ready", {})).status).toBe(503);
  await restateServer.run();
  await expect.poll(async () => (await server.send("/ready", {})).status, { timeout: patienceMs }).toBe(200);
  expect(await execute()).toMatchObject({ status: 200, body: { data: { result: "hello" } } });
});

it("doctor reports the cluster and registers nothing", { timeout }, async () => {
  const cluster = await startRestate();
  const { ingress, admin } = cluster;
  const cwd = createProject({
    "agents.config.ts": `import { defineConfig } from "agentserve";
import { restate } from "agentserve/backends/restate";
const options = { ingress: "${ingress}", admin: "${admin}", name: "app", serve: { port: ${await freePort()} } };
export default defineConfig({ server: { cors: false }, backend: restate(options) });
`,
  });
  const store = async () => {
    const { stdout } = await agentserve(["doctor", "--json"], { cwd }).ended;
    const { findings } = JSON.parse(stdout) as { findings: { name: string; message: string }[] };
    return findings.find(({ name }) => name === "store")!.message.split("  ·  ");
  };
  const services = async () => ((await (await fetch(`${admin}/services`)).json()) as { services: unknown[] }).services;
  expect(await store()).toEqual([admin, expect.stringMatching(/^Restate \d/), "app is not registered yet"]);
  expect(await services()).toEqual([]);
  const { execute, port } = await startReplica(cluster);
  await execute();
  expect((await store()).slice(2)).toEqual([
    `app is registered at http://127.0.0.1:${port}/`,
    "executions: 1 completed",
  ]);
});

/** A key as Restate prints it: base58 of the 32 bytes. */
function toIdentityKey(bytes: Uint8Array): string {
  const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let text = "";
  for (let rest = BigInt(`0x${Buffer.from(bytes).toString("hex")}`); rest > 0n; rest /= 58n)
    text = digits[Number(rest % 58n)] + text;
  return `publickeyv1_${text}`;
}

it("with identity keys, only the Restate server that has the private key is answered", { timeout }, async () => {
  const folder = createFolder("identity");
  const createKey = () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const raw = Buffer.from(publicKey.export({ format: "jwk" }).x!, "base64url");
    return { pem: privateKey.export({ format: "pem", type: "pkcs8" }), text: toIdentityKey(raw) };
  };
  const [own, other] = [createKey(), createKey()];
  const file = join(folder, "key.pem");
  writeFileSync(file, own.pem);
  const signing = await startRestate(`[worker.invoker]\nrequest-identity-private-key-pem-file = "${file}"\n`);
  const trusted = await startReplica(signing, [other.text, own.text]);
  expect(await trusted.execute()).toMatchObject({ status: 200, body: { data: { result: "hello" } } });
  const statusOf = (path: string) =>
    new Promise<number>((resolve, reject) => {
      const session = connect(`http://127.0.0.1:${trusted.port}`);
      const request = session.request({ ":path": path, ":method": "POST" });
      request.on("response", ({ ":status": status }) => (session.destroy(), resolve(status!)));
      session.on("error", reject);
    });
  expect(await statusOf("/invoke/app/begin")).toBe(401); // a call that is not signed
  await trusted.server.close();
  const strange = await startReplica(signing, [other.text]);
  expect((await strange.execute()).status).toBe(503);
});
