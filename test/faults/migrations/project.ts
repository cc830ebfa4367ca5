import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tool } from "ai";
import { z } from "zod";
import { andThen, defineAgent, defineWorkflow, embedded, type Config } from "../../../src/index.ts";
import { scriptedModel, type ScriptedModel } from "../../../src/models.ts";

/** Creates a file of format 4, as release 1 wrote it. */
export const createFormat4 = (file: string): void => createFile(file, "format-4");

/** Creates a file of a fixture. */
export function createFile(file: string, fixture: string): void {
  const database = new DatabaseSync(file);
  database.exec(`pragma journal_mode = wal; ${readFileSync(`test/fixtures/${fixture}.sql`, "utf8")}`);
  database.close();
}

/** Creates a file of format 4 with the conversation of the fixture of format 9: both have the same rows of messages. */
export function createFormat4Conversation(file: string): void {
  createFormat4(file);
  const rows = readFileSync("test/fixtures/conversation-format-9.sql", "utf8").match(/^insert into .*$/gm)!;
  const database = new DatabaseSync(file);
  database.exec(["delete from messages; delete from conversations;", ...rows].join("\n"));
  database.close();
}

/** The prompts that the model got. */
export const prompts: string[] = [];
/** The steps that ran. */
export const ran: string[] = [];

/** The agents and workflows that wrote that file. */
export const toConfig = (path: string): Config => ({
  agents: [
    defineAgent({
      id: "talker",
      instructions: "Talk",
      model: scriptedModel([
        ({ prompt }) => {
          prompts.push(JSON.stringify(prompt));
          return { text: "Still 7." };
        },
      ]),
    }),
  ],
  workflows: [
    defineWorkflow({ id: "approve" })
      .andThen({ id: "prepare", execute: (): { long: string } => ({ long: "not again" }) })
      .andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Approve?", { amount: 7 }) })
      .andThen({
        id: "book",
        execute: ({ data, getStepData }) => ({
          data,
          length: (getStepData("prepare") as { long: string }).long.length,
        }),
      }),
    defineWorkflow({ id: "slow" })
      .andThen({ id: "first", execute: () => void ran.push("first") })
      .andThen({
        id: "second",
        execute({ data }) {
          ran.push("second");
          return data;
        },
      })
      .andThen({ id: "third", execute: ({ data }) => ({ data }) }),
    defineWorkflow({ id: "fails" }).andThen({ id: "only", execute: () => "not again" }),
  ],
  backend: embedded({ path, retention: false }),
});

const ask = (id: string) => andThen({ id, execute: ({ suspend, resumeData }) => resumeData ?? suspend(`${id}?`) });

/** The workflows that wrote the files with suspensions only. */
export const toSuspendedConfig = (path: string): Config => ({
  workflows: [
    defineWorkflow({ id: "asks" })
      .andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("ask?") })
      .andThen({ id: "end", execute: ({ data }) => ({ data }) }),
    defineWorkflow({ id: "both" }).andAll({ id: "all", steps: [ask("one"), ask("two")] }),
    defineWorkflow({ id: "works" })
      .andThen({ id: "first", execute: () => "not again" })
      .andThen({ id: "end", execute: ({ data }) => ({ data }) }),
  ],
  backend: embedded({ path, retention: false }),
});

/** The agent that wrote the file with a conversation only. */
export function toConversationConfig(path: string): { config: Config; model: ScriptedModel } {
  const model = scriptedModel(["In Rome.", "Bye."]);
  const locate = tool({ description: "Where the client is", inputSchema: z.object({}) });
  const agent = defineAgent({ id: "talker", instructions: "Talk", model, tools: { locate } });
  return { config: { agents: [agent], backend: embedded({ path, retention: false }) }, model };
}
