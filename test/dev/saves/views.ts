import type { Client } from "./client.ts";
import { toStamps, type Stamps } from "./oracle.ts";

/** The ways to see which version answers: each gives the stamps of all the code that had a part in the answer. */
export const views: Readonly<Record<string, (client: Client) => Promise<Stamps[]>>> = {
  "a custom route": async ({ ask }) => [toStamps(await ask("GET", "/version"))],
  "an execution": async ({ ask }) => {
    const { data } = await ask("POST", "/workflows/relay/execute", { input: {} });
    return data.result.map(toStamps);
  },
  "a workflow": async ({ ask }) => [parse((await ask("GET", "/workflows/relay")).data.purpose)],
  "all workflows": async ({ ask }) => {
    const { data } = await ask("GET", "/workflows");
    const described: { id: string; purpose: string }[] = data.filter(({ purpose }: any) => purpose.startsWith("{"));
    return described.map(({ purpose }) => parse(purpose));
  },
  "an agent": async ({ ask }) => {
    const { data } = await ask("GET", "/agents/guide");
    return [parse(data.description), parse(data.instructions)];
  },
  "an answer of an agent": async ({ ask }) => {
    const { data } = await ask("POST", "/agents/guide/text", { input: "tell" });
    return [parse(data.text.slice(data.text.indexOf("{")))];
  },
};

const parse = (text: string): Stamps => toStamps(JSON.parse(text));
