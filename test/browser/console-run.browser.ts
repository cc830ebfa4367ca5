import { andThen, defineWorkflow, type Config } from "agentserve";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { by, trusting } from "../auth/authorize/world.ts";
import { openConsole, type ConsoleServer } from "../console/world.ts";
import { createGates } from "../harness/gates.ts";
import { until } from "../harness/waiting.ts";
import { expectAccessible, openPage } from "./console-page.ts";

const gates = createGates();
const gated = defineWorkflow({ id: "gated", input: v.object({ gate: v.string() }) })
  .andThen({ id: "first", execute: ({ data }) => data })
  .andThen({
    id: "second",
    execute: async ({ data, logger }) => {
      logger.info("it waits at the gate");
      await gates.pass(data.gate);
      return { big: "x".repeat(20_000) };
    },
  })
  .andThen({ id: "third", execute: () => "the end" });
const both = defineWorkflow({
  id: "both",
  resumeSchema: v.object({ text: v.string() }),
})
  .andThen({ id: "draft", execute: () => ({ words: 3 }) })
  .andAll({
    id: "reviews",
    steps: ["editor", "legal"].map((id) =>
      andThen({ id, execute: async ({ resumeData, suspend }) => resumeData ?? suspend(`Review by ${id}`) }),
    ),
  });
/** One branch waits at a gate after its answer. */
const pair = defineWorkflow({
  id: "pair",
  input: v.object({ gate: v.string() }),
  resumeSchema: v.object({ text: v.string() }),
}).andAll({
  id: "reviews",
  steps: [
    andThen({
      id: "slow",
      execute: async ({ input, resumeData, suspend }) => {
        if (!resumeData) return suspend("Slow?");
        await gates.pass((input as { gate: string }).gate);
        return resumeData;
      },
    }),
    andThen({ id: "form", execute: async ({ resumeData, suspend }) => resumeData ?? suspend("Form?") }),
  ],
});
const loop = defineWorkflow({ id: "loop", input: v.object({ count: v.number() }) }).andForEach({
  id: "each",
  items: ({ data }) => Array.from({ length: data.count }, (_, n) => n),
  onError: "collect",
  step: andThen({
    id: "check",
    execute({ data }) {
      if (data === 7) throw new Error("Not this one");
      return data;
    },
  }),
});
const config: Config = { workflows: [gated, both, pair, loop] };

