import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { agentserve, run } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";

const config = `
import { defineAgent, defineConfig, defineWorkflow } from "agentserve";
import { echoModel } from "agentserve/models";

const listed = defineWorkflow({ id: "listed" }).andThen({
  id: "s",
  async execute({ runtime }) {
    const done = await runtime.execute("order", { amount: 1 });
    return done.status === "completed" ? done.result.paid : 0;
  },
});
export default defineConfig({
  workflows: [listed],
  agents: [defineAgent({ id: "echo", instructions: "", model: echoModel() })],
  configureApp(app, { runtime }) {
    app.get("/a", async () => {
      const outcome = await runtime.execute("listed", {});
      return outcome.status === "completed" ? outcome.result.toFixed(2) : "";
    });
    app.get("/b", () => runtime.ask("echo", "hi"));
    // @ts-expect-error the input is wrong
    app.get("/c", () => runtime.start("order", { amount: "1" }));
    // @ts-expect-error there is no such workflow
    app.get("/d", () => runtime.start("ordr", { amount: 1 }));
    // @ts-expect-error there is no such agent
    app.get("/e", () => runtime.ask("ech", "hi"));
  },
});
`;
const order = `
import * as v from "valibot";
import { defineWorkflow } from "agentserve";

export default defineWorkflow({ id: "order", input: v.object({ amount: v.number() }) }).andThen({
  id: "pay",
  execute: ({ data }) => ({ paid: data.amount }),
});
`;
const schedules = `
import { defineSchedule } from "agentserve";

// Not called: later, one of the workflows has another id.
export const create = () => [
  defineSchedule({ id: "a", workflow: "order", cron: "0 3 * * *", input: { amount: 1 } }),
  defineSchedule({ id: "b", workflow: "order", cron: "0 3 * * *", input: ({ at }) => ({ amount: at.getTime() }) }),
  defineSchedule({ id: "c", workflow: "listed", every: "1h" }),
  // @ts-expect-error the input is wrong
  defineSchedule({ id: "d", workflow: "order", cron: "0 3 * * *", input: { amount: "1" } }),
  // @ts-expect-error an input is required
  defineSchedule({ id: "e", workflow: "order", cron: "0 3 * * *" }),
  // @ts-expect-error there is no such workflow
  defineSchedule({ id: "f", workflow: "ordr", cron: "0 3 * * *", input: { amount: 1 } }),
];
`;

it("writes the types of ids, by which tsc checks inputs and results, and checks that they are up to date", async () => {
  const cwd = createProject({
    "package.json": `{ "type": "module" }`,
    "tsconfig.json": readFileSync("templates/starter/tsconfig.json", "utf8"),
    "agents.config.ts": config,
    "workflows/order.ts": order,
    "schedules/all.ts": schedules,
  });
  // The packages that its files import, as an installation has them.
  rmSync(join(cwd, "node_modules"));
  mkdirSync(join(cwd, "node_modules"));
  for (const name of ["@types", "h3", "valibot"])
    symlinkSync(resolve("node_modules", name), join(cwd, "node_modules", name));
  symlinkSync(resolve("."), join(cwd, "node_modules/agentserve"));
  const file = join(cwd, "agentserve-env.d.ts");
  const types = (...flags: string[]) => agentserve(["types", ...flags], { cwd }).ended;
  const missing = await types("--check");
  expect([missing.code, missing.stderr]).toEqual([
    1,
    "error agentserve-env.d.ts does not exist\nhint  run: npx agentserve types\n",
  ]);
  expect(existsSync(file)).toBe(false);
  expect(await types()).toMatchObject({ code: 0, stdout: "agentserve-env.d.ts written\n" });
  const written = readFileSync(file, "utf8");
  expect(await types("--check")).toMatchObject({ code: 0, stdout: "agentserve-env.d.ts is up to date\n" });
  const tsc = [resolve("node_modules/typescript/bin/tsc"), "-p", cwd];
  expect(await run(process.execPath, tsc).ended).toMatchObject({ code: 0, stdout: "" });

  // Another file, and another id.
  renameSync(join(cwd, "workflows/order.ts"), join(cwd, "workflows/orders.ts"));
  expect(await types("--check")).toMatchObject({
    code: 1,
    stderr: "error agentserve-env.d.ts is out of date\nhint  run: npx agentserve types\n",
  });
  expect(readFileSync(file, "utf8")).toBe(written);
  writeFileSync(join(cwd, "workflows/orders.ts"), order.replace("order", "purchase"));
  expect(await types()).toMatchObject({ code: 0, stdout: "agentserve-env.d.ts written\n" });
  const { code, stdout } = await run(process.execPath, tsc).ended;
  expect(code).not.toBe(0);
  expect(stdout).toContain(`Argument of type '"order"' is not assignable`);
});
