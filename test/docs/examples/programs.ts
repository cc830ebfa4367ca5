import { join } from "node:path";
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { UIMessage } from "ai";
import { expect } from "vitest";
import { agentserve, run } from "../../harness/cli.ts";
import { openPage } from "../../harness/react.ts";
import type { Block } from "./blocks.ts";
import { documented } from "./session.ts";
import type { World } from "./world.ts";

/** `ts`: a program that makes a server of its own. Node runs it, and it must come to its end. */
export async function runProgram(block: Block, { tools }: World): Promise<void> {
  const said = "console.log(JSON.stringify([response.status, await response.json(), url]));\n";
  const cwd = tools.project({ "main.ts": block.text + said, "package.json": `{ "type": "module" }` });
  const { code, stdout, stderr } = await run(process.execPath, ["main.ts"], { cwd, env: tools.env }).ended;
  expect(code, stderr).toBe(0);
  const url = expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(JSON.parse(stdout)).toEqual([200, { success: true, data: [] }, url]);
}

/** `ts`: what a page gives to `useChat`. A page that does talks to the agent of the document, with a model that needs no key. */
export async function runPage(block: Block, { blocks, tools }: World): Promise<void> {
  const [, id] = /\/agents\/(\w+)\/chat/.exec(block.text)!;
  const agent = blocks.find(({ file, text }) => file === block.file && text.startsWith(`// agents/${id}.ts`))!;
  const echo = agent.text.replace(/model: ".+?"/, "model: echoModel()");
  const cwd = tools.project({
    "agents.config.ts": "export default {};\n",
    [`agents/${id}.ts`]: `import { echoModel } from "agentserve/models";\n${echo}`,
  });
  const [url] = await agentserve(["dev"], { cwd, env: tools.env }).waitFor(/http:\/\/\S+:\d+/);
  const kept = `export let options: any;\nconst useChat = (given: any) => (options = given);\n`;
  const program = block.text.replace(/^import \{ useChat \}.*\n/m, kept).replaceAll(documented, url);
  // A name of its own: projects with the same files have the same path, and Node keeps the modules that it has loaded.
  const file = join(cwd, `page-${block.line}.mts`);
  writeFileSync(file, program);
  const { options, stopTurn } = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as {
    options: Parameters<typeof openPage>[0];
    stopTurn?: () => Promise<Response>;
  };
  const page = await openPage(options);
  await page.chat().sendMessage({ text: "What is the weather in Berlin?" });
  await page.until(() => {
    const [status, ...lines] = page.shown();
    expect([status, page.chat().error?.message]).toEqual(["ready", undefined]);
    expect(lines.at(-1)).toMatch(/^assistant: .*weather: \{"city":"Berlin","sky":"blue"\}$/);
  });
  if (!stopTurn) return;
  // A page that is loaded later has the same messages.
  const again = (await import(/* @vite-ignore */ `${pathToFileURL(file).href}?again`)) as {
    options: { messages: UIMessage[] };
  };
  const toPlain = ({ id: key, role, parts }: UIMessage) => JSON.parse(JSON.stringify({ key, role, parts }));
  expect(again.options.messages.map(toPlain)).toEqual(page.chat().messages.map(toPlain));
  expect(await (await stopTurn()).json()).toEqual({ success: true, data: { stopped: false, messageId: null } });
}
