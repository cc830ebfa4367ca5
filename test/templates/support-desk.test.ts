// An `authorize` that lets every user decide makes a test of this file fail.
import { mkdirSync, readdirSync, symlinkSync, unlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { createToken } from "../../src/index.ts";
import { agentserve, run } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";

/** Writes the template, as `init` does. */
async function write(): Promise<string> {
  const folder = createProject({});
  expect((await runHere(["init", "--template", "support-desk"], { cwd: folder })).code).toBe(0);
  return folder;
}

const secret = "support-desk-secret-of-32-bytes!";
/** A token of a user, as an identity provider would sign it. */
const tokenOf = (sub: string, role: string): Promise<string> => createToken({ sub, name: sub, role }, secret);

/** Serves the template. */
async function serve(command: string[], env: NodeJS.ProcessEnv = {}) {
  const options = { cwd: await write(), env: { ...process.env, JWT_SECRET: secret, ...env } };
  const child = agentserve([...command, "--port", "0", "--data", ":memory:"], options);
  const [base] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
  async function send(token: string, method: string, path: string, body?: object): Promise<[number, any]> {
    const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    const response = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    return [response.status, text.startsWith("{") ? JSON.parse(text) : text];
  }
  return { child, send, signIn: (userId: string) => send("", "POST", "/sign-in", { userId }) };
}

describe("the template support-desk", () => {
  it("the template support-desk lets a manager decide about a refund, and not the customer", async () => {
    const { child, send } = await serve(["start", "--strict"]);
    const [ada, grace] = await Promise.all([tokenOf("ada", "customer"), tokenOf("grace", "manager")]);
    const ask = async (token: string, input: string) => {
      const options = { conversationId: "c1" };
      const [status, { data }] = await send(token, "POST", "/agents/support/text", { input, options });
      expect(status).toBe(200);
      return data;
    };
    expect((await ask(ada, "Where is my order 1001?")).text).toContain("desk lamp");
    expect((await ask(grace, "Where is order 1001?")).text).toContain("There is no order 1001"); // it is not hers
    expect((await ask(ada, "A refund of 12 for order 1002, please")).text).toContain("refunded 12");

    expect((await ask(ada, "A refund of 40 for order 1001, please")).finishReason).toBe("approval");
    const [, { data: own }] = await send(ada, "GET", "/approvals");
    expect(own.items).toEqual([]);
    const [, { data: waiting }] = await send(grace, "GET", "/approvals");
    const item = { userId: "ada", toolName: "refund", input: { number: "1001", amount: 40 } };
    expect(waiting.items).toMatchObject([item]);
    const path = `/approvals/${waiting.items[0].approvalId}`;
    expect((await send(ada, "POST", path, { approved: true }))[0]).toBe(403);
    const [status, { data }] = await send(grace, "POST", path, { approved: true });
    expect([status, data.text]).toEqual([200, "Here it is: number 1001, item desk lamp, refunded 40."]);
    const [, { data: read }] = await send(ada, "GET", "/agents/support/conversations/c1");
    expect(read.messages.at(-1).parts).toMatchObject([
      { type: "step-start" },
      { type: "tool-refund", state: "output-available", output: { refunded: 40 }, approval: { approved: true } },
      { type: "step-start" },
      { type: "text", text: data.text },
    ]);

    // A manager does not approve a refund that was asked for by the same manager.
    expect((await ask(grace, "A refund of 30 for order 1001, please")).finishReason).toBe("approval");
    expect((await send(grace, "GET", "/approvals"))[1].data.items).toEqual([]);

    // A manager reads the chat behind a refund and answers in it. Customers reach no chat of others.
    expect((await ask(ada, "A refund of 50 for order 1001, please")).finishReason).toBe("approval");
    const [refund] = (await send(grace, "GET", "/approvals"))[1].data.items;
    expect(refund).toMatchObject({ conversationId: "c1", userId: "ada", mayReadConversation: true });
    const chat = "/agents/support/conversations/c1";
    expect((await send(grace, "GET", `${chat}?userId=ada`))[1].data).toMatchObject({ isOwn: false });
    expect((await send(grace, "POST", `${chat}/messages?userId=ada`, { text: "Which lamp?" }))[0]).toBe(201);
    const { messages } = (await send(ada, "GET", chat))[1].data;
    expect(messages.at(-2)).toMatchObject({ metadata: { author: { id: "grace", name: "grace" } } });
    expect((await send(grace, "POST", `/approvals/${refund.approvalId}`, { approved: true }))[0]).toBe(200);
    expect((await send(grace, "POST", `${chat}/stop?userId=ada`, {}))[0]).toBe(200);
    expect((await send(grace, "DELETE", `${chat}?userId=ada`))[0]).toBe(403);
    expect((await send(ada, "GET", `${chat}?userId=grace`))[0]).toBe(403);
    expect((await send(ada, "POST", `${chat}/messages`, { text: "x" }))[0]).toBe(403);

    expect(await send("", "GET", "/desk")).toEqual([404, expect.objectContaining({ success: false })]); // not built
    expect((await send("", "GET", "/agents"))[0]).toBe(401);
    child.process.kill("SIGTERM");
    const { code, stderr } = await child.ended;
    const lines = stderr.trim().split("\n");
    const failures = lines
      .map((line) => JSON.parse(line))
      .map((record) => [record.level, record.message, record.data.tool]);
    // Grace has no order 1001, and the lamp of Ada cost less.
    expect([code, failures]).toEqual([0, ["lookUpOrder", "refund"].map((tool) => ["warn", "Tool failed", tool])]);
  });

  it("the template support-desk has demo users under dev only, whatever NODE_ENV says", async () => {
    const dev = await serve(["dev"], { NODE_ENV: "production" });
    const [status, { token }] = await dev.signIn("grace");
    expect([status, (await dev.send(token, "GET", "/approvals"))[0]]).toEqual([200, 200]);
    expect(await dev.signIn("eve")).toEqual([401, { success: false, error: "Unknown user" }]);
    dev.child.process.kill("SIGTERM");
    expect((await dev.child.ended).code).toBe(0);

    for (const NODE_ENV of ["development", undefined]) {
      const { child, signIn } = await serve(["start"], { NODE_ENV });
      expect((await signIn("grace"))[0]).toBe(404);
      child.process.kill("SIGTERM");
      expect(await child.ended).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/warning|error/) });
    }
  });

  it("the Vite server of the template support-desk follows the port of dev", async () => {
    const cwd = await write();
    const modules = join(cwd, "node_modules");
    unlinkSync(modules);
    mkdirSync(modules);
    for (const name of readdirSync("node_modules")) symlinkSync(resolve("node_modules", name), join(modules, name));
    symlinkSync(resolve("."), join(modules, "agentserve"));
    const env = { ...process.env, JWT_SECRET: secret, PORT: "0" };
    const command = [resolve("node_modules/vite/bin/vite.js"), "--port", "0"];
    const vite = run(process.execPath, command, { cwd, env });
    const [page] = await vite.waitFor(/http:\/\/localhost:\d+(?=\/desk\/)/);
    const headers = { authorization: `Bearer ${await tokenOf("ada", "customer")}` };
    const response = await fetch(`${page}/agents/support/conversations`, { headers });
    expect([response.status, await response.json()]).toMatchObject([200, { data: { items: [] } }]);
    vite.process.kill("SIGTERM");
    await vite.ended;
  });
});
