import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { freePort } from "../harness/free-port.ts";
import { createProject } from "../harness/project.ts";
import { until } from "../harness/waiting.ts";
import { describeAgents } from "./console-agents-world.ts";
import { openChat } from "./console-chat-tab.ts";
import { expectNoProblems } from "./console-page.ts";

describeAgents("an answer in the chat of the console", (world) => {
  it("continues the same answer in the chat after reloads in the middle of it", async () => {
    const tab = await world.begin();
    await tab.say("alpha hold1 beta hold2 gamma");
    for (const [index, seen] of ["alpha", "alpha hold1 beta"].entries()) {
      await tab.sees(seen);
      await tab.page.reload();
      await tab.sees(seen);
      expect(await tab.words()).toEqual(["alpha hold1 beta hold2 gamma", `${seen} `]);
      world.gates.open(`hold${index + 1}`);
    }
    await tab.isReady();
    expect(await tab.words()).toEqual(["alpha hold1 beta hold2 gamma", "alpha hold1 beta hold2 gamma"]);
    expectNoProblems(tab);
  });

  it("shows the same answer in two tabs", async () => {
    const first = await world.begin();
    await first.say("hello");
    await first.isReady();
    const second = await openChat(first.page.url(), { context: first.context });
    await second.isReady();
    await first.say("alpha hold beta");
    await first.sees("alpha");
    await second.sees("alpha"); // without a reload
    expect(await second.words()).toEqual(["hello", "hello", "alpha hold beta", "alpha "]);
    world.gates.open("hold");
    for (const tab of [first, second]) {
      await tab.isReady();
      await until(async () => (await tab.words()).at(-1) === "alpha hold beta", "the whole answer");
      expect(await tab.words()).toEqual(["hello", "hello", "alpha hold beta", "alpha hold beta"]);
    }
    await second.say("mine");
    await second.sees("mine");
    await first.sees("mine");
    expectNoProblems(second);
  });
});

const words = Array.from({ length: 80 }, (_, index) => `w${index}`).join(" ");
/** The model waits in the middle of an answer until there is a file `go`. */
const project = {
  "agents.config.ts": `
    import { existsSync } from "node:fs";
    import { setTimeout as sleep } from "node:timers/promises";
    import { defineAgent, defineConfig, defineTool } from "agentserve";
    import { echoModel } from "agentserve/models";
    import * as v from "valibot";
    const echo = echoModel({ wordMs: 20 });
    const model = {
      ...echo,
      async doStream(options) {
        const { stream, ...rest } = await echo.doStream(options);
        const held = new TransformStream({
          async transform(part, controller) {
            if (part.type === "text-delta" && part.delta.includes("w40")) while (!existsSync("go")) await sleep(20);
            controller.enqueue(part);
          },
        });
        return { ...rest, stream: stream.pipeThrough(held) };
      },
    };
    const text = ${JSON.stringify(words)};
    const read = defineTool({ description: "", inputSchema: v.object({}), execute: () => text });
    export default defineConfig({
      console: true,
      agents: [defineAgent({ id: "helper", instructions: "", model, tools: { read } })],
    });
  `,
};

describe("a server that is killed in the middle of an answer", () => {
  it.each([
    ["a text", words, words],
    ["a text after a tool", "read it", `read: ${words}`],
  ])(
    "waits for a server that is killed in the middle of an answer, and shows %s once, without a reload",
    async (_, question, answer) => {
      const folder = createProject(project);
      const port = String(await freePort());
      const start = async () => {
        const server = agentserve(["start", "--port", port, "--data", "data.db"], { cwd: folder });
        await server.waitFor(/http:\/\/[\w.]+:\d+/);
        return server;
      };
      const first = await start();
      const tab = await openChat(`http://127.0.0.1:${port}/console#/agents`);
      await tab.begin("helper");
      await tab.say("hello");
      await tab.isReady();
      await tab.page.evaluate(() => void ((window as { mark?: boolean }).mark = true));
      await tab.say(question);
      await tab.sees("w39");
      first.process.kill("SIGKILL");
      await first.ended;
      await tab.page.getByText("Lost the connection. The answer continues").waitFor();
      await tab.sees("w39"); // what was shown stays
      const second = await start();
      writeFileSync(join(folder, "go"), "");
      // At no time is a word shown twice.
      const isWhole = async (): Promise<boolean> => {
        const shown = (await tab.words()).at(-1)!;
        expect(answer.slice(0, shown.length)).toBe(shown);
        return shown === answer;
      };
      await until(isWhole, "the whole answer");
      await tab.isReady();
      expect(await tab.words()).toEqual(["hello", "hello", question, answer]);
      expect(await tab.page.getByText("Lost the connection").count()).toBe(0);
      expect(await tab.page.evaluate(() => (window as { mark?: boolean }).mark)).toBe(true);
      await tab.answers.first().getByText("Model calls").click();
      await tab.answers.first().getByText("They are no longer kept").waitFor();
      await tab.say("and now?");
      await tab.sees("and now?");
      second.process.kill("SIGTERM");
      expect((await second.ended).code).toBe(0);
    },
  );
});
