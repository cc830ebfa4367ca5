// An `authorize` that lets every user decide makes a test of this file fail.
import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";

/** Starts the template, as `init` writes it. */
async function start(env: NodeJS.ProcessEnv = {}) {
  const folder = createProject({});
  expect((await runHere(["init", "--template", "support-desk"], { cwd: folder })).code).toBe(0);
  const options = { cwd: folder, env: { ...process.env, ...env } };
  const child = agentserve(["start", "--strict", "--port", "0", "--data", ":memory:"], options);
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
    const { child, send, signIn } = await start();
    const [[, { token: ada }], [, { token: grace }]] = await Promise.all([signIn("ada"), signIn("grace")]);
    expect(await signIn("eve")).toEqual([401, { success: false, error: "Unknown user" }]);
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

    expect(await send("", "GET", "/desk")).toEqual([404, expect.objectContaining({ success: false })]); // not built
    expect((await send("", "GET", "/agents"))[0]).toBe(401);
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/warning|error/) });
  });

  it("the template support-desk has no demo users in production", async () => {
    const { child, signIn } = await start({ NODE_ENV: "production" });
    expect((await signIn("grace"))[0]).toBe(404);
    child.process.kill("SIGTERM");
    expect((await child.ended).code).toBe(0);
  });
});
