import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { toFileName, toPlace, type Block } from "./blocks.ts";
import { isChain, runChain } from "./chains.ts";
import { runCommandList } from "./command-list.ts";
import { runCommands } from "./commands.ts";
import { runDockerfile } from "./docker.ts";
import { runFile } from "./files.ts";
import { runPage, runProgram } from "./programs.ts";
import { runLogLines } from "./log-lines.ts";
import { runRecord } from "./record.ts";
import { runSession } from "./session.ts";
import { isPartOfConfig } from "./sources.ts";
import { runSpanTree } from "./spans.ts";
import { runUnit } from "./systemd.ts";
import { runBadSave, runSaves } from "./terminal.ts";
import { isOfTests, runTests } from "./vitest.ts";
import type { World } from "./world.ts";

export interface Kind {
  readonly name: string;
  is(block: Block): boolean;
  run(block: Block, world: World): Promise<void>;
}

/** The kinds of examples, and how each is executed. An example of another kind fails the test. */
const kinds: readonly Kind[] = [
  { name: "ts, a file", is: (block) => toFileName(block) !== undefined && !isOfTests(block), run: runFile },
  { name: "ts, a file of tests", is: isOfTests, run: runTests },
  { name: "ts, part of a chain", is: isChain, run: runChain },
  { name: "ts, part of a config", is: isPartOfConfig, run: runFile },
  { name: "ts, a provider", is: isTypeScript(/: AuthProvider =/), run: runFile },
  { name: "ts, a program", is: isTypeScript(/createServer\(/), run: runProgram },
  { name: "ts, a page", is: isTypeScript(/^useChat\(/m), run: runPage },
  { name: "console", is: ({ language }) => language === "console", run: runSession },
  { name: "sh", is: ({ language }) => language === "sh", run: runCommands },
  { name: "text, saves", is: ({ language, text }) => language === "text" && text.startsWith("✓ "), run: runSaves },
  {
    name: "text, a bad save",
    is: ({ language, text }) => language === "text" && text.startsWith("error "),
    run: runBadSave,
  },
  { name: "text, a log", is: ({ language, text }) => language === "text" && /^\d\d:/.test(text), run: runLogLines },
  { name: "ini, a unit", is: ({ language, text }) => language === "ini" && text.includes("[Service]"), run: runUnit },
  { name: "dockerfile", is: ({ language }) => language === "dockerfile", run: runDockerfile },
  {
    name: "json, a log record",
    is: ({ language, text }) => language === "json" && text.includes(`"seq"`),
    run: runRecord,
  },
  {
    name: "json, a step", // test/workflows/steps
    is: ({ language, text }) => language === "json" && text.includes(`"attempts"`),
    run: async ({ text }) => expect(Object.keys(JSON.parse(text))).toEqual(expect.arrayContaining(stepFields)),
  },
  {
    name: "json, a model call", // test/agents/model-calls
    is: ({ language, text }) => language === "json" && text.includes(`"finishReason"`),
    run: async ({ text }) => expect(Object.keys(JSON.parse(text))).toEqual(callFields),
  },
  {
    name: "text, code at which a step failed", // test/dev/frames.test.ts
    is: ({ language, text }) => language === "text" && /^ *\S+\.ts:\d+:\d+\n/.test(text),
    run: async ({ text }) => {
      const [, line] = /:(\d+):\d+\n/.exec(text)!;
      expect(text).toMatch(new RegExp(`> +${line} \\| .*\n +\\| +\\^\n`));
    },
  },
  {
    name: "json, compiler options",
    is: ({ language, text }) => language === "json" && text.includes(`"compilerOptions"`),
    run: async ({ text }) => expect(text).toBe(readFileSync("templates/starter/tsconfig.json", "utf8")),
  },
  { name: "spans", is: ({ language, text }) => language === "" && text.includes("└─"), run: runSpanTree },
  {
    name: "commands",
    is: ({ language, text }) => language === "" && text.startsWith("npx agentserve "),
    run: runCommandList,
  },
];

/** Examples that run inside of other frameworks. `test/hosts` executes them. */
export const onHosts: Kind = {
  name: "on another host, taken by name",
  is: ({ file }) => file === "docs/embedding.md",
  run: async (block) => expect(block.language === "sh" || toFileName(block) !== undefined).toBe(true),
};

/** Examples that other tests execute, because they need large packages. */
const elsewhere: readonly Kind[] = [
  {
    name: "on Restate, taken by name", // test/restate/docs.test.ts
    is: ({ file }) => file === "docs/scale-out.md",
    run: async ({ language }) => expect(["sh", "ts", "toml", "haproxy", "keepalived"]).toContain(language),
  },
  {
    name: "with OpenTelemetry, in order", // test/hosts/opentelemetry/docs.test.ts
    is: ({ file, text }) => file === "docs/observability.md" && /OTEL_|@opentelemetry\//.test(text),
    run: async ({ language }) => expect(["sh", "js"]).toContain(language),
  },
  {
    name: "with Prometheus", // test/observability/metrics/load.test.ts
    is: ({ text }) => text.startsWith("# prometheus.yml"),
    run: async ({ language }) => expect(language).toBe("yaml"),
  },
  onHosts,
  {
    name: "with nginx", // test/browser/prefix.browser.ts, test/hosts/nginx
    is: ({ language }) => language === "nginx",
    run: async ({ text }) => expect(text).toMatch(/^(location|upstream) /),
  },
];

export function toKind(block: Block): Kind {
  const others = elsewhere.filter((kind) => kind.is(block));
  const found = others.length > 0 ? others : kinds.filter((kind) => kind.is(block));
  if (found.length === 1) return found[0]!;
  const names = found.map(({ name }) => name).join(" and ");
  throw new Error(
    `${toPlace(block)}: a block that is ${names || "of no known kind"}; test/docs/examples/kinds.ts lists them`,
  );
}

function isTypeScript(content: RegExp): (block: Block) => boolean {
  return (block) => block.language === "ts" && toFileName(block) === undefined && content.test(block.text);
}

const stepFields = ["path", "stepId", "type", "status", "startAt", "endAt", "attempts", "input", "parent"];
const callFields = "index startAt endAt ms model instructions prompt tools parts finishReason usage".split(" ");
