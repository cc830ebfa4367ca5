import { createToken, defineAgent, defineTool, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { openConsole, type ConsoleServer } from "../console/world.ts";
import { createGates } from "../harness/gates.ts";
import { until } from "../harness/waiting.ts";
import { openChat } from "./console-chat-tab.ts";
import { expectAccessible, expectNoProblems, openPage } from "./console-page.ts";
import { secret, token } from "./fixtures.ts";

const gates = createGates();
const tools = {
  pay: defineTool({
    description: "Pays an amount",
    inputSchema: v.object({ amount: v.number() }),
    needsApproval: true,
    execute: ({ amount }) => `paid ${amount}`,
  }),
  wait: defineTool({
    description: "Waits",
    inputSchema: v.object({}),
    execute: () => gates.pass("wait"),
  }),
};
const config: Config = {
  agents: [defineAgent({ id: "payer", name: "Payer", instructions: "", model: echoModel(), tools })],
  workflows: [defineWorkflow({ id: "greet", name: "Greet" }).andThen({ id: "only", execute: () => "hello" })],
};

describe("the user of a console without an authentication provider", () => {
  it("shows the approvals and conversations of the user that is entered, of nobody at first", async () => {
    const server = await openConsole(config);
    await pay(server, 5, { userId: "ada", conversationId: "talk" });
    await pay(server, 7, { conversationId: "other" });
    const { page, faults } = await openPage(`${server.url}/console`);
    const calls = page.getByRole("article", { name: "May payer call pay?" });
    await calls.getByText("amount: 7").waitFor();
    expect(await calls.count()).toBe(1);
    const user = page.getByRole("textbox", { name: "User" });
    expect(await user.inputValue()).toBe("");
    await user.fill(" ada ");
    await user.press("Enter");
    await calls.getByText("of ada").waitFor();
    await until(async () => (await calls.count()) === 1, "only the calls of Ada");
    await expectAccessible(page, "inbox-of-user");
    await page.reload();
    expect(await user.inputValue()).toBe("ada");
    await calls.getByRole("button", { name: "Approve" }).click();
    await page.getByText("The call of pay was approved.").waitFor();
    await page.getByText("The tool calls are those of the user ada.").waitFor();
    await page.getByRole("link", { name: "Show the conversation" }).click();
    await page.getByRole("article", { name: "Answer" }).getByText("done", { exact: true }).waitFor();
    await user.fill("bob");
    await user.press("Enter");
    await page.getByText("None of the user bob yet.").waitFor(); // the conversation of Ada is closed
    expect(page.url()).toMatch(/#\/agents\/payer$/);
    await user.fill("");
    await user.press("Tab");
    await page.getByRole("link", { name: /^pay \{"amount":7/ }).waitFor();
    await page.getByRole("link", { name: "Inbox 1" }).click();
    await calls.getByText("amount: 7").waitFor();
    expect(faults).toEqual([]);
  });

  it("starts runs and conversations as the user that is entered, and continues, renames and deletes them", async () => {
    const server = await openConsole(config);
    const tab = await openChat(`${server.url}/console#/workflows/greet`);
    const { page } = tab;
    await page.getByRole("textbox", { name: "User" }).fill("ada");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("listitem").filter({ hasText: "user ada" }).waitFor();
    await tab.begin("payer");
    await tab.say('pay {"amount":5}');
    await tab.click("Approve");
    await tab.sees("paid 5");
    await tab.isReady();
    await tab.say("wait {}");
    await gates.reached("wait");
    await page.reload();
    await tab.answers.last().getByText("runs", { exact: true }).waitFor(); // from the stream of the answer
    await tab.click("Stop");
    await tab.answers.last().getByText("stopped", { exact: true }).waitFor();
    await page.getByText("Model calls").first().click();
    await page
      .getByText(/input \+ .* output tokens · tool-calls/)
      .first()
      .waitFor();
    await page
      .getByRole("button", { name: /^Rename/ })
      .first()
      .click();
    await page.getByLabel("Title").fill("Her payments");
    await page.getByRole("button", { name: "Rename", exact: true }).last().click();
    await page.getByRole("heading", { name: "Her payments" }).waitFor();
    const path = "/agents/payer/conversations";
    expect((await server.ask(path)).body.data.items).toEqual([]);
    expect((await server.ask(`${path}?userId=ada`)).body.data.items).toMatchObject([{ title: "Her payments" }]);
    await page.getByRole("button", { name: "Delete Her payments" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("None of the user ada yet.").waitFor();
    expect((await server.ask(`${path}?userId=ada`)).body.data.items).toEqual([]);
    expectNoProblems(tab);
  });

  it("has no user field under a provider: the user is that of the token", async () => {
    const server = await openConsole({ ...config, auth: jwtAuth({ secret }) });
    const { page, faults } = await openPage(`${server.url}/console`);
    const asked: string[] = [];
    page.on("request", (request) => void asked.push(`${request.url()} ${request.postData() ?? ""}`));
    await page.evaluate(() => localStorage.setItem("agentserve.user", "mallory"));
    await page.reload();
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByText(/Nothing waits for a person/).waitFor();
    await page.goto(`${server.url}/console#/agents/payer`);
    await page.getByText("None yet.").waitFor();
    await page.goto(`${server.url}/console#/workflows/greet`);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("completed", { exact: true }).waitFor();
    expect(await page.getByRole("textbox", { name: "User" }).count()).toBe(0);
    expect(asked.filter((text) => /userId|mallory/.test(text))).toEqual([]);
    expect(faults).toEqual([]);
  });

  it("opens the conversation behind an approval of another user, answers in it and deletes it", async () => {
    const server = await openConsole({
      ...config,
      auth: jwtAuth({ secret }),
      authorize: ({ action, user }) => !action.includes(".others.") || user?.["id"] !== "ada",
    });
    const toHeaders = async (payload: Record<string, unknown>) => ({
      authorization: `Bearer ${await createToken(payload, secret)}`,
    });
    const json = { input: 'pay {"amount":5}', options: { conversationId: "talk" } };
    const asked = await server.ask("/agents/payer/text", { json, headers: await toHeaders({ sub: "bob" }) });
    expect(asked.status).toBe(200);
    const visit = async (payload: Record<string, unknown>) => {
      const tab = await openChat(`${server.url}/console`);
      await tab.page.getByLabel("Token").fill(await createToken(payload, secret));
      await tab.page.keyboard.press("Enter");
      const call = tab.page.getByRole("article", { name: "May payer call pay?" });
      await call.waitFor();
      return { ...tab, call };
    };
    const ada = await visit({ sub: "ada" });
    expect(await ada.call.getByRole("link", { name: "Conversation" }).count()).toBe(0);
    const grace = await visit({ sub: "grace", name: "Grace" });
    await grace.call.getByRole("link", { name: "Conversation" }).click();
    await grace.page.getByRole("article", { name: "User" }).waitFor();
    await grace.say("I look into it");
    await grace.page.getByRole("article", { name: "Grace" }).getByText("I look into it").waitFor();
    expect(await grace.page.getByRole("button", { name: /Edit|Regenerate|Add files|Try again/ }).count()).toBe(0);
    await expectAccessible(grace.page, "conversation-of-another-user");
    const path = "/agents/payer/conversations";
    const own = await server.ask(path, { headers: await toHeaders({ sub: "grace" }) });
    expect(own.body.data.items).toEqual([]);
    await grace.page.getByRole("button", { name: /^Delete/ }).click();
    await grace.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await until(async () => {
      const { body } = await server.ask(path, { headers: await toHeaders({ sub: "bob" }) });
      return body.data.items.length === 0;
    }, "the conversation to be deleted");
    expect([...grace.faults, ...ada.faults]).toEqual([]);
  });
});

async function pay({ ask }: ConsoleServer, amount: number, options: object): Promise<void> {
  const { status } = await ask("/agents/payer/text", { json: { input: `pay ${JSON.stringify({ amount })}`, options } });
  expect(status).toBe(200);
}
