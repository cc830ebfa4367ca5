import { execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { readBlocks, toPlace, type Block } from "../docs/examples/blocks.ts";
import { agentserve } from "../harness/cli.ts";
import { createFolder } from "../harness/folders.ts";
import { patienceMs } from "../harness/patience.ts";
import { createProject } from "../harness/project.ts";
import { until } from "../harness/waiting.ts";
import { freePort } from "./restate-server.ts";

// The examples of docs/scale-out.md, with free ports and folders of their own in place of those on the page.
const blocks = readBlocks().filter(({ file }) => file === "docs/scale-out.md");
const find = (language: string, content: string): Block => {
  const found = blocks.filter((block) => block.language === language && block.text.includes(content));
  expect(found.map(toPlace), content).toHaveLength(1);
  return found[0]!;
};
const examples = {
  install: find("sh", "npx @restatedev/restate-server"),
  laptop: find("ts", "http://127.0.0.1:8080"),
  start: find("sh", "npx agentserve"),
  oneNode: find("toml", 'node-name = "n1"\n'),
  threeNodes: find("toml", "default-replication = 2"),
  replica: find("ts", "identityKeys"),
  balancer: find("haproxy", "backend restate_ports"),
  drain: find("ts", "drainNoticeMs"),
  // Not run: keepalived moves an address between two machines.
  balancers: find("keepalived", "vrrp_script"),
  identity: find("sh", "openssl"),
  query: find("sh", "/query"),
};

const timeout = 4 * patienceMs;
const modules = join(import.meta.dirname, "server/node_modules/@restatedev");
const binary = join(modules, `restate-server-${process.platform}-${process.arch}/bin/restate-server`);
// It reads every variable that begins with RESTATE_ as a setting.
const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("RESTATE_")));

interface Node {
  readonly ingress: string;
  readonly admin: string;
  output(): string;
}

/** Runs restate-server until the test is over. Resolves when it is healthy. */
async function runNode(flags: string[], ports: Ports, cwd: string, variables: NodeJS.ProcessEnv = {}): Promise<Node> {
  const child = spawn(binary, flags, { cwd, env: { ...env, ...variables } });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (text: Buffer) => (output += stripVTControlCharacters(String(text))));
  const [ingress, admin] = [`http://127.0.0.1:${ports.ingress}`, `http://127.0.0.1:${ports.admin}`];
  const isUp = (url: string): Promise<boolean> =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(
    async () => {
      if (child.exitCode !== null) throw new Error(`restate-server has ended: ${output.slice(-2_000)}`);
      return (await isUp(`${ingress}/restate/health`)) && (await isUp(`${admin}/health`));
    },
    () => `a healthy node: ${output.slice(-2_000)}`,
  );
  return { ingress, admin, output: () => output };
}
interface Ports {
  readonly fabric: number;
  readonly ingress: number;
  readonly admin: number;
}
const freePorts = async (): Promise<Ports> => ({
  fabric: await freePort(),
  ingress: await freePort(),
  admin: await freePort(),
});

const workflow = `import { defineWorkflow } from "agentserve";
export const hello = defineWorkflow({ id: "hello" }).andThen({ id: "say", execute: () => "hello" });
`;
/** Serves a config as `agentserve` does, and runs a workflow on it. */
async function expectServed(command: string, config: string, variables: NodeJS.ProcessEnv = {}): Promise<void> {
  const cwd = createProject({ "agents.config.ts": config, "workflows/hello.ts": workflow });
  const server = agentserve([command, "--port", "0"], { cwd, env: { ...env, ...variables } });
  const [url] = await server.waitFor(/http:\/\/\S+?:\d+/);
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: `{"input":{}}` };
  let answer: unknown;
  await until(
    async () => {
      const response = await fetch(`${url}/workflows/hello/execute`, init);
      answer = await response.json();
      return response.status === 200;
    },
    () => `an execution, not ${JSON.stringify(answer)} ${server.output().stderr}`,
  );
  expect(answer).toMatchObject({ data: { status: "completed", result: "hello" } });
  server.process.kill("SIGTERM");
  expect((await server.ended).code).toBe(0);
}

