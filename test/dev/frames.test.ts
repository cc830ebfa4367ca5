import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { CodeFrames, maxFrames, maxFrameText } from "../../src/config/code-frames.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { config, openDev, startDev } from "./dev-server.ts";

const file = "workflows/order.ts";
/** A workflow that fails in each of its attempts. The code of the failure is in line 8. */
const order = (more = "") => `import { defineWorkflow } from "agentserve";
interface Order {
  street: string;
}

function verify(order: Order): never {
  const what: string = order.street;
  throw new Error(\`No such street: \${what}\`);
}
export const it = defineWorkflow({ id: "order" }).andThen({
  id: "verify",
  retry: { attempts: 2 },${more}
  execute: ({ data }) => verify(data as Order),
});
`;
const code = `workflows/order.ts:8:9
   6 | function verify(order: Order): never {
   7 |   const what: string = order.street;
>  8 |   throw new Error(\`No such street: \${what}\`);
     |         ^
   9 | }
  10 | export const it = defineWorkflow({ id: "order" }).andThen({`;

interface Attempt {
  readonly error?: string;
  readonly frame?: string;
}

/** Runs the workflow of a server, and returns the attempts of its steps by path. */
async function runIn(url: string, workflowId: string, input: unknown = {}): Promise<Record<string, Attempt[]>> {
  const executionId = randomUUID();
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ input, options: { executionId } });
  await fetch(`${url}/workflows/${workflowId}/execute`, { method: "POST", headers, body });
  return stepsOf(url, workflowId, executionId);
}

async function stepsOf(url: string, workflowId: string, executionId: string): Promise<Record<string, Attempt[]>> {
  const response = await fetch(`${url}/workflows/${workflowId}/executions/${executionId}/steps?status=error`);
  const { data } = (await response.json()) as { data: { items: { path: string; attempts: Attempt[] }[] } };
  return Object.fromEntries(data.items.map(({ path, attempts }) => [path, attempts]));
}

it("`dev` shows the code at which an attempt failed, as it was then, and neither stores nor logs it", async () => {
  const folder = createProject({ "agents.config.ts": config, [file]: order() });
  const args = ["--port", "0", "--data", "data.db"];
  const { url, child } = await openDev(folder, { args });
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ input: { street: "Elm" }, options: { executionId: "e1" } });
  expect((await fetch(`${url}/workflows/order/execute`, { method: "POST", headers, body })).status).toBe(500);
  const failed = { error: "No such street: Elm", frame: code };
  const { verify } = await stepsOf(url, "order", "e1");
  expect(verify).toMatchObject([
    { attempt: 1, ...failed },
    { attempt: 2, ...failed },
  ]);
  // The file changes, the frame does not.
  writeFileSync(join(folder, file), `// fixed\n${order()}`);
  expect((await stepsOf(url, "order", "e1")).verify).toMatchObject([failed, failed]);
  const mark = "const what: string = order.street";
  expect(JSON.stringify(await (await fetch(`${url}/api/logs`)).json())).not.toContain(mark);
  child.process.kill("SIGTERM");
  await child.ended;
  for (const name of readdirSync(folder).filter((one) => one.startsWith("data.db")))
    expect(readFileSync(join(folder, name), "latin1")).not.toContain(mark);
  // The next process knows the error, and no longer its code.
  const again = await openDev(folder, { args });
  const known = (await stepsOf(again.url, "order", "e1")).verify!;
  expect(known.map(({ error, frame }) => [error, frame])).toEqual([
    ["No such street: Elm", undefined],
    ["No such street: Elm", undefined],
  ]);
});

it("`start` shows no code of a failed attempt", async () => {
  const folder = createProject({ "agents.config.ts": config, [file]: order() });
  const child = agentserve(["start", "--port", "0", "--data", ":memory:"], { cwd: folder });
  const [, url = ""] = await child.waitFor(/(http:\/\/\S+)/);
  const { verify } = await runIn(url, "order", { street: "Elm" });
  expect(verify).toHaveLength(2);
  for (const attempt of verify!) {
    expect(attempt.error).toBe("Failed to execute workflow");
    expect(attempt).not.toHaveProperty("frame");
  }
});

it("shows the code of a failed step with `redact: true`, whose values are hidden", async () => {
  const dev = await startDev({ "agents.config.ts": config, [file]: order(" redact: true,") });
  const { verify } = await runIn(dev.url, "order", { street: "Elm" });
  expect(verify![0]!.frame).toMatch(/^workflows\/order\.ts:8:9\n/);
});

