import { readFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { embedded } from "agentserve";
import { toProject } from "../../../src/config/load.ts";
import { constants, defaultLimits } from "../../../src/config/limits.ts";
import { openServer } from "../../../src/server/create.ts";
import { agentserve } from "../../harness/cli.ts";
import { readBlocks, toBlocks, toPlace } from "./blocks.ts";
import { onHosts, toKind } from "./kinds.ts";
import { toSources } from "./sources.ts";
import { readEndpoints, readConstants, readInterface, readKeys, readLimits } from "./tables.ts";
import { createTools, secret } from "./tools.ts";
import { findTypeErrors } from "./types.ts";
import type { World } from "./world.ts";

const world: World = { blocks: readBlocks(), tools: createTools() };
const executed = new Map<string, number>();
afterAll(() => {
  world.tools.close();
  const kinds = [...executed].map(([name, count]) => `${count} ${name}`).join(" · ");
  const all = [...executed.values()].reduce((sum, count) => sum + count, 0);
  console.log(`examples executed: ${all} of ${world.blocks.length} (${kinds})`);
  for (const name of world.tools.replaced) console.log(`${name} is not installed here: a stand-in was run`);
});

describe("every example of README.md and docs/", () => {
  it.each(world.blocks.map((block) => [toPlace(block), block] as const))(
    "runs the example at %s, which does what the page says",
    async (_, block) => {
      const { name, run } = toKind(block);
      await run(block, world);
      executed.set(name, (executed.get(name) ?? 0) + 1);
    },
  );

  it("type-checks every TypeScript example of the docs", async () => {
    const sources = world.blocks
      .filter((block) => block.language === "ts" && !onHosts.is(block))
      .flatMap((block) =>
        Object.entries(toSources(block, world.blocks)).map(([name, text]) => [
          `${block.file}-${block.line}/${name}`,
          text,
        ]),
      );
    expect(sources.length).toBeGreaterThan(5);
    expect(await findTypeErrors(Object.fromEntries(sources), world)).toBe("");
  });

  it("refuses an example of an unknown kind, and a code block without an end", () => {
    const [block] = toBlocks("new.md", "text\n\n```yaml\na: 1\n```\n");
    expect(() => toKind(block!)).toThrow("new.md:3: a block that is of no known kind");
    expect(() => toBlocks("new.md", "```ts\n")).toThrow("new.md:1: a block that does not end");
  });
});

describe("agents.config.ts.example", () => {
  const example = readFileSync("agents.config.ts.example", "utf8");
  const all = `import { jwtAuth } from "agentserve";\n${example.replace(/^(\s*)\/\/ (?=[a-z]\w+: )/gm, "$1")}`;

  it("type-checks agents.config.ts.example, with its commented lines", async () => {
    expect(all.match(/^ *(agentsDir|workflowsDir|allowedHosts|limits|auth): /gm)).toHaveLength(5);
    expect(await findTypeErrors({ "a/agents.config.ts": example, "b/agents.config.ts": all }, world)).toBe("");
  });

  it.each([
    ["as it is", example, 200],
    ["with its commented lines", all, 401],
  ])("serves agent, workflow and route of agents.config.ts.example %s", async (_, text, status) => {
    const cwd = world.tools.project({ "agents.config.ts": text, "agents/x.ts": "", "workflows/x.ts": "" });
    const env = { ...world.tools.env, JWT_SECRET: secret };
    const [url] = await agentserve(["start"], { cwd, env }).waitFor(/http:\/\/\S+:\d+/);
    const post = async (path: string, body: object) => {
      const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
      return (await fetch(url + path, init)).status;
    };
    expect(await post("/workflows/greeting/execute", { input: { name: "Ada" } })).toBe(status);
    expect(await post("/agents/parrot/text", { input: "hello" })).toBe(status);
    expect(await (await fetch(`${url}/hello`)).json()).toEqual({ ok: true });
  });
});

describe("the tables of docs/reference.md", () => {
  it("docs/reference.md lists every endpoint of /doc, and no other", async () => {
    // `dev` on this machine has all of them.
    const server = openServer(toProject({ backend: embedded({ path: ":memory:" }) }), { mode: "dev" });
    const doc = (await (await server.fetch(new Request("http://localhost/doc"))).json()) as { paths: object };
    await server.close();
    const served = Object.entries(doc.paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(readEndpoints().toSorted()).toEqual(served.toSorted());
  });

  it("docs/reference.md lists every limit with its default, and no other", () => {
    expect(readLimits()).toEqual(defaultLimits);
  });

  it("docs/internals/constants.md lists every constant with its value, and no other", () => {
    expect(readConstants()).toEqual(constants);
  });

  it("docs/reference.md lists every key of the config, and no other", () => {
    const known = ["Config", "ServerOptions", "EmbeddedBackendOptions", "RestateBackendOptions"].flatMap(readInterface);
    expect(readKeys().toSorted()).toEqual(known.toSorted());
  });
});
