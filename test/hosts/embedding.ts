import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toBlocks, toFileName } from "../docs/examples/blocks.ts";
import { run, type Child } from "../harness/cli.ts";
import { userEnv } from "../harness/packed.ts";
import { eventually } from "../harness/waiting.ts";

/** A program of docs/embedding.md, with the server of `ai.mjs` in it. */
export interface HostProgram {
  readonly basePath: string;
  /** Creates the folder of the program, and builds it. Called once. */
  prepare(): string;
  /** The command that runs it in that folder. It listens on the port in `PORT`, where 0 is any, and prints it. */
  readonly command: readonly [program: string, ...args: string[]];
  readonly env?: NodeJS.ProcessEnv;
  /** The exit code after SIGTERM. @default 0 */
  readonly code?: number;
}

/** Writes files of docs/embedding.md into a new folder beside the packages of a host. `edit` may change their text. */
export function createProgram(host: string, names: readonly string[], edit = (text: string): string => text): string {
  const folder = mkdtempSync(join(host, "program-"));
  const blocks = toBlocks("docs/embedding.md", readFileSync("docs/embedding.md", "utf8"));
  for (const name of names) {
    const block = blocks.find((one) => toFileName(one) === name);
    if (!block) throw new Error(`docs/embedding.md has no ${name}`);
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), edit(block.text));
  }
  writeFileSync(join(folder, "package.json"), `{ "private": true, "type": "module" }\n`);
  cpSync("test/hosts/ai.mjs", join(folder, "ai.mjs"));
  return folder;
}

/** Runs the suite of all hosts: a server inside of another one behaves as it does alone. */
export function describeHost(title: string, program: HostProgram): void {
  describe(`inside of ${title}`, () => {
    let folder: string;
    beforeAll(() => {
      folder = program.prepare();
    });
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    const start = () => startProgram(folder, program);

    it("serves the landing page, /doc and a route of configureApp inside of a host", async () => {
      const { ask, origin } = await start();
      const landing = await ask("");
      const html = await landing.text();
      expect([landing.status, landing.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
      expect(html).toContain(`curl ${origin}${program.basePath}/workflows/approval/execute`);
      expect(await (await ask("/doc")).json()).toMatchObject({
        openapi: "3.1.0",
        servers: [{ url: program.basePath || "/" }],
      });
      expect((await ask("/ui")).headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect((await ask("/ui?file=swagger-ui-bundle.js")).headers.get("content-type")).toMatch(/^text\/javascript/);
      const own = await ask("/own");
      expect([own.headers.get("x-own"), await own.text()]).toEqual(["1", "own"]);
    });

    it("answers errors in the envelope inside of a host", async () => {
      const { ask } = await start();
      const read = async (path: string, init?: RequestInit) => {
        const response = await ask(path, init);
        return [response.status, await response.json()];
      };
      const error = (text: unknown) => ({ success: false, error: text });
      expect(await read("/workflows/none/execute", post({ input: {} }))).toEqual([
        404,
        error("Workflow none not found"),
      ]);
      expect(await read("/nothing/here")).toEqual([404, error("Not found")]);
      expect(await read("/fails")).toEqual([500, error("Internal server error")]);
      expect(await read("/workflows/approval/execute", { ...post({}), body: "{" })).toEqual([
        400,
        error(expect.stringContaining("JSON")),
      ]);
      const large = post({ input: { text: "x".repeat(3_000_000) } });
      expect(await read("/workflows/approval/execute", large)).toEqual([413, error("Request body too large")]);
    });

    it("sends events as they happen inside of a host", async () => {
      const { ask } = await start();
      const response = await ask("/workflows/gated/stream", post({ input: {} }));
      const events = readEvents(response);
      await events.until("step-start", "wait"); // it waits for the next request
      await ask("/open", post({}));
      await events.until("workflow-result");
    });

    it("aborts an agent call when its client disconnects from the host", async () => {
      const { ask } = await start();
      const leaving = new AbortController();
      const response = await ask("/agents/endless/stream", { ...post({ input: "Hi" }), signal: leaving.signal });
      await readEvents(response).until("text-delta");
      leaving.abort();
      await eventually(async () => expect(await (await ask("/aborted")).json()).toEqual({ aborted: 1 }));
    });

    it("closes with its host on SIGTERM, and continues executions in the next process", async () => {
      const data = join(folder, `${crypto.randomUUID()}.db`);
      const first = await startOn(data);
      const executed = await first.ask(
        "/workflows/approval/execute",
        post({ input: {}, options: { executionId: "e" } }),
      );
      expect(await executed.json()).toMatchObject({ data: { status: "suspended" } });
      const stream = await first.ask("/workflows/gated/stream", post({ input: {} }));
      await readEvents(stream).until("step-start", "wait");
      first.child.process.kill("SIGTERM");
      expect(await first.child.ended).toMatchObject({ code: program.code ?? 0, signal: null });
      const second = await startOn(data);
      const resumed = await second.ask("/workflows/approval/executions/e/resume", post({ resumeData: { ok: true } }));
      expect(await resumed.json()).toMatchObject({ data: { status: "completed", result: { ok: true } } });
    });

    it("survives a request to the host that no URL can hold", async () => {
      const { ask, port } = await start();
      const asked = Promise.withResolvers<unknown>();
      request({ port, path: `/./${program.basePath}/doc`, headers: { host: "x:99999" } }, (response) =>
        asked.resolve(response.resume()),
      )
        .on("error", asked.resolve)
        .end();
      await asked.promise;
      expect((await ask("/doc")).status).toBe(200);
    });

    const startOn = (data: string) => startProgram(folder, program, data);
  });
}

interface Running {
  readonly child: Child;
  readonly port: number;
  readonly origin: string;
  ask(path: string, init?: RequestInit): Promise<Response>;
}

async function startProgram(folder: string, program: HostProgram, data = ":memory:"): Promise<Running> {
  const { command, basePath } = program;
  const own = { PORT: "0", DATA: data, BASE_PATH: basePath, NODE_ENV: "production", ...program.env };
  const child = run(command[0], command.slice(1), { cwd: folder, env: { ...userEnv, ...own } });
  const [, digits] = await child.waitFor(/(?:port: |http:\/\/(?:\[::\]|[\w.]+):)(\d+)/);
  const port = Number(digits);
  const origin = `http://localhost:${port}`;
  return { child, port, origin, ask: (path, init) => fetch(origin + basePath + path, init) };
}

const post = (body: object): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

/** Reads an event stream no further than asked. */
function readEvents(response: Response) {
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let all = "";
  return {
    async until(type: string, from?: string): Promise<void> {
      const isIn = () =>
        [...all.matchAll(/^data: (\{.*\})\n\n/gm)].map(([, json]) => JSON.parse(json!)).some((event) => event.type === type && (from === undefined || event.from === from)); // prettier-ignore
      while (!isIn()) {
        const { done, value } = await reader.read();
        if (done) throw new Error(`ended without ${type}: ${all}`);
        all += value;
      }
    },
  };
}
