import { stripVTControlCharacters } from "node:util";
import type { Child } from "../../harness/cli.ts";
import { within } from "../../harness/waiting.ts";

/** What the command says of saves, with the moment that it was heard. */
export interface Reports {
  /** From now on: resolves to when all of these were named in lines that say what is served. */
  served(names: readonly string[]): Promise<number>;
  /** From now on: resolves once all of these were named in what is wrong, and it was said what goes on. */
  failed(names: readonly string[]): Promise<number>;
  readonly count: { served: number };
}

export function readReports({ process: child }: Child): Reports {
  const count = { served: 0 };
  const hearers = { stdout: new Set<(line: string) => void>(), stderr: new Set<(line: string) => void>() };
  for (const name of ["stdout", "stderr"] as const) {
    let rest = "";
    child[name]!.on("data", (chunk: string) => {
      const lines = (rest + stripVTControlCharacters(chunk)).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (isServed(line)) count.served++;
        for (const listen of hearers[name]) listen(line);
      }
    });
  }

  function hear(
    from: "stdout" | "stderr",
    isReport: (line: string) => boolean,
    names: readonly string[],
    end?: RegExp,
  ) {
    const missing = new Set(names);
    const { promise, resolve } = Promise.withResolvers<number>();
    const heard: string[] = [];
    function listen(line: string): void {
      heard.push(line);
      if (isReport(line)) for (const name of missing) if (line.includes(name)) missing.delete(name);
      if (missing.size === 0 && (!end || end.test(line))) resolve(performance.now());
    }
    hearers[from].add(listen);
    const asked = within(promise, () => `a report of ${names.join(", ")}; heard:\n${heard.join("\n")}`);
    return asked.finally(() => hearers[from].delete(listen));
  }
  return {
    served: (names) => hear("stdout", isServed, names),
    failed: (names) => hear("stderr", () => true, names, /last good version/),
    count,
  };
}

const isServed = (line: string): boolean => /^✓ .+ · \d+ ms$/.test(line);
