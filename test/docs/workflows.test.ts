import { readFileSync } from "node:fs";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { andThen, andWhen, defineWorkflow } from "agentserve";
import { startServer, type TestServer } from "../harness/server.ts";
import { readPackageTypes } from "./package-types.ts";

const page = readFileSync("docs/workflows.md", "utf8");
/** The rows of all tables of a section, cell by cell. */
function readRows(heading: string): string[][] {
  const [, section] = new RegExp(`\n#+ ${heading}\n([^]*?)(?=\n## |$)`).exec(page)!;
  const rows = section!.split("\n").filter((line) => line.startsWith("| ") && line.endsWith("|"));
  return rows.map((row) => row.slice(2, -1).split(" | "));
}
/** The methods of the chain. */
const toStepTypes = (): string[] =>
  Object.getOwnPropertyNames(Object.getPrototypeOf(defineWorkflow({ id: "x" }))).filter((name) =>
    name.startsWith("and"),
  );
const readNames = (cell: string): string[] =>
  [...cell.replace(/\(.*?\)/g, "").matchAll(/`(\w+\??)`/g)].map(([, name]) => name!);

/** The fields of waits for a time or an event, and of more branches than are listed. */
const waitFields = new Set(["wakeAt?", "deadline?", "event?", "key?", "pendingCount?"]);
const suspendSchema = v.object({ why: v.number() });
const asks = andThen({
  id: "asks",
  suspendSchema,
  execute: ({ resumeData, suspend }) => resumeData ?? suspend("?", { why: 1 }),
});
const never = andWhen({ id: "never", condition: () => false, step: andThen({ id: "inner", execute: () => 1 }) });
const hangs = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
const workflows = [
  defineWorkflow({ id: "completes", input: v.object({ n: v.number() }) }).andAll({ id: "all", steps: [never] }),
  defineWorkflow({ id: "waits", resumeSchema: v.object({ ok: v.boolean() }) })
    .andAll({ id: "all", steps: [asks, andThen({ id: "too", execute: ({ suspend }) => suspend("?") })] })
    .andThen({ id: "after", execute: () => 1 }),
  defineWorkflow({ id: "fails" }).andThen({ id: "s", execute: () => Promise.reject(new Error("no")) }),
  defineWorkflow({ id: "sleeps" }).andSleep({ id: "nap", duration: "1d" }),
  defineWorkflow({ id: "listens" }).andWaitFor({ id: "w", event: "go" }),
  defineWorkflow({ id: "half" }).andAll({
    id: "all",
    steps: [asks, andThen({ id: "hangs", execute: ({ signal }) => hangs(signal) })],
  }),
  defineWorkflow({ id: "hangs" }).andThen({ id: "s", execute: ({ signal }) => hangs(signal) }),
];

let server: TestServer;
beforeAll(async () => {
  server = await startServer("in process", { config: { workflows } });
});
afterAll(() => server.close());
const begin = (id: string, executionId: string, input: unknown = {}) =>
  server.post(`/workflows/${id}/execute`, { input, options: { executionId } });
const act = (id: string, executionId: string, action: string, body: object = {}) =>
  server.post(`/workflows/${id}/executions/${executionId}/${action}`, body);
const follow = async (id: string, executionId: string) =>
  (await server.get(`/workflows/${id}/executions/${executionId}/stream`)).events;

