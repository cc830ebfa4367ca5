import { inspect } from "node:util";
import type { Target } from "../../harness/server.ts";
import { startIssuer, troubles } from "../oidc/issuer.ts";
import { start } from "./client.ts";
import { execute, readStatuses, toStatus, warmUp } from "./executions.ts";
import { findFaults, type Case } from "./faults.ts";
import type { Mode } from "./oracle-modes.ts";
import { mintFor, secret } from "./tokens.ts";
import { toWire } from "./wire.ts";
import { createWorld } from "./world.ts";

/** Sends every case to one server. Gives all that is wrong, one line each. */
export async function play(mode: Mode, target: Target, cases: readonly Case[]): Promise<string[]> {
  const issuer = mode.provider === "oidc" ? await startIssuer() : undefined;
  const minted = mintFor(mode.provider, issuer);
  if (mode.isDown) issuer!.answer = troubles["closes the connection"];
  const world = createWorld(mode, issuer);
  const server = await start(target, world.config, world.rows);
  const wrong: string[] = [];
  const say = ({ route, token }: Case, fault: string) => wrong.push(`${route.name} [${token.name}]: ${fault}`);
  try {
    if (!mode.isDown) await execute(server, [mode, minted], "rare", "ended");
    if (cases.some(({ route, due }) => !due.refused && route.name.endsWith("object")))
      await warmUp(server, mode, minted);
    await inParallel(cases, async (one) => {
      const { key, route, token } = one;
      if (route.name.includes("{running}")) await execute(server, [mode, minted], "waits", key);
      if (route.name.includes("{suspended}")) await execute(server, [mode, minted], "asks", key);
      const ask = () => server.send(toWire(key, route, token, minted)).catch(String);
      let answer = await ask();
      while (isBusy(answer)) {
        world.seen.delete(key); // the model may have run before the refusal
        answer = await ask();
      }
      for (const fault of typeof answer === "string" ? [answer] : findFaults(mode, minted, one, answer))
        say(one, fault);
    });
    // While the issuer is down, nobody may see the executions.
    const statuses = mode.isDown ? undefined : await readStatuses(server, mode, minted);
    for (const one of statuses ? cases : []) {
      const [status, due] = [statuses!.get(one.key), toStatus(one)];
      if (status !== due) say(one, `its execution is ${status}, not ${due}`);
    }
  } catch (error) {
    wrong.push(inspect(error));
  } finally {
    world.open();
    await server.close();
    await issuer?.close();
  }
  // Now everything has run that ever will.
  for (const one of cases) {
    const { key, due } = one;
    const saw = world.seen.get(key) ?? [];
    if (due.runs !== "any" && saw.length !== due.runs) say(one, `ran ${saw.length} times, not ${due.runs}`);
    const who = due.refused ? null : due.who;
    if (saw.some((user) => user !== undefined && user !== who)) say(one, `saw ${inspect(saw)}, not ${who}`);
    if (due.refused && mode.cors !== false && world.passed.has(key)) say(one, "reached the host's middleware");
  }
  const logged = inspect(server.logs, { depth: 10 });
  for (const [name, token] of [...minted, ["the secret", secret]] as const) {
    if (logged.includes(token)) wrong.push(`the log holds ${name}`);
  }
  return wrong;
}

/** A machine with too little time refuses to check a schema, or to run a turn without a reader. A client asks again. */
const isBusy = (answer: string | { readonly status: number; readonly text: string }): boolean =>
  typeof answer !== "string" && answer.status === 503 && /Too many (schema checks|turns)/.test(answer.text);

async function inParallel(cases: readonly Case[], each: (one: Case) => Promise<void>): Promise<void> {
  const rest = cases.values();
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (const one of rest) await each(one);
    }),
  );
}
