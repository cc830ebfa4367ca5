import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent } from "agentserve";
import { afterAll, expect, it } from "vitest";
import { within } from "../../harness/waiting.ts";
import { createProvider } from "../provider/provider.ts";
import { chat, describeTurns, isText, stop, unique } from "./turn-server.ts";

const runs = 20;
/** Other processes may take the processors for the time of a round. */
const mostRounds = 5;
/** The time after which tools that do not end are left: a stop must not wait for it. */
const stopMs = 100;

/** A provider that says one word and keeps the connection. */
const provider = await createProvider({
  endless: (exchange) => {
    exchange.open();
    exchange.delta({ content: "One " });
  },
});
const { baseURL } = provider;

const model = createOpenAICompatible({ name: "p", baseURL, apiKey: "k" })("endless");
const agents = [defineAgent({ id: "helper", instructions: "x", model, maxRetries: 0 })];
const median = (times: number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!;

/** Returns the time from a call until the provider's socket is closed. */
async function timeUntilCut(prompt: string, end: () => unknown): Promise<number> {
  const { closed } = await within(provider.reached(prompt));
  const began = performance.now();
  void end();
  expect(await within(closed)).toBe("cut");
  return performance.now() - began;
}

/** Aborts a fetch, after a request if there is one. */
async function abortFetch(request: () => Promise<unknown>): Promise<number> {
  const prompt = unique("control");
  const leaving = new AbortController();
  const response = await fetch(`${baseURL}/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "endless", stream: true, messages: [{ role: "user", content: prompt }] }),
    signal: leaving.signal,
  });
  await response.body!.getReader().read();
  return timeUntilCut(prompt, () => request().then(() => leaving.abort()));
}

describeTurns(
  "the time of a stop",
  { agents },
  (server) => {
    afterAll(() => provider.close());

    it(`closes the provider's socket within ${stopMs} ms of a fetch that is aborted`, async () => {
      async function stopTurn(): Promise<number> {
        const [id, prompt] = [unique("c"), unique("question")];
        const reader = await chat(server, "helper", id, prompt);
        await reader.readUntil(isText("One "));
        const time = await timeUntilCut(prompt, () => stop(server, "helper", id));
        expect((await reader.rest()).at(-1).type).toBe("abort");
        return time;
      }
      /** Returns by how much a stop takes longer than a fetch that is aborted after a request. */
      async function measure(): Promise<number> {
        const stops: number[] = [];
        const controls: number[] = [];
        const requests: number[] = [];
        for (let n = 0; n < runs; n++) {
          controls.push(await abortFetch(async () => {}));
          // A busy machine takes long for any request, so that the bound is on the rest.
          requests.push(await abortFetch(() => stop(server, "helper", "nothing")));
          stops.push(await stopTurn());
        }
        const [stopped, control, request] = [stops, controls, requests].map(median) as [number, number, number];
        const [a, b, c] = [stopped, control, request].map((ms) => ms.toFixed(1));
        console.log(`stop: ${a} ms; fetch aborted directly: ${b} ms, after a request: ${c} ms (medians of ${runs})`);
        return stopped - request;
      }
      const rounds = [await measure()];
      while (rounds.at(-1)! >= stopMs && rounds.length < mostRounds) rounds.push(await measure());
      expect(Math.min(...rounds)).toBeLessThan(stopMs);
    });
  },
  { only: ["start"] },
);
