// A server of the build before is killed at work on a Restate cluster, and one of today takes its place at the same address.
import { randomUUID } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createFolder } from "../harness/folders.ts";
import { FormerBuild, hasCommit } from "../harness/former-build.ts";
import { patienceMs, patientTimeouts } from "../harness/patience.ts";
import { startTestServer } from "../harness/server.ts";
import { until } from "../harness/waiting.ts";
import create from "./former-build-app.ts";
import { busy, Group, inFlight, type Ask } from "./former-group.ts";
import { freePort } from "./restate-server.ts";

/** The last commit before the engine and both backends were refactored. Its executions without an `executionId` have no register. */
const commit = "640412b4";
const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const timeout = 8 * patienceMs;

it(
  "reads and continues what a killed server of the build before left on a cluster, as that build did",
  { timeout },
  async ({ skip }) => {
    skip(!hasCommit(commit), `The history of this clone lacks commit ${commit}: git fetch --unshallow`);
    const folder = createFolder("former");
    writeFileSync(join(folder, "ran"), "");
    const apps = ["former-build-app.ts", "../engine/former/work-app.ts"].map((file) => join(import.meta.dirname, file));
    const build = new FormerBuild(commit, createFolder("former-build"), apps);
    const name = `former-${randomUUID()}`;
    const backend = { ingress, admin, name, serve: { port: await freePort() }, timeouts: patientTimeouts };
    const former = await build.start(apps[0]!, { folder, backend });
    onTestFinished(() => former.kill());
    const askFormer: Ask = (...request) => former.request(...request);
    const [ended, left] = [new Group("ended", folder), new Group("left", folder)] as const;
    await ended.begin(askFormer);
    const begun = await ended.read(askFormer);
    const continued = await ended.continue(askFormer);
    const end = await ended.read(askFormer);
    rmSync(join(folder, "mended"));
    await left.begin(askFormer);
    const before = await left.read(askFormer);
    const ran = left.ran();
    const { "solo-running": solo, ...drives } = await left.drives(name);
    expect(Object.keys({ solo, ...drives })).toHaveLength(busy.length + 1); // and the child
    expect(await left.withoutRegister(name)).toEqual(["solo-ended", "solo-failed", "solo-running"]);
    await former.kill();

    const server = await startTestServer("start", create({ folder, backend }));
    const ask: Ask = async (path, body, headers) => {
      const { status, body: json, events } = await (body ? server.post(path, body, { headers }) : server.get(path));
      return { status, body: json ?? events };
    };
    // The steps in flight run again, with the same keys. Recorded steps do not.
    const withAgain = (lines: string[]): string[] => [...lines, ...inFlight].toSorted();
    await until(() => left.ran().length >= ran.length + inFlight.length, "the steps in flight");
    expect(left.ran()).toEqual(withAgain(ran));
    // An interrupted execution gets a register, and its next drive. The others continue in the drives of the former build.
    expect(await left.drives(name)).toMatchObject(drives);
    expect(await left.withoutRegister(name)).toEqual(["solo-ended", "solo-failed"]);
    expect(await ended.read(ask)).toEqual(end);
    expect(await left.read(ask)).toEqual(before);
    expect(left.toRoles(before)).toEqual(ended.toRoles(begun));
    expect(left.toRoles(await left.continue(ask))).toEqual(ended.toRoles(continued));
    expect(left.toRoles(await left.read(ask))).toEqual(ended.toRoles(end));
    expect(left.ran()).toEqual(withAgain(ended.ran()));
  },
);
