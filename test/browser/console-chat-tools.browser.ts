import { expect, it } from "vitest";
import { until } from "../harness/waiting.ts";
import { describeAgents } from "./console-agents-world.ts";
import { expectNoProblems } from "./console-page.ts";

describeAgents("tools in the chat of the console", (world) => {
  it("shows tools with their input, output, error and preliminary output", async () => {
    const tab = await world.begin();
    await tab.say("weather in Berlin");
    await tab.isReady();
    await tab.answers.last().getByText("done").click();
    await tab.answers.last().getByRole("group", { name: "Output of weather" }).getByText('"blue"').waitFor();
    await tab.say("fails");
    await tab.answers.last().getByText("failed").click();
    await tab.answers.last().getByText("no such thing").first().waitFor();
    await tab.isReady();
    await tab.say("progress");
    await world.gates.reached("progress");
    await tab.answers.last().getByText("runs", { exact: true }).click();
    await tab.sees("Output so far");
    await tab.sees("50");
    world.gates.open("progress");
    await tab.sees("Output");
    await tab.sees("100");
    expectNoProblems(tab);
  });

  it("asks for an approval of a tool call, and continues the answer after it", async () => {
    const tab = await world.begin();
    await tab.say('pay {"amount":7}');
    await tab.sees("waits for approval");
    await tab.click("Approve");
    await tab.sees("pay: paid 7");
    await tab.isReady();
    await tab.say('pay {"amount":8}');
    await tab.sees("waits for approval");
    await tab.page.reload(); // the call still waits
    await tab.page.getByLabel("Reason").fill("too much");
    await tab.click("Deny");
    await tab.answers.last().getByText("denied", { exact: true }).click();
    await tab.sees("Reason: too much");
    await until(async () => (await tab.answers.count()) === 2, "two answers");
    expectNoProblems(tab);
  });

  it("lets the user be the client of a tool without execute", async () => {
    const tab = await world.begin();
    await tab.say("locate");
    await tab.sees("waits for your result");
    await tab.page.getByLabel("Result", { exact: true }).fill('{"city":"Rome"}');
    await tab.click("Send result");
    await tab.sees('locate: {"city":"Rome"}');
    await tab.isReady();
    await tab.say("locate again");
    await tab.page.getByLabel("It fails").check();
    await tab.page.getByLabel("Error", { exact: true }).fill("no signal");
    await tab.click("Send result");
    await tab.sees("locate: no signal");
    expectNoProblems(tab);
  });

  it("resumes a suspended workflow of a tool in the chat", async () => {
    const tab = await world.begin();
    await tab.say('refund {"order":"o1"}');
    await tab.sees("How much for o1?");
    expect(await tab.page.getByRole("link", { name: "Run of refund" }).getAttribute("href")).toMatch(
      /^#\/runs\/refund\/child/,
    );
    await tab.page.getByLabel("amount").fill("0");
    await tab.click("Resume");
    await tab.answers.last().getByRole("alert").getByText(/>=1/).waitFor();
    await tab.page.getByLabel("amount").fill("12");
    await tab.click("Resume");
    await tab.sees("refund: o1 gets 12");
    await tab.isReady();
    expect(await tab.words()).toEqual(['refund {"order":"o1"}', "refund: o1 gets 12"]);
  });

  it("continues an answer whose workflow is resumed elsewhere", async () => {
    const tab = await world.begin();
    await tab.say('refund {"order":"o2"}');
    await tab.sees("How much for o2?");
    const href = await tab.page.getByRole("link", { name: "Run of refund" }).getAttribute("href");
    const run = decodeURIComponent(href!.split("/").at(-1)!);
    await world.server.post(`/workflows/refund/executions/${encodeURIComponent(run)}/resume`, {
      resumeData: { amount: 3 },
    });
    await tab.sees("refund: o2 gets 3");
    await tab.page.locator(`.tool a[href="${href}"]`).waitFor({ state: "attached" }); // the call is folded by now
    expectNoProblems(tab);
  });

  it("shows the model calls of an answer, with prompt, parts, tokens and time", async () => {
    const tab = await world.begin();
    await tab.say("weather in Berlin");
    await tab.isReady();
    await tab.answers.last().getByText("Model calls").click();
    const calls = tab.answers.last().getByRole("listitem");
    await calls.first().waitFor();
    expect(await calls.count()).toBe(2);
    await calls
      .first()
      .getByText(/ms · \d+ input \+ \d+ output tokens · tool-calls/)
      .click();
    await calls.first().getByText("Be brief.").waitFor();
    await calls.first().locator("pre").getByText("weather in Berlin").waitFor();
    await calls.first().getByRole("group", { name: "Part" }).getByText('"weather"').waitFor();
    await calls
      .last()
      .getByText(/· stop/)
      .waitFor();
    expectNoProblems(tab);
  });
});
