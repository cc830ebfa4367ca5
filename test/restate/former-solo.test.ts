// Executions that commit 522c0a4f began without a register: ended, suspended, and running when their replica is replaced by one
// of today. `former-solo.json` has what that build stored in Restate for the workflow `steps`, one execution of each kind, as
// the table `state` shows it.
import { defineWorkflow } from "agentserve";
import { expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { serveFormerDrives, type DriveState } from "./former-drives.ts";
import former from "./former-solo.json" with { type: "json" };
import { query } from "./replica-process.ts";
import { freePort } from "./restate-server.ts";
import { createPlace } from "./waiting-server.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const timeout = 4 * patienceMs;
const parse = (state: Record<string, string>): DriveState =>
  Object.fromEntries(Object.entries(state).map(([key, text]) => [key, JSON.parse(text) as unknown]));
const [completed, failed, suspended, running] = [former.completed, former.failed, former.suspended, former.running].map(
  ({ id, drive, ...more }) => ({ id, drive: parse(drive), register: "register" in more ? parse(more.register) : {} }),
) as [FormerExecution, FormerExecution, FormerExecution, FormerExecution];
interface FormerExecution {
  readonly id: string;
  readonly drive: DriveState;
  readonly register: DriveState;
}
type Place = Awaited<ReturnType<typeof createPlace>>;

/** The workflow of the former build. Returns the steps that run, too. */
function define() {
  const ran: string[] = [];
  const steps = defineWorkflow({ id: "steps" })
    .andThen({ id: "s1", execute: ({ executionId }) => (ran.push(`${executionId} s1`), "s1") })
    .andThen({ id: "s2", execute: ({ executionId }) => (ran.push(`${executionId} s2`), "s2") })
    .andThen({ id: "s3", execute: ({ executionId }) => (ran.push(`${executionId} s3`), "s3") });
  return { ran, steps };
}

/** A server of today, and requests about executions. */
async function start(place: Place) {
  const { ran, steps } = define();
  const { server, state, reach } = await place.start([steps]);
  const post = async (id: string, command: string, body: object = {}) => {
    const { status, body: answer } = await server.post(`/workflows/steps/executions/${id}/${command}`, body);
    return { status, data: answer.data, error: answer.error };
  };
  const get = async (path: string) => (await server.get(`/workflows/steps/executions${path}`)).body.data;
  const list = async (search = "") => (await get(search)).items as { executionId: string; status: string }[];
  const events = async (id: string) =>
    (await server.get(`/workflows/steps/executions/${id}/stream`)).events.map(({ type }) => type as string);
  const stepsOf = (id: string) => ran.filter((one) => one.startsWith(id)).map((one) => one.slice(id.length + 1));
  return { server, state, reach, post, get, list, events, stepsOf };
}
const keysOf = async (place: Place, id: string): Promise<string[]> =>
  (
    await query<{ key: string }>(
      `select key from state where service_name = '${place.name}.drive' and service_key = '${id}' order by key`,
    )
  ).map(({ key }) => key);

/** Begins an execution as the former build did. */
async function begin({ name }: Place, id: string, { solo }: DriveState): Promise<void> {
  const input = { execution: solo.execution, isNew: true, isSolo: true, epoch: 0, commands: [] };
  const headers = { "content-type": "application/json" };
  const url = `${ingress}/${name}.drive/${id}/run/send`;
  const { status } = await fetch(url, { method: "POST", headers, body: JSON.stringify(input) });
  expect(status).toBe(202);
}

it("reads, lists and refuses to repeat executions that ended without a register", { timeout }, async () => {
  const place = await createPlace();
  const { server, state, list, get, events, post, stepsOf } = await start(place);
  for (const { id, drive } of [completed, failed]) await place.set(".drive", id, drive);
  expect(await state(completed.id)).toMatchObject({ status: "completed", result: "s3", input: { kind: "completed" } });
  expect(await state(failed.id)).toMatchObject({ status: "error", error: "Failed to execute workflow" });
  const listed = await list();
  expect(listed.map(({ executionId, status }) => [executionId, status])).toEqual([
    [failed.id, "error"],
    [completed.id, "completed"],
  ]);
  expect(await list("?status=completed")).toEqual([listed[1]]);
  expect(await events(completed.id)).toEqual([
    "workflow-start",
    ...["s1", "s2", "s3"].flatMap(() => ["step-start", "step-complete"]),
    "workflow-complete",
    "workflow-result",
  ]);
  const { items } = await get(`/${failed.id}/steps`);
  expect(items).toMatchObject([{ status: "success" }, { status: "error" }]);
  for (const { id } of [completed, failed]) {
    const again = await server.post("/workflows/steps/execute", { input: {}, options: { executionId: id } });
    expect(again.status).toBe(409);
    expect((await post(id, "cancel")).status).toBe(400);
    expect(stepsOf(id)).toEqual([]);
  }
});

it("retries and forks executions that ended without a register", { timeout }, async () => {
  const place = await createPlace({ retention: false });
  const { list, events, post, stepsOf } = await start(place);
  for (const { id, drive } of [completed, failed]) await place.set(".drive", id, drive);
  const forked = await post(completed.id, "fork", { fromStep: "s3" });
  expect(forked).toMatchObject({ status: 200, data: { status: "completed", result: "s3" } });
  expect(stepsOf(forked.data.executionId)).toEqual(["s3"]);
  const answers = await Promise.all([1, 2].map(() => post(failed.id, "retry")));
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  expect(stepsOf(failed.id)).toEqual(["s2", "s3"]);
  expect((await events(failed.id)).filter((type) => type.startsWith("workflow"))).toEqual([
    "workflow-start",
    "workflow-error",
    "workflow-complete",
    "workflow-result",
  ]);
  expect((await list()).map(({ status }) => status)).toEqual(["completed", "completed", "completed"]);
  expect(await keysOf(place, failed.id)).not.toContain("solo");
});

it("resumes an execution that began without a register and was suspended", { timeout }, async () => {
  const place = await createPlace();
  const { state, post, stepsOf } = await start(place);
  const { id, register, drive } = suspended;
  await place.set(".drive", id, { ...drive, solo: running.drive["solo"] }); // its drive was killed before it had cleared it
  await place.set("", id, register);
  expect(await state(id)).toMatchObject({ status: "suspended" });
  expect(await post(id, "resume")).toMatchObject({ status: 200, data: { status: "completed", result: "s3" } });
  expect(stepsOf(id)).toEqual(["s2", "s3"]);
  expect(await keysOf(place, id)).not.toContain("solo");
});

it("lists an execution that gets its register while it is listed", { timeout }, async () => {
  const place = await createPlace();
  const { list } = await start(place);
  const { index, ...register } = suspended.register;
  await place.set("", suspended.id, register);
  await place.set(".drive", suspended.id, { index }); // as the list has found it
  expect(await list()).toMatchObject([{ executionId: suspended.id, status: "suspended" }]);
});

it("removes an execution without a register at the end of its retention", { timeout }, async () => {
  const place = await createPlace();
  const { state } = await start(place);
  const { id, drive } = completed;
  await place.set(".drive", id, drive);
  // The call that its drive scheduled.
  expect((await fetch(`${ingress}/${place.name}.drive/${id}/expireSolo`, { method: "POST" })).status).toBe(200);
  expect(await state(id)).toBeUndefined();
  expect(await keysOf(place, id)).toEqual([]);
});

it("counts the retention of an execution that gets its register after its end from the end", { timeout }, async () => {
  const place = await createPlace();
  const { state } = await start(place);
  const { id, drive } = failed;
  const { solo } = drive;
  await place.set(".drive", id, { ...drive, solo: { ...solo, last: { ...solo.last, at: 0 } } });
  // The first half of a retry.
  expect((await fetch(`${ingress}/${place.name}.drive/${id}/registerSolo`, { method: "POST" })).status).toBe(200);
  await until(async () => (await state(id)) === undefined, "the removal");
});

it("continues executions whose drive ran on a replica of the former build", { timeout }, async () => {
  const place = await createPlace();
  const { port, name } = place;
  const { id: ended, drive } = completed;
  // Killed before the row of the end was stored.
  const { r0000003: _row, ...cut } = drive;
  const states: Record<string, DriveState> = { [running.id]: running.drive, [ended]: cut };
  const drives = await serveFormerDrives({ name, port, admin }, (id) => states[id]!);
  for (const [id, state] of Object.entries(states)) await begin(place, id, state);
  await until(() => drives.reached.size === 2, "the drives");
  await begin(place, running.id, running.drive); // a start that arrives twice
  await drives.close();
  const { list, reach, events, stepsOf } = await start(place);
  expect((await list()).map(({ executionId }) => executionId).toSorted()).toEqual([running.id, ended].toSorted());
  await reach(running.id, "completed");
  expect(stepsOf(running.id), "recorded steps do not run again").toEqual(["s2", "s3"]);
  for (const id of [running.id, ended]) {
    await until(async () => (await events(id)).includes("workflow-complete"), "the row of the end");
    expect((await events(id)).filter((type) => type === "step-complete")).toHaveLength(3);
  }
  expect(stepsOf(ended)).toEqual([]);
  expect((await list()).map(({ status }) => status)).toEqual(["completed", "completed"]);
  expect(await keysOf(place, running.id)).not.toContain("solo");
});

it("cancels and suspends executions that a replica of the former build drives", { timeout }, async () => {
  const place = await createPlace();
  const { name } = place;
  const ids = [running.id, completed.id] as const;
  const states = new Map(ids.map((id) => [id, rename(running.drive, id)]));
  const drives = await serveFormerDrives({ name, port: await freePort(), admin }, (id) => states.get(id)!);
  onTestFinished(() => drives.close());
  for (const [id, one] of states) await begin(place, id, one);
  await until(() => drives.reached.size === 2, "the drives");
  const { state, list, post, stepsOf } = await start(place);
  expect((await list()).map(({ status }) => status)).toEqual(["running", "running"]);
  expect(await post(ids[0], "cancel")).toMatchObject({ status: 200 });
  expect(await post(ids[1], "suspend")).toMatchObject({ status: 200 });
  expect(await state(ids[0])).toMatchObject({ status: "error", cancellation: { reason: "Cancelled by request" } });
  expect(await state(ids[1])).toMatchObject({ status: "suspended" });
  expect((await list()).map(({ status }) => status).toSorted()).toEqual(["error", "suspended"]);
  for (const id of ids) {
    expect(stepsOf(id)).toEqual([]);
    expect(await keysOf(place, id)).toEqual(["r0000000", "r0000001"]);
  }
});

/** The same state of an execution with another id. */
const rename = (state: DriveState, id: string): DriveState =>
  JSON.parse(JSON.stringify(state).replaceAll(running.id, id)) as DriveState;
