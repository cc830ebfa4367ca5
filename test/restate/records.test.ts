// The calls of an agent inside a step, over the kill of a replica.
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it, onTestFinished } from "vitest";
import { eventually, until } from "../harness/waiting.ts";
import { freePort } from "./restate-server.ts";

const { TEST_RESTATE_ADMIN: admin = "" } = process.env;

interface Replica {
  readonly child: ChildProcess;
  readonly address: string;
}
async function startReplica(args: readonly string[]): Promise<Replica> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "records-host.ts"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  for await (const line of createInterface(child.stdout!))
    if (line.startsWith("ready ")) return { child, address: line.slice("ready ".length) };
  throw new Error("The replica has ended");
}

async function select(query: string): Promise<Record<string, unknown>[]> {
  const headers = { "content-type": "application/json", accept: "application/json" };
  const response = await fetch(`${admin}/query`, { method: "POST", headers, body: JSON.stringify({ query }) });
  return ((await response.json()) as { rows: Record<string, unknown>[] }).rows;
}

it("makes no recorded call again when a replica is killed, and clears the records with the result of the step", async () => {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-records-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const name = `records-${randomUUID()}`;
  const args = [name, String(await freePort()), folder];
  const file = join(folder, "ran");
  const readRan = (): string[] => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);
  const recordKeys = async (): Promise<string[]> => {
    const rows = await select(`select key from state where service_name = '${name}.records'`);
    return rows.map(({ key }) => String(key)).filter((key) => key.startsWith("r"));
  };

  const first = await startReplica(args);
  const begun = await fetch(`${first.address}/workflows/asks/execute`, {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "respond-async" },
    body: JSON.stringify({ input: {}, options: { executionId: "e" } }),
  });
  expect(begun.status).toBe(202);
  await until(() => readRan().some((line) => line.startsWith("slow")), "the tool that is slow");
  expect((await recordKeys()).map((key) => key.replace(/^rtool .*/, "rtool")).toSorted()).toEqual([
    "rmodel#0",
    "rmodel#1",
    "rstart",
    "rtool",
  ]);
  const ended = once(first.child, "exit");
  first.child.kill("SIGKILL");
  await ended;
  const before = readRan();

  const second = await startReplica(args);
  await until(() => readRan().length > before.length, "the tool to run again");
  writeFileSync(join(folder, "released"), "");
  await eventually(async () => {
    const response = await fetch(`${second.address}/workflows/asks/executions/e/state`);
    const { data } = (await response.json()) as { data: unknown };
    expect(data).toMatchObject({ status: "completed", result: "quick is done,slow is done" });
  });
  const [quick, slow] = ["quick", "slow"].map((tool) => before.find((line) => line.startsWith(tool))!);
  expect(readRan()).toEqual(["model 0", quick, "model 1", slow, slow, "model 2"]);
  // Each call of the model is counted once, by the replica that has made it.
  await eventually(async () => {
    const { data } = (await (await fetch(`${second.address}/agents/a/usage?by=user`)).json()) as { data: unknown };
    expect(data).toMatchObject({ items: [{ userId: null, calls: 3, inputTokens: 3 }] });
  });
  // Nothing is left: neither records, nor the call that would remove them later.
  await eventually(async () => {
    expect(await select(`select key from state where service_name = '${name}.records'`)).toEqual([]);
    const scheduled = `select id from sys_invocation
      where target_service_name = '${name}.records' and status = 'scheduled'`;
    expect(await select(scheduled)).toEqual([]);
  });
});
