import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const page = readFileSync("docs/durability.md", "utf8");
function readTable(heading: string): string[][] {
  const [, section] = new RegExp(`\n## ${heading}\n([^]*?)(?=\n## )`).exec(page)!;
  const lines = section!.split("\n").filter((line) => line.startsWith("| "));
  return lines.map((line) => line.slice(2, -2).split(/ ?\| ?/));
}

/** The text of a cell, and the file whose tests show that it is true. */
type Cell = readonly [text: string, shownBy?: string];
const none: Cell = [""];
const lost: Cell = ["lost"];
const file: Cell = ["lost, unless the data file is restored"];
const next = "continues with the next one";
const tool = "that tool runs again, with the same `idempotencyKey`";
const model = "that model call is made again";
const steps = "test/faults/kills/kills.test.ts";
const agents = "test/faults/agents/agents.test.ts";
const turns = "test/faults/turns/turns.test.ts";
const questions = "test/agents/records/questions.test.ts";
const again = "the step runs again: ";
const denied = "denied: it cannot wait";
const answers = "test/agents/approvals/answers.test.ts";
const restarts = "test/agents/turns/restarts.test.ts";

/** What survives what: for a workflow step, `andAgent`, `runtime.ask` in a step, a turn with a conversation, and a call without one. */
const expected: Record<string, readonly Cell[]> = {
  "the client disconnects": [
    ["continues", "test/workflows/streams.test.ts"],
    ["continues", "test/workflows/streams.test.ts"],
    ["continues", "test/workflows/streams.test.ts"],
    ['continues, unless `onDisconnect` is `"abort"`', "test/agents/turns/detached.test.ts"],
    ["aborted", "test/agents/provider/client-leaves.test.ts"],
  ],
  "the process is killed while the model answers": [
    none,
    [model, agents],
    [`${again}only ${model}`, turns],
    [model, turns],
    lost,
  ],
  "the process is killed while a tool runs": [
    none,
    [tool, agents],
    [`${again}of the tools only that one, with the same \`idempotencyKey\``, turns],
    [tool, turns],
    lost,
  ],
  "the process is killed while other code of the step runs": [
    ["the step runs again, with the same `idempotencyKey`", steps],
    none,
    [`${again}answered questions are not asked again`, questions],
    none,
    none,
  ],
  "the process is killed between two calls or steps": [
    [next, steps],
    [next, agents],
    [`${again}recorded calls are not made again`, turns],
    [next, turns],
    lost,
  ],
  "the process is killed while a tool [waits for an approval](agents.md#ask-before-a-tool-runs)": [
    none,
    [denied, answers],
    [denied, answers],
    ["waits on, and runs with the stored input once it is approved", "test/faults/approvals/approvals.test.ts"],
    [denied, answers],
  ],
  "the server is shut down": [
    ["finishes within `drainMs`, else runs again at the next start", "test/faults/drain.test.ts"],
    ["finishes within `drainMs`, else continues at the next start", agents],
    ["finishes within `drainMs`, else runs again at the next start: recorded calls are not made again", questions],
    ["finishes within `drainMs`, else continues at the next start", restarts],
    ["finishes within `drainMs`, else 503", agents],
  ],
  "the workflow or agent is removed before the next start": [
    ["suspended: `Workflow changed: …`", "test/faults/code-changes.test.ts"],
    ["suspended: `Workflow changed: …`", "test/faults/code-changes.test.ts"],
    ["suspended: `Workflow changed: …`", "test/faults/code-changes.test.ts"],
    ["ends without an answer; the message of the user stays", restarts],
    lost,
  ],
  "the machine is lost": [file, file, file, file, lost],
};

describe("docs/durability.md", () => {
  it("says what survives what, as the suites show it", () => {
    const [head, ...rows] = readTable("What survives what");
    expect(head!.slice(1)).toEqual([
      "a workflow step",
      "`andAgent`",
      "`runtime.ask` in a step",
      "a turn with a conversation",
      "a call without one",
    ]);
    const texts = Object.entries(expected).map(([event, cells]) => [event, ...cells.map(([text]) => text)]);
    expect(rows).toEqual(texts);
  });

  it("names suites that exist", () => {
    const suites = Object.values(expected).flatMap((cells) => cells.flatMap(([, shownBy]) => shownBy ?? []));
    expect([...new Set(suites)].filter((suite) => !existsSync(suite))).toEqual([]);
  });
});
