import { rmSync } from "node:fs";
import { join } from "node:path";
import * as agentserve from "agentserve";
import { expect, it } from "vitest";
import { createLoader, type Loader, type Project } from "../../src/config/load.ts";
import { loadPatiently, SupersededLoad } from "../../src/dev/patience.ts";
import { Reload, type ReloadOptions } from "../../src/dev/reload.ts";
import { atEnd } from "../harness/at-end.ts";
import { createProject } from "../harness/project.ts";
import { createTestLogger } from "../harness/server.ts";
import { until, within } from "../harness/waiting.ts";
import { config, workflow, writeFiles } from "./dev-server.ts";

type Options = Partial<Pick<ReloadOptions, "needsRestart" | "showsCode" | "loadMs">> & { refuses?: () => boolean };

let projects = 0;

/** Hot reload of a project in this process. `next` does something, and resolves to the next reports. */
async function watchProject(files: Record<string, string>, { refuses, ...options }: Options = {}) {
  // Each has its own path: this process remembers modules by path.
  const folder = createProject({ ...files, "number.txt": String(++projects) });
  const loader = createLoader(join(folder, "agents.config.ts"), { agentserve: { ...agentserve } });
  const reports: string[] = [];
  const swapped: Project[] = [];
  const problems: { message: string; frame?: string | undefined }[] = [];
  // A file that is written shortly before it is read counts as saved: the clock of files is behind ours.
  const writtenAt = Date.now();
  await until(() => Date.now() > writtenAt + 50, "the clock");
  const project = await loader.load();
  const reload = new Reload({
    loader,
    project,
    server: {
      swap(loaded: Project) {
        if (refuses?.()) throw new Error("refused");
        swapped.push(loaded);
      },
      complain: (problem) => void (problem ? problems.push(problem) : (problems.length = 0)),
      logger: createTestLogger([]),
    } as ReloadOptions["server"],
    needsRestart: () => [],
    showsCode: true,
    ...options,
    report: {
      loading: () => reports.push("loading"),
      reloaded: (change) => reports.push(change),
      restartNeeded: (keys) => reports.push(`restart: ${keys.join()}`),
      refused: ({ message }) => reports.push(`error: ${message}`),
      refusedAgain: () => reports.push("same error"),
    },
  });
  atEnd(() => reload.close());
  async function next(count: number, act: () => void): Promise<string[]> {
    reports.length = 0;
    act();
    await until(
      () => reports.length >= count,
      () => `${count} reports, found: ${reports.join(" · ")}`,
    );
    return [...reports];
  }
  return {
    folder,
    next,
    reports,
    swapped,
    problems,
    save: (changed: Record<string, string>) => writeFiles(folder, changed),
  };
}

const files = { "agents.config.ts": config, "workflows/w.ts": workflow("w") };
/** Long enough that a save of its end does not change the code that is shown. */
const broken = `export default {;\n${"\n".repeat(9)}`;

it("names the workflows that a save adds, changes and removes, and counts those beyond three", async () => {
  const { folder, next, save, swapped } = await watchProject(files);
  expect(await next(1, () => save({ "workflows/v.ts": workflow("v") }))).toEqual(["workflow v added"]);
  expect(await next(1, () => save({ "workflows/v.ts": workflow("v", "2") }))).toEqual(["workflow v changed"]);
  expect(await next(1, () => rmSync(join(folder, "workflows/v.ts")))).toEqual(["workflow v removed"]);
  const three = ["a", "b", "c"]
    .map((id) =>
      workflow(id)
        .replace("it", id)
        .replace(/^import.*\n/, ""),
    )
    .join("");
  const all = `import { defineWorkflow } from "agentserve";\n${three}`;
  expect(await next(1, () => save({ "workflows/all.ts": all }))).toEqual([
    "workflow a added, workflow b added, workflow c added",
  ]);
  const fourth = `${all}${workflow("d")
    .replace("it", "d")
    .replace(/^import.*\n/, "")}`;
  expect(await next(1, () => save({ "workflows/all.ts": fourth }))).toEqual([
    "workflow a changed, workflow b changed, workflow c changed and 1 more",
  ]);
  expect(
    swapped
      .at(-1)!
      .workflows.map(({ value }) => value.id)
      .toSorted(),
  ).toEqual(["a", "b", "c", "d", "w"]);
});