describe("a run in the console", () => {
  it("follows the steps of a run, and keeps the selection", async () => {
    const server = await openConsole(config);
    await begin(server, "gated", "run-1", { gate: "follow" });
    const { page, faults } = await openPage(`${server.url}/console#/runs/gated/run-1`);
    await page.getByRole("treeitem", { name: /second/ }).click();
    await page.getByRole("heading", { name: "second", exact: true }).waitFor();
    gates.open("follow");
    await page.getByText("completed", { exact: true }).waitFor();
    await page.getByRole("treeitem", { name: /third/ }).waitFor();
    expect(await page.getByRole("treeitem").count()).toBe(3);
    expect(await page.getByRole("treeitem", { selected: true }).textContent()).toContain("second");
    // A value over 16 KB is read on request.
    await page.getByRole("button", { name: /^Read 20 KB/ }).click();
    await page.getByRole("group", { name: "Output" }).getByText("xxxx").waitFor();
    await page.getByRole("link", { name: "Log", exact: true }).last().click();
    await page.getByText("it waits at the gate").waitFor();
    await page.getByRole("link", { name: "State" }).click();
    await page.getByRole("group", { name: "Result" }).getByText('"the end"').waitFor();
    await page.getByRole("link", { name: "Events" }).click();
    await page.getByRole("button", { name: /workflow-result/ }).waitFor();
    expect(await page.locator(".event").count()).toBe(9);
    await page.getByRole("link", { name: "Again" }).click();
    expect(await page.getByRole("region", { name: "as curl" }).textContent()).toContain('{"gate":"follow"}');
    expect(faults).toEqual([]);
  });

  it("resumes a run at each branch, forks it from a step, and cancels it with a reason", async () => {
    const server = await openConsole(config);
    await begin(server, "both", "run-1");
    const { page, faults } = await openPage(`${server.url}/console#/runs/both/run-1`);
    await page.getByRole("treeitem", { name: /legal/ }).click(); // the second of them
    const detail = page.getByRole("region", { name: "legal" });
    await detail.getByLabel("text").fill("legal, too");
    await detail.getByRole("button", { name: "Send answer" }).click();
    await until(async () => (await page.getByText("Review by legal").count()) === 0, "the end of one wait");
    await page.locator("details.panel").filter({ hasText: "Review by editor" }).getByLabel("text").fill("fine");
    await page.getByRole("button", { name: "Send answer" }).click();
    await page.getByText("completed", { exact: true }).waitFor();
    await page.getByRole("treeitem", { name: /reviews/ }).click();
    await page.getByRole("button", { name: "Fork from here …" }).click();
    const question = page.getByRole("dialog", { name: "Fork from reviews?" });
    await question.getByText("These steps run again").waitFor();
    expect(await question.getByRole("listitem").allTextContents()).toEqual(["reviews"]);
    await question.getByRole("button", { name: "Fork" }).click();
    await page.getByRole("link", { name: "run-1" }).waitFor(); // the run that it was forked from
    await page.getByText("Review by editor").first().waitFor();
    await page.getByRole("button", { name: "Cancel …" }).click();
    await page.getByLabel("Reason").fill("only a try");
    await page.getByRole("button", { name: "Cancel run" }).click();
    await page.getByText(/Cancelled .*only a try/).waitFor();
    expect(await page.getByRole("button", { name: "Retry" }).isDisabled()).toBe(true);
    expect(faults).toEqual([]);
  });

  it("shows no fork to a user who may not fork the run", async () => {
    const server = await openConsole({ ...config, auth: trusting, console: true }, { mode: "start" });
    const { headers } = by("ada");
    const options = { executionId: "run-1" };
    await server.ask("/workflows/both/execute", { headers, json: { input: {}, options } });
    const { page, faults } = await openPage(`${server.url}/console#/runs/both/run-1?step=draft`);
    await page.getByLabel("Token").fill(headers["authorization"]!.replace("Bearer ", ""));
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("region", { name: "draft" }).getByText("andThen").waitFor();
    expect(await page.getByRole("button", { name: /Fork/ }).count()).toBe(0);
    expect(faults).toEqual([]);
  });

  it.each([
    ["above the steps", "waits", "section[aria-label=Waits] details", ""],
    ["of a step", "detail", ".step-detail", "?step=form"],
  ])("keeps a form %s that is half filled in while another branch runs", async (_, gate, place, query) => {
    const server = await openConsole(config);
    await begin(server, "pair", "run-1", { gate });
    const { page, faults } = await openPage(`${server.url}/console#/runs/pair/run-1${query}`);
    const form = page.locator(place).filter({ hasText: "Form?" });
    if (query === "") await form.locator("summary").click();
    const field = form.getByLabel("text");
    const send = form.getByRole("button", { name: "Send answer" });
    await field.pressSequentially("be");
    const element = await field.elementHandle();
    const json = { resumeData: { text: "slow" }, options: { stepId: "slow" } };
    await server.ask("/workflows/pair/executions/run-1/resume", { json, headers: { prefer: "respond-async" } });
    await form.getByText("The run is running").waitFor();
    expect(await send.isDisabled()).toBe(true);
    await page.keyboard.type("gun");
    await page.keyboard.press("Enter"); // is not sent
    await until(async () => (await page.locator("section[aria-label=Waits] details").count()) === 1, "the other form");
    expect(await page.evaluate((one) => one === document.activeElement, element)).toBe(true);
    gates.open(gate);
    await until(() => send.isEnabled(), "the end of the other branch");
    expect(await field.inputValue()).toBe("begun");
    expect(await page.getByText("The run is running").count()).toBe(0);
    await send.click();
    await page.getByText("completed", { exact: true }).waitFor();
    const { body } = await server.ask("/workflows/pair/executions/run-1/state");
    expect(body.data.result).toEqual([{ text: "slow" }, { text: "begun" }]);
    expect(faults).toEqual([]);
  });

  it("moves through the steps by keyboard, and shows the items of a loop by status", async () => {
    const server = await openConsole(config);
    await begin(server, "loop", "run-1", { count: 450 });
    const { page, faults } = await openPage(`${server.url}/console#/runs/loop/run-1`);
    const tree = page.getByRole("tree", { name: "Steps" });
    const active = (): Promise<string | null> => page.getByRole("treeitem", { selected: true }).textContent();
    await tree.focus();
    await until(async () => (await page.getByRole("treeitem", { selected: true }).count()) === 1, "a selected step");
    expect(await active()).toContain("each andForEach 450 items, 1 error, 449 success");
    await page.keyboard.press("ArrowRight");
    await page.getByRole("treeitem", { name: /^0 item/ }).waitFor();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await until(async () => (await active())!.includes("check"), "the step in the item");
    await page.getByRole("heading", { name: "each/0/check" }).waitFor();
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    expect(await active()).toContain("andForEach");
    await page.getByRole("button", { name: "1 error" }).click();
    await until(async () => (await page.getByRole("treeitem").count()) === 2, "only the item that failed");
    await page.getByRole("treeitem", { name: /^7 item/ }).click();
    await tree.press("ArrowRight");
    await page.getByRole("treeitem", { name: /check/ }).click();
    await page.getByText("Not this one").first().waitFor();
    expect(faults).toEqual([]);
  });

  it("shows a run that is accessible in each view and tab", async () => {
    const server = await openConsole(config);
    await begin(server, "both", "run-1");
    await begin(server, "loop", "run-2", { count: 20 });
    const { page, faults } = await openPage(`${server.url}/console#/runs/both/run-1?step=editor`);
    await page.getByRole("region", { name: "editor" }).getByText("began").waitFor();
    await expectAccessible(page, "run-waits");
    for (const tab of ["events", "log", "state", "again"]) {
      await page.goto(`${server.url}/console#/runs/both/run-1?tab=${tab}`);
      await page
        .locator("main nav [aria-current]")
        .filter({ hasText: new RegExp(tab, "i") })
        .waitFor();
      await until(async () => (await page.getByText("Loading …").count()) === 0, "everything");
      await expectAccessible(page, `run-${tab}`);
    }
    await page.goto(`${server.url}/console#/runs/loop/run-2?step=each`);
    await page.getByRole("button", { name: "20 items" }).click();
    await page.getByRole("treeitem", { name: /^3 item/ }).waitFor();
    await expectAccessible(page, "run-loop");
    expect(faults).toEqual([]);
  });
});

async function begin({ ask }: ConsoleServer, id: string, executionId: string, input: unknown = {}): Promise<void> {
  const headers = id === "gated" ? { prefer: "respond-async" } : undefined;
  const json = { input, options: { executionId } };
  const { status, text } = await ask(`/workflows/${id}/execute`, { json, ...(headers && { headers }) });
  expect([status < 300, text]).toEqual([true, expect.stringContaining(executionId)]);
}
