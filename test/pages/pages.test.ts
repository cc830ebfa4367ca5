import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { type } from "arktype";
import { Window, type Document } from "happy-dom";
import * as v from "valibot";
import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { createToken, defineAgent, defineTool, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { toProject } from "../../src/config/load.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { chosenBackend } from "../harness/backends.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { createTestLogger, describeServer, startServer, startTestServer, type TestServer } from "../harness/server.ts";
import { patienceMs } from "../harness/patience.ts";

const secret = "a secret of at least thirty-two bytes";
const token = await createToken({ sub: "ada" }, secret);
const authorization = `Bearer ${token}`;

const weather = defineTool({
  description: "Tells the weather",
  inputSchema: v.object({ city: v.string() }),
  execute: () => "blue",
});
const assistant = defineAgent({
  id: "assistant",
  name: "Assistant",
  description: "Knows <b> and &lt;b>",
  instructions: "a prompt that is nobody's business",
  model: echoModel(),
  tools: { weather },
});
const approval = defineWorkflow({
  id: "approval",
  name: "Expense approval",
  purpose: "Asks a person about large expenses",
  input: v.object({ amount: v.number() }),
  resumeSchema: v.object({ approved: v.boolean() }),
})
  .andThen({ id: "decide", name: "Decide", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Well?") })
  .andThen({ id: "answer", execute: ({ data }) => data });
const config: Config = { agents: [assistant], workflows: [approval] };

describeServer("GET /", { config, only: ["start"] }, (server) => {
  it("GET / shows each agent and each workflow", async () => {
    const { status, headers, text } = await server.get("/");
    expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const page = parse(text);
    expect(page.documentElement.getAttribute("lang")).toBe("en");
    expect(textOf(page, "h1")).toEqual([expect.stringMatching(/^agentserve \d+\.\d+\.\d+$/)]);
    expect(textOf(page, "h2")).toEqual(["Agents 1", "Workflows 1"]);
    expect(textOf(page, "#agent-assistant .about")[0]).toBe(
      "Assistant assistant Knows <b> and &lt;b> Model agentserve/echo Tools weather",
    );
    expect(textOf(page, "#workflow-approval .about")[0]).toBe(
      "Expense approval approval human in the loop Asks a person about large expenses Steps Decide answer",
    );
    expect(text).not.toContain("nobody's business");
  });

  it("GET / links only to paths that answer 200", async () => {
    const page = parse((await server.get("/")).text);
    const links = [...page.querySelectorAll("a")].map((link) => link.getAttribute("href")!);
    expect(links).toEqual(["ui", "doc", "agents", "workflows", "api/logs"]);
    for (const link of links) expect([link, (await server.get(`/${link}`)).status]).toEqual([link, 200]);
  });

  it("GET / has no script, and lets a browser load nothing but its own style", async () => {
    const { headers, text } = await server.get("/");
    const page = parse(text);
    expect(page.querySelectorAll("script, iframe, object, [style], [src]")).toHaveLength(0);
    const hash = createHash("sha256").update(page.querySelector("style")!.textContent).digest("base64");
    expect(Object.fromEntries(headers)).toMatchObject({
      "content-security-policy": `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
  });

  it("answers HEAD / and HEAD /ui", async () => {
    expect((await server.request("/", { method: "HEAD" })).status).toBe(200);
    expect((await server.request("/ui?file=swagger-ui.css", { method: "HEAD" })).status).toBe(200);
  });
});

it("GET / says which files to create where agents or workflows are missing", async () => {
  const empty = await startServer("in process");
  expect(textOf(parse((await empty.get("/")).text), "h2, .first-steps p code")).toEqual([
    "No agents or workflows yet",
    "agents/assistant.ts",
    "workflows/hello.ts",
  ]);
  await empty.close();
  const half = await startTestServer("in process", { config: { agents: [assistant] } });
  expect(textOf(parse((await half.get("/")).text), ".none")).toEqual([
    "None yet: create one with defineWorkflow() and export it from a file in workflows/.",
  ]);
});

it("GET / shows first files that are served when they are created", async () => {
  const empty = open({});
  const page = parse(await (await empty.fetch(new Request("http://localhost/"))).text());
  const [agent = "", workflow = ""] = [...page.querySelectorAll("pre")].map(({ textContent }) => textContent);
  const cwd = createProject({
    "agents.config.ts": `import { defineConfig } from "agentserve";\nexport default defineConfig({});\n`,
    "agents/assistant.ts": agent,
    "workflows/hello.ts": workflow,
  });
  const child = agentserve(["start", "--port", "0", "--data", ":memory:"], { cwd });
  const [base] = await child.waitFor(/http:\/\/\S+:\d+/);
  const served = parse(await (await fetch(`${base}/`)).text());
  const [ask, run] = commandsOf(served);
  expect(JSON.parse(await shell(ask!))).toMatchObject({ success: true, data: { text: "Hello" } });
  expect(JSON.parse(await shell(run!))).toMatchObject({ success: true, data: { result: { text: "Hello text" } } });
});

describe("the commands of the page", () => {
  const nasty = `it's "quoted" $HOME \`id\` \\ <b> \u202e\u0007\u2028\n'; exit 1 #`;
  const echo = (id: string, input: any) =>
    defineWorkflow({ id, input }).andThen({ id: "only", execute: ({ data }) => data });
  const workflows = [
    approval,
    echo("nasty", v.object({ text: v.optional(v.literal(nasty)), said: v.literal(nasty) })),
    echo("a:b", z.object({ email: z.email(), at: z.iso.datetime(), n: z.number().int().min(7).max(9), url: z.url() })),
    echo("ark", type({ kind: "'one' | 'two'", list: "number[]", share: "0 < number < 1" })),
    echo("deep", z.object({ get next() { return z.array(z.object({ id: z.uuid() })).min(2); } })), // prettier-ignore
    defineWorkflow({ id: "any" }).andThen({ id: "only", execute: ({ data }) => data }),
  ];

  it("GET / shows commands that run as they are", async () => {
    const server = await start({ agents: [assistant], workflows, auth: jwtAuth({ secret }) });
    const page = parse((await server.get("/")).text);
    const results: Record<string, any> = {};
    for (const card of page.querySelectorAll("article")) {
      const [command] = commandsOf(card);
      expect(command).toContain(`-H "authorization: Bearer $TOKEN"`);
      expect(command).not.toMatch(/[\p{Cf}\p{Zl}]/u); // all of it can be seen
      results[card.id] = JSON.parse(await shell(command!, { TOKEN: token }));
    }
    expect(Object.values(results).map(({ success }) => success)).toEqual(Array(7).fill(true));
    expect(results["agent-assistant"].data.text).toBe("Hello");
    expect(results["workflow-nasty"].data.result).toEqual({ said: nasty });
    expect(results["workflow-ark"].data.result).toMatchObject({ kind: "one", share: 0.5 });
    expect(results["workflow-deep"].data.result.next).toHaveLength(2);
    // Of a workflow that waits, the second one answers for the person. It needs no token here.
    const { executionId, status } = results["workflow-approval"].data;
    expect(status).toBe("suspended");
    const resume = commandsOf(page.querySelector("#workflow-approval")!)[1]!;
    expect(resume).not.toContain("TOKEN");
    const resumed = JSON.parse(await shell(resume, { EXECUTION_ID: executionId }));
    expect(resumed.data).toMatchObject({ status: "completed", result: { approved: true } });
  });

  it("GET / shows commands with a token where the policy needs one", async () => {
    const auth = jwtAuth({
      secret,
      publicRoutes: ["POST /workflows/any/*", "POST /agents/assistant/text"],
      protect: ["POST /workflows/approval/executions/*"],
    });
    const server = await startTestServer("in process", { config: { agents: [assistant], workflows, auth } });
    const page = parse((await server.get("/")).text);
    const needsToken = (id: string) => commandsOf(page.querySelector(id)!).map((text) => text.includes("$TOKEN"));
    expect(needsToken("#agent-assistant")).toEqual([false]);
    expect(needsToken("#workflow-any")).toEqual([false]);
    expect(needsToken("#workflow-ark")).toEqual([true]);
    expect(needsToken("#workflow-approval")).toEqual([true, true]);
  });

  it("GET / shows commands with the origin of the request, quoted for the shell", async () => {
    const server = open(config);
    for (const origin of ["http://x'$(id)`id`;&.test", "https://[::1]:8443", "http://agents.example"]) {
      const response = await server.fetch(new Request(`${origin}/`));
      const [command] = commandsOf(parse(await response.text()).querySelector("#workflow-approval")!);
      // In the place of curl: what it would be asked for.
      const said = await shell(`curl() { printf %s "$1"; }\n${command}`);
      expect(said).toBe(`${new URL(origin).origin}/workflows/approval/execute`);
    }
  });
});

it("GET / and /doc show only what the lists show to the caller", async () => {
  const auth = jwtAuth({ secret, protect: ["GET /workflows", "GET /agents/secret"] });
  const agents = [assistant, defineAgent({ id: "secret", instructions: "", model: echoModel() })];
  const server = await startTestServer("in process", { config: { agents, workflows: [approval], auth } });
  for (const [headers, ids] of [
    [{}, ["agent-assistant"]],
    [{ authorization }, ["agent-assistant", "agent-secret", "workflow-approval"]],
    [{ authorization: "Bearer x" }, ["agent-assistant"]],
  ] as const) {
    const { text } = await server.get("/", { headers });
    expect([...parse(text).querySelectorAll("article")].map(({ id }) => id)).toEqual(ids);
    const isKnown = ids.length > 1;
    expect(text.includes("Listed only for requests with a valid token")).toBe(!isKnown);
    const { body } = await server.get("/doc", { headers });
    expect("/workflows/approval/execute" in body.paths).toBe(isKnown);
  }
});

it("escapes and cuts hostile names in GET / and /doc", async () => {
  const hostile = `</h3><script>alert(1)</script><img src=x onerror="alert(1)">'"&amp;\u0000\u001b[31m\u202e\u2066${"x".repeat(10_000)}`;
  const agents = [
    defineAgent({ id: "odd", name: hostile, description: hostile, instructions: "", model: echoModel() }),
  ];
  const schema = v.object({ [hostile]: v.pipe(v.string(), v.title(hostile)) });
  const workflows = [
    defineWorkflow({ id: "odd", name: hostile, purpose: hostile, input: schema }).andThen({
      id: "only",
      name: hostile,
      execute: () => null,
    }),
  ];
  const server = await startTestServer("in process", { config: { agents, workflows } });
  const { text } = await server.get("/");
  const page = parse(text);
  expect(page.querySelectorAll("script, img, [onerror]")).toHaveLength(0);
  for (const heading of textOf(page, "h3")) {
    expect(heading).toMatch(/^<\/h3><script>alert\(1\)<\/script>.*…$/);
    expect(heading.length).toBeLessThan(160);
  }
  // oxlint-disable-next-line no-control-regex
  expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u202a-\u202e\u2066-\u2069]/);
  expect(text.length).toBeLessThan(40_000);
  const { body } = await server.get("/doc");
  const operation = body.paths["/workflows/odd/execute"].post;
  expect(operation.summary.length).toBeLessThan(200);
  expect(operation.description).toMatch(/^\\<\/h3>\\<script>/);
  expect(body.components.schemas["WorkflowOddInput"].required).toEqual([hostile]);
});

it("GET / shows 500 agents and 500 workflows, and makes their list once", async () => {
  const count = 500;
  const agents = Array.from({ length: count }, (_, n) =>
    defineAgent({ id: `a${n}`, instructions: "", model: echoModel() }),
  );
  const input = v.object({ n: v.number() });
  const workflows = Array.from({ length: count }, (_, n) =>
    defineWorkflow({ id: `w${n}`, input }).andThen({ id: "only", execute: () => null }),
  );
  const server = open({ agents, workflows });
  const ask = async (path: string) => (await server.fetch(new Request(`http://localhost${path}`))).text();
  const first = await ask("/");
  expect(parse(first).querySelectorAll("article")).toHaveLength(2 * count);
  expect(await ask("/")).toBe(first);
  const doc = await ask("/doc");
  expect(Object.keys(JSON.parse(doc).paths).filter((path) => path.startsWith("/workflows/w"))).toHaveLength(count);
  console.log(`1,000 entries: page ${first.length} bytes, document ${doc.length} bytes`);
  expect(doc.length).toBeLessThan(3_000_000);
});

it("GET / shows the error of the last save above the served version, and refreshes itself", async () => {
  const problem = {
    message: "workflows/a.ts: <b>Unexpected</b>\nsecond line",
    hint: "write `}`",
    frame: "\u001b[31m> 4 | workflows\u001b[39m,\n    | ^",
    since: "2026-11-15T13:47:45.000Z",
  };
  const server = open(config);
  const ask = async () => {
    const response = await server.fetch(new Request("http://localhost/"));
    expect(response.status).toBe(200);
    return parse(await response.text());
  };
  expect((await ask()).querySelector(".problem, meta[http-equiv]")).toBeNull();
  server.complain(problem);
  const page = await ask();
  const panel = page.querySelector("main")!.firstElementChild!;
  expect(panel.getAttribute("role")).toBe("alert");
  expect(panel.querySelector(".message")!.textContent).toBe(problem.message);
  expect(panel.querySelector(".hint")!.textContent).toBe("Hint write `}`");
  expect(panel.querySelector(".frame")!.textContent).toBe("> 4 | workflows,\n    | ^");
  expect(panel.querySelector("time")!.getAttribute("datetime")).toBe(problem.since);
  expect(panel.textContent).toContain("The last good version is still being served");
  expect(page.querySelector("meta[http-equiv=refresh]")!.getAttribute("content")).toBe("2");
  expect(page.querySelectorAll("article")).toHaveLength(2);
  const stranger = new Request("http://localhost/", { headers: { origin: "https://stranger.test" } });
  const foreign = await server.fetch(stranger);
  expect(await foreign.text()).not.toContain("could not be loaded"); // `cors` may let a page of anybody read this
  server.complain({ message: "short", since: problem.since });
  expect((await ask()).querySelectorAll(".hint, .frame")).toHaveLength(0);
  server.complain(undefined);
  expect((await ask()).querySelector(".problem")).toBeNull();
});

describeServer("GET /ui", { only: ["start"] }, (server) => {
  const files = ["swagger-ui.css", "page.css", "swagger-ui-bundle.js", "page.js"];

  it("GET /ui is a page whose files all come from its own path", async () => {
    const { status, headers, text } = await server.get("/ui");
    expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(headers.get("content-security-policy")).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    const page = parse(text);
    const asked = [...page.querySelectorAll("link[rel=stylesheet], script")].map(
      (element) => element.getAttribute("href") ?? element.getAttribute("src")!,
    );
    expect(asked.map((url) => new URLSearchParams(url).get("file"))).toEqual(files);
    expect(page.querySelectorAll("script:not([src]), [style]")).toHaveLength(0);
    for (const url of asked) {
      const file = await server.get(`/ui${url}`);
      expect([url, file.status]).toEqual([url, 200]);
      expect(file.headers.get("content-type")).toMatch(/^text\/(css|javascript); charset=utf-8$/);
      expect(file.headers.get("cache-control")).toContain("immutable");
      const version = createHash("sha256").update(file.text).digest("hex").slice(0, 16);
      expect(new URLSearchParams(url).get("v")).toBe(version);
      const other = await server.get(`/ui${url.replace(version, "older")}`);
      expect([other.headers.get("cache-control"), other.text === file.text]).toEqual(["no-cache", true]);
    }
  });

  it("GET /ui answers 400 to other file names", async () => {
    for (const name of ["../package.json", "swagger-ui.js", "", "constructor"]) {
      const { status, body } = await server.get(`/ui?file=${encodeURIComponent(name)}`);
      expect([status, body.error]).toEqual([400, expect.stringMatching(/^Invalid query: file: /)]);
    }
  });
});

it("opens all of /ui with one entry of publicRoutes, and closes all of it without", async () => {
  const paths = ["/ui", "/ui?file=swagger-ui-bundle.js", "/ui?file=page.js"];
  for (const [publicRoutes, status] of [
    [["GET /ui"], 200],
    [[], 401],
  ] as const) {
    const server = open({ auth: jwtAuth({ secret, defaultPrivate: true, publicRoutes: [...publicRoutes] }) });
    for (const path of paths) {
      expect([path, (await server.fetch(new Request(`http://localhost${path}`))).status]).toEqual([path, status]);
    }
  }
});

function open(served: Config): OpenServer {
  const project = toProject({ backend: chosenBackend.create(), ...served });
  const server = openServer(project, { mode: "start", logger: createTestLogger([]) });
  onTestFinished(() => server.close());
  return server;
}

const start = (served: Config): Promise<TestServer> => startTestServer("start", { config: served });

const parse = (text: string): Document => new new Window().DOMParser().parseFromString(text, "text/html");
const textOf = (page: Document, selector: string): string[] =>
  [...page.querySelectorAll(selector)].map(({ textContent }) => textContent.replace(/\s+/g, " ").trim());
const commandsOf = (card: { querySelectorAll: Document["querySelectorAll"] }): string[] =>
  [...card.querySelectorAll("pre code")].map(({ textContent }) => textContent);

async function shell(command: string, env: Record<string, string> = {}): Promise<string> {
  const run = promisify(execFile);
  const { PATH = "" } = process.env;
  const { stdout } = await run("sh", ["-c", command], { env: { PATH, NO_PROXY: "*", ...env }, timeout: patienceMs });
  return stdout;
}