it("reports an error again if it comes back after a fix, and clears it from the page", async () => {
  const { next, save, problems } = await watchProject(files);
  const [error] = await next(1, () => save({ "agents.config.ts": broken }));
  expect(error).toMatch(/^error: \S*agents\.config\.ts:1:17: Unexpected token/);
  expect(problems).toMatchObject([{ frame: expect.stringContaining("> 1 | export default {;") }]);
  expect(await next(1, () => save({ "agents.config.ts": `${broken}// saved\n` }))).toEqual(["same error"]);
  expect(await next(1, () => save({ "agents.config.ts": config }))).toEqual(["agents.config.ts changed"]);
  expect(problems).toEqual([]);
  expect(await next(1, () => save({ "agents.config.ts": broken }))).toEqual([error]);
});

it("shows no code on the page if other machines can reach it", async () => {
  const { next, save, problems } = await watchProject(files, { showsCode: false });
  await next(1, () => save({ "agents.config.ts": broken }));
  expect(problems).toMatchObject([{ message: expect.stringContaining("Unexpected token"), frame: undefined }]);
});

it("prints the note about a restart once for the same keys, and again after they were gone", async () => {
  let keys = ["port"];
  const { next, save } = await watchProject(files, { needsRestart: () => keys });
  const touch = (text: string) => next(1, () => save({ "workflows/w.ts": workflow("w", text) }));
  expect(await next(2, () => save({ "workflows/w.ts": workflow("w", "2") }))).toEqual([
    "workflow w changed",
    "restart: port",
  ]);
  expect(await touch("3")).toEqual(["workflow w changed"]);
  keys = [];
  expect(await touch("4")).toEqual(["workflow w changed"]);
  keys = ["port"];
  expect(await next(2, () => save({ "workflows/w.ts": workflow("w", "5") }))).toHaveLength(2);
});

it("disposes of a config that the server refuses, and keeps the one that is served", async () => {
  const disposed = globalThis as { disposedOf?: string[] };
  disposed.disposedOf = [];
  atEnd(() => delete disposed.disposedOf);
  const toConfig = (name: string) =>
    `export default { onDispose: () => void globalThis.disposedOf.push("${name}") };\n`;
  const { next, save, swapped } = await watchProject(
    { "agents.config.ts": toConfig("first") },
    { refuses: () => true },
  );
  expect(await next(1, () => save({ "agents.config.ts": toConfig("second") }))).toEqual([
    expect.stringMatching(/^error: .*refused/),
  ]);
  expect([swapped, disposed.disposedOf]).toEqual([[], ["second"]]);
});

it("loads again when a missing import is created outside of the project's folders", async () => {
  const { next, save } = await watchProject(files);
  const text = `import "../lib/later.ts";\n${workflow("w")}`;
  expect(await next(1, () => save({ "workflows/w.ts": text }))).toEqual([
    expect.stringContaining("Cannot find module '../lib/later.ts'"),
  ]);
  expect(await next(1, () => save({ "lib/later.ts": "" }))).toEqual([expect.stringContaining("lib/later.ts")]);
});

/** A load that ends when the test says so, of a config that counts its disposals. */
function holdLoad() {
  const { promise, resolve } = Promise.withResolvers<Project>();
  let disposals = 0;
  const loader = { load: () => promise } as Pick<Loader, "load"> as Loader;
  const end = () => resolve({ config: { onDispose: () => void disposals++ } } as unknown as Project);
  return { loader, end, disposals: () => disposals };
}

it("abandons a slow load for a newer version, and disposes of its config when it ends after all", async () => {
  const { loader, end, disposals } = holdLoad();
  const slow = Promise.withResolvers<void>();
  const load = loadPatiently(loader, { loadMs: 3_600_000, onSlow: slow.resolve });
  const ended = expect(load.loaded).rejects.toThrow(SupersededLoad);
  await slow.promise;
  load.hurry();
  await within(ended, "the end of the abandoned load");
  end();
  await until(() => disposals() === 1, "the disposal");
});

it("waits for a load that is not slow yet, and ends one that never ends with an error", async () => {
  const quick = holdLoad();
  const load = loadPatiently(quick.loader, { loadMs: 3_600_000, onSlow() {} });
  load.hurry();
  quick.end();
  expect(await load.loaded).toHaveProperty("config");
  expect(quick.disposals()).toBe(0);
  const never = loadPatiently(holdLoad().loader, { loadMs: 20, onSlow() {} });
  await expect(never.loaded).rejects.toThrow("Loading the project timed out after 0.02 s");
});
