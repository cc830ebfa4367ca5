import { beforeAll, it } from "vitest";
import type { Answer } from "../../harness/client.ts";
import { describeAgents, expectTrouble, newPrompt, on } from "./provider-suite.ts";
import { neverBegins, stops, type Trouble } from "./troubles.ts";

/** All of them are asked at once, so that they wait together. The limits are long enough for a healthy part on a busy machine. */
function describeTimeouts(title: string, limits: Record<string, number>, rows: Record<string, Trouble>): void {
  describeAgents(title, { limits, only: ["start"] }, (server, ask) => {
    const waited = new Map<string, { prompt: string; answer: Promise<Answer> }>();
    beforeAll(async () => {
      await ask("object", "healthy"); // loads what the first call loads
      for (const { endpoint, id } of on(rows)) {
        const prompt = newPrompt();
        waited.set(`${endpoint} ${id}`, { prompt, answer: ask(endpoint, id, prompt) });
      }
      await Promise.allSettled([...waited.values()].map(({ answer }) => answer));
    });
    it.for(on(rows))("answers $endpoint with a time-out for a provider that $does", (row) => {
      const { prompt, answer } = waited.get(`${row.endpoint} ${row.id}`)!;
      return expectTrouble(server, ask, row, prompt, answer);
    });
  });
}
describeTimeouts("a provider that does not begin", { modelFirstByteMs: 5_000 }, neverBegins);
describeTimeouts("a provider that stops", { modelGapMs: 3_000 }, stops);