describe("docs/scale-out.md", () => {
  it("runs every example of docs/scale-out.md", () => {
    expect(blocks.map(toPlace).toSorted()).toEqual(Object.values(examples).map(toPlace).toSorted());
  });

  it("runs a workflow on a laptop with the lines under Try it in docs/scale-out.md", { timeout }, async () => {
    const [install, start] = examples.install.text.trim().split("\n");
    const { peerDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as { peerDependencies: object };
    expect(Object.keys(peerDependencies).map((name) => `npm install ${name}`)).toContain(install);
    const [, name, ...flags] = start!.split(" ");
    expect(readFileSync(join(modules, "../../package.json"), "utf8")).toContain(`"${name}"`);
    const ports = await freePorts();
    const variables = {
      RESTATE_BIND_PORT: `${ports.fabric}`,
      RESTATE_INGRESS__BIND_PORT: `${ports.ingress}`,
      RESTATE_ADMIN__BIND_PORT: `${ports.admin}`,
    };
    const { ingress, admin } = await runNode(flags, ports, createFolder("scale-out"), variables);
    const config = examples.laptop.text
      .replace("http://127.0.0.1:8080", ingress)
      .replace("http://127.0.0.1:9070", admin)
      .replace("9080", `${await freePort()}`);
    const [, program, command] = examples.start.text.trim().split(" ");
    expect(program).toBe("agentserve");
    await expectServed(command!, config);
  });

  it("loads the config of a replica behind a balancer in docs/scale-out.md", async () => {
    const cwd = createProject({ "agents.config.ts": examples.drain.text });
    const { code, stdout } = await agentserve(["routes"], { cwd, env }).ended;
    expect([code, stdout]).toEqual([0, expect.stringContaining("/ready")]);
  });

  it.each([
    ["one node", examples.oneNode],
    ["three nodes", examples.threeNodes],
  ])("docs/scale-out.md has only settings for %s that restate-server knows", (_, { text }) => {
    const file = join(createFolder("scale-out"), "restate.toml");
    writeFileSync(file, text);
    const known = execFileSync(binary, ["--config-file", file, "--dump-config"], { env, encoding: "utf8" });
    const toLines = (toml: string): string[] => {
      let section = "";
      return toml.split("\n").flatMap((line) => {
        const [setting] = line.split(" #");
        if (line.startsWith("[")) section = line;
        return / = /.test(setting!) && !line.startsWith("#") ? [`${section} ${setting!.replace(/\/"$/, '"')}`] : [];
      });
    };
    // A list is dumped over several lines, and a URL with a slash at its end.
    const dumped = toLines(
      known.replace(/\[\n\s+([^\]]+?),?\n\]/g, (_list, items: string) => `[${items.replace(/,\n\s+/g, ", ")}]`),
    );
    const withoutSlash = (lines: string[]): string[] => lines.map((line) => line.replaceAll('/"', '"'));
    for (const line of withoutSlash(toLines(text))) expect(withoutSlash(dumped)).toContain(line);
  });

  it(
    "runs a replica on three Restate nodes as docs/scale-out.md says, with a key of openssl, and answers its query",
    { timeout },
    async () => {
      const folder = createFolder("scale-out");
      execFileSync("sh", ["-c", examples.identity.text], { cwd: folder, stdio: "ignore" });
      const nodes = await Promise.all([freePorts(), freePorts(), freePorts()]);
      const toNode = (toml: string, index: number): string => {
        const own = toml
          .replaceAll("10.0.1.1:8080", `127.0.0.1:${nodes[index]!.ingress}`)
          .replaceAll("10.0.1.1:9070", `127.0.0.1:${nodes[index]!.admin}`)
          .replace(/^(bind-address|advertised-address)(.*)10\.0\.1\.1:5122/gm, `$1$2127.0.0.1:${nodes[index]!.fabric}`)
          .replace(/10\.0\.1\.(\d):5122/g, (_, node: string) => `127.0.0.1:${nodes[Number(node) - 1]!.fabric}`)
          .replace('"n1"', `"n${index + 1}"`)
          .replace("auto-provision = true", `auto-provision = ${index === 0}`)
          .replace("/var/lib/restate", join(folder, `n${index + 1}`))
          .replace('"/etc/restate', `"${folder}`)
          .replace(/\[worker\.snapshots\][^]*$/, ""); // there is no object store here
        return `default-num-partitions = 4\nrocksdb-total-memory-size = "256 MB"\n${own}`;
      };
      const started = await Promise.all(
        nodes.map((ports, index) => {
          const file = join(folder, `n${index + 1}.toml`);
          writeFileSync(file, toNode(examples.threeNodes.text, index));
          return runNode(["--config-file", file], ports, folder);
        }),
      );
      const [first] = started;
      await until(() => /kid: "publickeyv1_\w+"/.test(first!.output()), "the public key in the log");
      const [, key] = /kid: "(publickeyv1_\w+)"/.exec(first!.output())!;
      const port = await freePort();
      const config = examples.replica.text
        .replace(/http:\/\/10\.0\.1\.(\d):8080/g, (_, node: string) => started[Number(node) - 1]!.ingress)
        .replace("http://10.0.0.1:9070", first!.admin)
        .replace("0.0.0.0", "127.0.0.1")
        .replace("9080", `${port}`)
        .replace("http://10.0.0.1:9080", `http://127.0.0.1:${port}`);
      await expectServed("start", config, { IDENTITY_KEY: key });
      const query = examples.query.text.replace("http://10.0.0.1:9070", first!.admin);
      // A node that has just joined the cluster answers with an error.
      await expect.poll(() => execFileSync("sh", ["-c", query], { encoding: "utf8" })).toBe(`{"rows":[]}`);
    },
  );
});
