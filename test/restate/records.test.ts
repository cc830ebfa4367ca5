// The calls of an agent inside a step, over the kill of a replica.
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { eventually, until } from "../harness/waiting.ts";
import { ReplicaGroup, ReplicaProcess } from "./replica-process.ts";

it("makes no recorded call again when a replica is killed, and clears the records with the result of the step", async () => {
  const module = join(import.meta.dirname, "recorded-calls-app.ts");
  const group = new ReplicaGroup((place) => new ReplicaProcess(module, place), { count: 1 });
  onTestFinished(() => group.close());
  await group.open();
  const readRan = (): string[] => group.lines("log");
  const read = async (path: string): Promise<unknown> => (await group.all[0]!.request(path)).body.data;
  const records = `select key from state where service_name = '${group.name}.records'`;
  const recordKeys = async (): Promise<string[]> =>
    (await group.query<{ key: string }>(records)).map(({ key }) => key).filter((key) => key.startsWith("r"));

  const body = { input: {}, options: { executionId: "e" } };
  const begun = await group.all[0]!.request("/workflows/asks/execute", body, { prefer: "respond-async" });
  expect(begun.status).toBe(202);
  await until(() => readRan().some((line) => line.startsWith("slow")), "the tool that is slow");
  expect((await recordKeys()).map((key) => key.replace(/^rtool .*/, "rtool")).toSorted()).toEqual([
    "rmodel#0",
    "rmodel#1",
    "rstart",
    "rtool",
  ]);
  await group.all[0]!.end();
  const before = readRan();

  await group.all[0]!.run();
  await until(() => readRan().length > before.length, "the tool to run again");
  group.touch("released");
  await eventually(async () =>
    expect(await read("/workflows/asks/executions/e/state")).toMatchObject({
      status: "completed",
      result: "quick is done,slow is done",
    }),
  );
  const [quick, slow] = ["quick", "slow"].map((tool) => before.find((line) => line.startsWith(tool))!);
  expect(readRan()).toEqual(["model 0", quick, "model 1", slow, slow, "model 2"]);
  // Each call of the model is counted once, by the replica that has made it.
  await eventually(async () =>
    expect(await read("/agents/a/usage?by=user")).toMatchObject({
      items: [{ userId: null, calls: 3, inputTokens: 3 }],
    }),
  );
  // Nothing is left: neither records, nor the call that would remove them later.
  await eventually(async () => {
    expect(await group.query(records)).toEqual([]);
    const scheduled = `select id from sys_invocation
      where target_service_name = '${group.name}.records' and status = 'scheduled'`;
    expect(await group.query(scheduled)).toEqual([]);
  });
});