describe("docs/workflows.md", () => {
  it("docs/workflows.md lists every event with its fields, and no other", async () => {
    await begin("completes", "events-1", { n: 1 });
    await begin("waits", "events-2");
    const suspended = await follow("waits", "events-2");
    await act("waits", "events-2", "cancel");
    await begin("fails", "events-3");
    const events = [
      ...(await follow("completes", "events-1")),
      ...suspended,
      ...(await follow("waits", "events-2")),
      ...(await follow("fails", "events-3")),
    ];
    const documented = readRows("Events")
      .slice(1)
      .filter(([type]) => type!.startsWith("`"));
    expect(new Set(documented.map(([type]) => type))).toEqual(new Set(events.map(({ type }) => `\`${type}\``)));
    for (const [type, , fields] of documented) {
      const found = events.filter((event) => `\`${event["type"]}\`` === type);
      const names = readNames(fields!);
      const shown = new Set(found.flatMap((event) => Object.keys(event)));
      for (const common of ["type", "executionId", "timestamp"]) expect(shown.delete(common), type).toBe(true);
      expect([...shown].toSorted(), type).toEqual(names.map((name) => name.replace("?", "")).toSorted());
      for (const name of names.filter((one) => !one.endsWith("?")))
        expect(
          found.every((event) => name in event),
          `${type} ${name}`,
        ).toBe(true);
    }
    const [, suspension] = /`suspension` is `\{ (.+?) \}`/.exec(page)!;
    const fields = suspension!
      .split(", ")
      .filter((name) => !waitFields.has(name))
      .map((name) => name.replace("?", ""));
    const { suspension: shown } = suspended.find(({ type }) => type === "workflow-suspended")!;
    expect(Object.keys(shown as object).toSorted()).toEqual(fields.toSorted());
  });

  it("docs/workflows.md lists every error response, and no other text", async () => {
    const waiting = begin("hangs", "errors-1");
    await expect.poll(async () => (await server.get("/workflows/hangs/executions/errors-1/state")).status).toBe(200);
    await begin("waits", "errors-2");
    const half = begin("half", "errors-8");
    await expect
      .poll(async () => (await server.get("/workflows/half/executions/errors-8/steps?path=asks")).body.data?.items)
      .toMatchObject([{ status: "suspended" }]);
    await begin("sleeps", "errors-6");
    await begin("listens", "errors-7");
    const answers = [
      await begin("completes", "errors-3", { n: "1" }),
      await begin("completes", "not an id", { n: 1 }),
      await act("waits", "errors-2", "resume", { resumeData: { ok: 1 } }),
      await act("waits", "errors-2", "resume", { resumeData: { ok: true }, options: { stepId: "after" } }),
      await act("waits", "errors-2", "suspend"),
      await begin("nobody", "errors-4"),
      await act("waits", "nobody", "resume"),
      await act("hangs", "errors-1", "resume"),
      await act("half", "errors-8", "resume"),
      await act("sleeps", "errors-6", "resume"),
      await act("listens", "errors-7", "resume"),
      await begin("waits", "errors-2"),
      await begin("fails", "errors-5"),
      await act("fails", "errors-5", "cancel"),
      await act("fails", "errors-5", "resume"),
    ];
    await act("hangs", "errors-1", "cancel");
    await act("half", "errors-8", "cancel");
    answers.push(await waiting, await half);
    const documented = readRows("The HTTP API").filter(([status]) => /^\d{3}$/.test(status!));
    const isDocumented = (status: string, error: string) => (answer: { status: number; body: { error: string } }) => {
      const parts = error
        .slice(1, -1)
        .split("…")
        .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
      return `${answer.status}` === status && new RegExp(`^${parts.join(".*")}$`, "s").test(answer.body.error);
    };
    // What a change of the code answers is in a table of docs/durability.md: faults/code-changes.
    const provoked = documented.filter(([, error]) => !error!.startsWith("`Workflow changed"));
    for (const [status, error] of provoked) expect(answers.some(isDocumented(status!, error!)), error).toBe(true);
    for (const answer of answers)
      expect(
        documented.some(([status, error]) => isDocumented(status!, error!)(answer)),
        answer.body.error,
      ).toBe(true);
  });

  it("docs/workflows.md lists every field of the step context, and no other", () => {
    const types = readPackageTypes();
    const [, body] = /\ninterface StepContext<[^]*?> \{\n([^]*?)\n\}/.exec(types)!;
    const fields = [...body!.matchAll(/^ {2}readonly (\w+):/gm)].map(([, name]) => name);
    const documented = readRows("The step context")
      .slice(1)
      .map(([cell]) => /^`(\w+)/.exec(cell!)?.[1]);
    expect(documented.filter(Boolean)).toEqual(fields);
  });

  it("docs/workflows.md lists every option of defineWorkflow, and no other", () => {
    const types = readPackageTypes();
    const [, body] = /\ninterface DefineWorkflowOptions<[^]*?> \{\n([^]*?)\n\}/.exec(types)!;
    const options = [...body!.matchAll(/^ {2}(\w+)\??:/gm)].map(([, name]) => name);
    const documented = readRows("The chain and its types")
      .slice(1)
      .flatMap(([cell]) => readNames(cell!));
    expect(documented).toEqual(options);
  });

  it("docs/workflows.md has a section for every step type", () => {
    expect([...page.matchAll(/^### (and\w+)$/gm)].map(([, type]) => type)).toEqual(toStepTypes());
  });

  it("docs/workflows.md, testing.md, scale-out.md and the README link only to headings and pages that exist", () => {
    const toAnchor = (heading: string) =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/g, "")
        .replaceAll(" ", "-");
    for (const file of ["docs/workflows.md", "docs/testing.md", "docs/scale-out.md", "README.md"]) {
      const folder = file.startsWith("docs/") ? "docs/" : "";
      for (const [, target, anchor] of readFileSync(file, "utf8").matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)) {
        const text = readFileSync(target === "" ? file : folder + target, "utf8");
        const anchors = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => toAnchor(heading!));
        if (anchor !== undefined) expect(anchors, `${file}: ${target}#${anchor}`).toContain(anchor);
      }
    }
  });
});
