import { chmodSync, cpSync, existsSync, readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { startDev, workflow, writeFiles } from "../dev/dev-server.ts";
import { agentserve, run, type Child } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { openSocket } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const secret = "a secret of at least thirty-two bytes";
const define = (body: string): string => `import { defineConfig, jwtAuth } from "agentserve";
export default defineConfig({ server: { port: 0, cors: false, limits: { drainNoticeMs: 0 } }, ${body} });
`;
const provider = `auth: jwtAuth({ secret: "${secret}", defaultPrivate: true, webSockets: true })`;
const toFiles = (body: string) => ({ "agents.config.ts": define(body), "workflows/w.ts": workflow("w") });
const linkLine = /^ {2}console {2}(http:\/\/\S+)\/console(?:#t=(\S+))?$/m;

async function signIn(url: string, token: string): Promise<{ status: number; session: string }> {
  const headers = { "content-type": "application/json", "x-agentserve-console": "1" };
  const body = JSON.stringify({ token });
  const response = await fetch(`${url}/console/api/session`, { method: "POST", headers, body });
  const { data } = (await response.json()) as { data?: { token: string } };
  return { status: response.status, session: data?.token ?? "" };
}

/** Everything that the logs of a server show to its console: the list, the two sockets and the metrics. */
async function readLogs(url: string, session: string): Promise<string> {
  const headers = { authorization: `Bearer ${session}` };
  const read = async (path: string) => (await fetch(url + path, { headers })).text();
  return (await Promise.all(["/api/logs?limit=1000", "/metrics"].map(read))).join("\n");
}

describe("agentserve dev", () => {
  it("dev prints a link to the console that works once, and the next link when it is used", async () => {
    const dev = await startDev(toFiles(provider), { watched: false });
    const [, url = "", token = ""] = await dev.child.waitFor(linkLine);
    expect([url, token]).toEqual([dev.url, expect.stringMatching(/^[\w-]{22}$/)]);
    const first = await signIn(url, token);
    expect(first.status).toBe(200);
    const [, next = ""] = await dev.child.waitFor(
      /^ {2}signed in to the console {2}· {2}next link \S+\/console#t=(\S+)$/m,
    );
    expect((await signIn(url, token)).status).toBe(401);
    expect((await signIn(url, next)).status).toBe(200);
    const asked = await fetch(`${url}/workflows`, { headers: { authorization: `Bearer ${first.session}` } });
    expect(asked.status).toBe(200);
  });

  it.runIf(process.platform === "linux")(
    "dev writes no console token to stdout, stderr, /api/logs, sockets and spans",
    async () => {
      for (const flags of [[], ["--json"]]) {
        const cwd = createProject(toFiles(provider));
        const opened = join(cwd, "opened.txt");
        writeFiles(cwd, {
          "bin/xdg-open": `#!/bin/sh\necho "$1" > '${opened}.new' && mv '${opened}.new' '${opened}'\n`,
        });
        chmodSync(join(cwd, "bin/xdg-open"), 0o755);
        const env = { ...process.env, PATH: `${join(cwd, "bin")}${delimiter}${process.env["PATH"]}` };
        const child = agentserve(["dev", "--open", "--data", ":memory:", ...flags], { cwd, env });
        const link = await eventually(() => {
          if (!existsSync(opened)) throw new Error("not opened yet");
          return readFileSync(opened, "utf8").trim();
        });
        const [, url = "", token = ""] = /^(http:\/\/\S+)\/console#t=([\w-]{22})$/.exec(link)!;
        const { session } = await signIn(url, token);
        const at = url.replace("http", "ws");
        const sockets = await Promise.all(
          ["/ws/logs", "/ws/observability"].map((path) => openSocket(at + path, { protocols: ["bearer", session] })),
        );
        let heard = "";
        for (const { ws } of sockets) ws.on("message", (data) => (heard += String(data)));
        // Requests with every token, in every place where one might be logged.
        const headers = { authorization: `Bearer ${session}` };
        await signIn(url, token);
        await signIn(url, session);
        for (const path of [`/workflows?token=${session}`, `/console?t=${token}`, `/console/api/problem?t=${session}`])
          await fetch(url + path, { headers });
        const json = { ...headers, "content-type": "application/json" };
        await fetch(`${url}/workflows/w/execute`, { method: "POST", headers: json, body: `{"input":{}}` });
        await fetch(`${url}/console/api/session`, { method: "POST", headers: json, body: `{"token": ${token}` });
        await eventually(() => {
          if (!heard.includes("span:end") || !heard.includes("/workflows/:id/execute"))
            throw new Error("not heard yet");
        });
        const listed = await readLogs(url, session);
        expect(listed).toContain("/console/api/session");
        for (const socket of sockets) socket.close();
        child.process.kill("SIGINT");
        const { stdout, stderr } = await child.ended;
        const places = { stderr, listed, heard, ...(flags.length > 0 && { stdout }) };
        for (const [place, text] of Object.entries(places)) {
          expect([place, text.includes(session)]).toEqual([place, false]);
          expect([place, text.includes(token)]).toEqual([place, false]);
          expect([place, text.includes("#t=")]).toEqual([place, false]); // nor the next link
        }
        if (flags.length > 0) expect(stdout).toBe("");
        // In the terminal, the link is in its line and nowhere else.
        else
          expect([stdout.split(token).length - 1, linkLine.exec(stdout)?.[2], stdout.includes(session)]).toEqual([
            1,
            token,
            false,
          ]);
      }
    },
  );

  it("dev --open shows no token if there is no browser", async () => {
    const env = { ...process.env, PATH: "/nonexistent", BROWSER: "" };
    const child = agentserve(["dev", "--open", "--json", "--data", ":memory:"], {
      cwd: createProject(toFiles("")),
      env,
    });
    await eventually(() => expect(child.output().stderr).toContain("in your browser"));
    expect(child.output().stderr).toMatch(/: open http:\/\/127\.0\.0\.1:\d+\/console in your browser\n/);
    expect(child.output().stderr).not.toContain("#t=");
  });

  it("dev has no link on an address that others can reach", async () => {
    const child = agentserve(["dev", "--host", "0.0.0.0", "--data", ":memory:"], { cwd: createProject(toFiles("")) });
    const [, url = "", token] = await child.waitFor(linkLine);
    expect(token).toBeUndefined();
    const addresses = Object.values(networkInterfaces()).flatMap((all = []) =>
      all.filter(({ family }) => family === "IPv4"),
    );
    for (const { address } of addresses) {
      const base = `http://${address}:${new URL(url).port}`;
      expect((await fetch(`${base}/console`)).status).toBe(200);
      expect((await fetch(`${base}/console/session`)).status).toBe(200);
      expect((await signIn(base, "A".repeat(22))).status).toBe(404);
      const doc = await (await fetch(`${base}/doc`)).text();
      expect([doc.includes('"/console/session"'), doc.includes("/console/api")]).toEqual([true, false]);
    }
  });
});

describe("agentserve start", () => {
  const serve = async (body: string, args: string[] = []) => {
    const cwd = createProject({ "agents.config.ts": define(body) });
    const child: Child = agentserve(["start", "--data", ":memory:", ...args], { cwd });
    await child.waitFor(/public routes/).catch(() => {});
    child.process.kill("SIGINT");
    return child.ended;
  };
  const risk =
    "The console is on without an auth provider: anyone who can reach 127.0.0.1, also through a proxy, can use it";

  it("start has a console only if the config says so, and never a link", async () => {
    expect((await serve("")).stdout).not.toContain("console");
    const { stdout, stderr } = await serve(`console: true, ${provider}`);
    expect(linkLine.exec(stdout)?.slice(1)).toEqual([expect.stringMatching(/^http:/), undefined]);
    expect(stderr).toBe("");
  });

  it("start warns of a console without a provider, and refuses it with --strict", async () => {
    expect((await serve("console: true")).stderr).toBe(
      `warning ${risk}\nhint    set auth: jwtAuth({ secret }), or server.authenticatedByProxy: true, or remove console\n`,
    );
    const strict = await serve("console: { readOnly: true }", ["--strict"]);
    expect([strict.code, strict.stdout, strict.stderr]).toEqual([1, "", expect.stringContaining(risk)]);
  });

  it("doctor warns of a console without a provider", async () => {
    const cwd = createProject({ "agents.config.ts": define("console: true") });
    const { stdout } = await agentserve(["doctor", "--json"], { cwd }).ended;
    const { findings } = JSON.parse(stdout) as { findings: { name: string; message: string }[] };
    expect(findings.filter(({ name }) => name === "risk").map(({ message }) => message)).toEqual([risk]);
  });
});

it("the console says that its files are missing, and shows the landing page to a browser, in a clone that is not built", async () => {
  const folder = createProject(toFiles("console: true"));
  cpSync("dist", join(folder, "copy/dist"), { recursive: true, filter: (path) => path !== join("dist", "console") });
  cpSync("bin", join(folder, "copy/bin"), { recursive: true });
  cpSync("package.json", join(folder, "copy/package.json"));
  const args = [join(folder, "copy/bin/agentserve.mjs"), "start", "--data", ":memory:"];
  const [, url = ""] = await run(process.execPath, args, { cwd: folder }).waitFor(linkLine);
  for (const path of ["/console", "/console/assets/console.js"]) {
    const response = await fetch(url + path);
    const error = "The files of the console are missing: build them with npx tsdown";
    expect([path, response.status, await response.json()]).toEqual([path, 404, { success: false, error }]);
  }
  const home = await fetch(url, { headers: { accept: "text/html" } });
  expect([home.status, home.headers.get("vary"), await home.text()]).toEqual([
    200,
    expect.stringContaining("accept"),
    expect.stringContaining("<h1>agentserve"),
  ]);
});