it("shows the innermost call in the project, also of a cause, in conditions and in loop items", async () => {
  const places = `import { andThen, defineWorkflow } from "agentserve";
import { fail } from "../lib/fail.ts";

const wrapped = () => {
  try {
    fail("inner");
  } catch (cause) {
    throw Object.assign(new Error("outer", { cause }), { stack: "Error: outer" });
  }
};
export const cause = defineWorkflow({ id: "cause" }).andThen({ id: "s", execute: wrapped });
export const condition = defineWorkflow({ id: "condition" }).andWhen({
  id: "s",
  condition: () => fail("condition"),
  step: andThen({ id: "t", execute: () => 1 }),
});
export const loop = defineWorkflow({ id: "loop" }).andForEach({
  id: "each",
  onError: "collect",
  items: () => [1, 2, 3],
  step: andThen({ id: "t", execute: ({ data }) => (data === 2 ? fail("two") : data) }),
});
export const late = defineWorkflow({ id: "late" }).andThen({
  id: "s",
  timeout: 1,
  execute: () => new Promise(() => {}),
});
export const plain = defineWorkflow({ id: "plain" }).andThen({
  id: "s",
  execute: () => {
    throw "a text";
  },
});
`;
  const dev = await startDev({
    "agents.config.ts": config,
    "workflows/places.ts": places,
    "lib/fail.ts": `export function fail(message: string): never {\n  throw new Error(message);\n}\n`,
  });
  const frame = expect.stringMatching(/^lib\/fail\.ts:2:9\n {2}1 \| export function fail/);
  expect(await runIn(dev.url, "cause")).toMatchObject({ s: [{ error: "outer", frame }] });
  expect(await runIn(dev.url, "condition")).toMatchObject({ s: [{ error: "condition", frame }] });
  expect(await runIn(dev.url, "loop")).toMatchObject({ "each/1/t": [{ error: "two", frame }] });
  for (const id of ["late", "plain"]) {
    const { s } = await runIn(dev.url, id);
    expect(s![0]!.error).toBeDefined();
    expect(s![0]).not.toHaveProperty("frame");
  }
});

it("shows no file that an error names unless it is code of the project", async () => {
  const secret = "PASSWORD=hunter2\n".repeat(5);
  const folder = createProject({
    "agents.config.ts": config,
    "workflows/steal.ts": `import { defineWorkflow } from "agentserve";
export const it = defineWorkflow({ id: "steal" }).andThen({
  id: "s",
  execute: ({ data }) => {
    const { file } = data as { file: string };
    throw Object.assign(new Error("!"), { stack: "Error: !\\n    at run (" + file + ":2:1)" });
  },
});
`,
    ".env.other": secret,
    "notes.ts": secret,
  });
  const outside = createProject({ "secret.ts": secret, "node_modules.ts": secret });
  symlinkSync(join(outside, "secret.ts"), join(folder, "linked.ts"));
  mkdirSync(join(folder, "sub/node_modules/x"), { recursive: true });
  writeFileSync(join(folder, "sub/node_modules/x/index.ts"), secret);
  const dev = await openDev(folder);
  const steal = async (path: string) => (await runIn(dev.url, "steal", { file: path })).s![0]!;
  const hidden = [
    join(folder, ".env.other"),
    join(folder, "linked.ts"),
    `${folder}/../${outside.slice(dirname(outside).length + 1)}/secret.ts`,
    join(folder, "sub/node_modules/x/index.ts"),
    join(outside, "secret.ts"),
    join(folder, "missing.ts"),
  ];
  for (const path of hidden) expect(await steal(path), path).not.toHaveProperty("frame");
  expect((await steal(join(folder, "notes.ts"))).frame).toMatch(/^notes\.ts:2:1\n/);
});

it("bounds code frames in number and in characters, and drops the oldest", () => {
  const folder = createProject({ "long.ts": `${"x".repeat(400)}\n`.repeat(5), "short.ts": "x\n".repeat(5) });
  const errorIn = (name: string) =>
    Object.assign(new Error("!"), { stack: `Error: !\n    at run (${join(folder, name)}:3:1)` });
  const frames = new CodeFrames(folder);
  for (let index = 0; index <= maxFrames; index++) frames.add("e", `s#${index}`, errorIn("short.ts"));
  expect(frames.find("e", "s#0")).toBeUndefined();
  expect(frames.find("e", "s#1")).toMatch(/^short\.ts:3:1\n/);
  for (let index = 0; index < maxFrames; index++) frames.add("f", `s#${index}`, errorIn("long.ts"));
  expect(frames.find("e", `s#${maxFrames}`)).toBeUndefined();
  const kept = Array.from({ length: maxFrames }, (_, index) => frames.find("f", `s#${index}`) ?? "").join("");
  expect(kept.length).toBeLessThanOrEqual(maxFrameText);
  expect(frames.find("f", `s#${maxFrames - 1}`)).toBeDefined();
});
