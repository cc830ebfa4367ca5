import { codelessHost } from "../../src/engine/attempts/walk.ts";
import { readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { defineWorkflow } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { Drive } from "../../src/backends/embedded/drive.ts";
import { Drives } from "../../src/backends/embedded/drives.ts";
import { Store } from "../../src/backends/embedded/store/store.ts";
import { Writer } from "../../src/backends/embedded/store/writer.ts";
import { unchecked } from "../../src/core/caller.ts";
import { Attempt } from "../../src/engine/attempts/attempt.ts";
import { createProgram } from "../../src/engine/attempts/live-walk.ts";
import { Run } from "../../src/engine/runs/run.ts";
import { Fibers } from "../../src/engine/walk/fibers.ts";
import { Interpreter } from "../../src/engine/walk/interpreter.ts";
import { begin } from "../../src/workflows/executions.ts";
import { createTestLogger } from "../harness/server.ts";
import { Book } from "./trees/play/book.ts";
import { openWorld, programOptions } from "./trees/play/world.ts";
import { newFile } from "../harness/folders.ts";

const guide = readFileSync("docs/internals/engine.md", "utf8");
const [, block = ""] = /\*\*One durable step\*\*[\s\S]*?```\n([\s\S]*?)```/.exec(guide) ?? [];
const documented = [...block.matchAll(/^ *(\w+)\.(#?\w+)/gm)].map(([, type, name]) => ({ type: type!, name: name! }));

it("documents in docs/internals/engine.md the functions that a durable step goes through, in their order", async () => {
  const definition = defineWorkflow({ id: "two" })
    .andThen({ id: "first", execute: async () => 1 })
    .andThen({ id: "second", execute: async ({ data }) => data + 1 });
  const { engine, runnable, close } = await openWorld(newFile(), definition, new Book());
  onTestFinished(() => close(0));

  // Public methods are observed as they are called, private ones by V8's counts of calls. Both see every engine of the
  // process, so this file has a process of its own, and this engine removes nothing meanwhile.
  const host = { ...codelessHost, readRow: () => undefined, clock: systemClock };
  const execution = { id: "x", workflowId: "two", input: "{}", context: {}, startAt: 0, steps: runnable.steps };
  const program = createProgram(programOptions(definition, createTestLogger([])));
  const LiveWalk = Object.getPrototypeOf(program.createWalk(execution, host)).constructor;
  const classes: Record<string, any> = { Attempt, Run, LiveWalk, Interpreter, Fibers, Drive, Drives, Writer, Store };
  const calls: string[] = [];
  for (const [type, { prototype }] of Object.entries(classes)) {
    for (const name of Object.getOwnPropertyNames(prototype)) {
      const { value } = Object.getOwnPropertyDescriptor(prototype, name)!;
      if (typeof value !== "function" || name === "constructor") continue;
      const spy = vi.spyOn(prototype, name).mockImplementation(function (this: unknown, ...args) {
        calls.push(`${type}.${name}`);
        return Reflect.apply(value, this, args);
      });
      onTestFinished(() => spy.mockRestore());
    }
  }
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const { id } = await begin(engine, runnable, {}, {}, unchecked);
  expect(await engine.settled(id, 0)).toMatchObject({ status: "completed", last: { result: "2" } });
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();

  const isPrivate = (name: string) => name.startsWith("#");
  expect(documented.length).toBeGreaterThan(10);
  const shown = new Set(documented.map(({ type, name }) => `${type}.${name}`));
  // Between the two attempts, the documented public functions are called in the documented order. Only where a status
  // changes is there a compare-and-set.
  const between = calls.slice(calls.indexOf("Attempt.run") + 1, calls.lastIndexOf("Attempt.run") + 1);
  const expected = documented.filter(({ name }) => !isPrivate(name)).map(({ type, name }) => `${type}.${name}`);
  expect(between.filter((call) => shown.has(call))).toEqual(expected.filter((call) => call !== "Store.move"));
  expect(calls.slice(calls.lastIndexOf("Attempt.run")), "the last step ends the execution").toContain("Store.move");
  for (const { type, name } of documented.filter((one) => isPrivate(one.name))) {
    const found = result.flatMap(({ url, functions }) =>
      url.includes(files[type]!) ? functions.filter(({ functionName }) => functionName === name) : [],
    );
    expect(found[0]?.ranges[0]?.count, `calls of ${type}.${name}`).toBeGreaterThan(0);
  }
});

const files: Record<string, string> = {
  Attempt: "engine/attempts/attempt.ts",
  Run: "engine/runs/run.ts",
  Drives: "backends/embedded/drives.ts",
};

it("has the loop of an execution on one screen of at most 60 lines", () => {
  const lines = readFileSync("src/engine/runs/run.ts", "utf8").split("\n");
  const start = lines.findIndex((line) => line.startsWith("  end("));
  const end = lines.findIndex((line, index) => index > start && line.startsWith("  #decide("));
  const close = lines.findIndex((line, index) => index > end && line === "  }");
  console.log(`the loop, from the end of an attempt over #advance to the end of #decide: ${close - start + 1} lines`);
  expect(lines.slice(start, close).join("\n")).toMatch(
    /\/\/ Decide[\s\S]*\/\/ Commit[\s\S]*\/\/ Publish[\s\S]*\/\/ Start/,
  );
  expect(close - start + 1).toBeLessThanOrEqual(60);
});
