import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bySize } from "../../harness/size.ts";
import { canary, fetched, honest, quickAttacks, slow } from "./attacks.ts";
import { openHost, type Host } from "./schema-host.ts";
import { checkVerdict, endpoints, type Attack } from "./verdict.ts";

/** The processor time that one request may take of the event loop. Evaluated there, the slow ones would take seconds, or for ever. */
const maxCpuMs = 600;
const round = (number: number): number => Math.round(number * 100) / 100;

// A check that the machine starves takes 16 times as long.
describe("Schemas of an attacker", { timeout: 900_000 }, () => {
  let host: Host;
  let attacks: readonly Attack[];
  const before = { cpu: 0, heap: 0 };
  beforeAll(async () => {
    canary.listen(0, "127.0.0.1");
    await once(canary, "listening");
    attacks = [...quickAttacks(), ...slow];
    host = await openHost();
    await askHonest(); // the first call loads the SDK
    before.cpu = await cpuOf(askHonest);
    before.heap = (await host.probe("collect")).heap;
  });
  afterAll(async () => {
    await host.close();
    canary.close();
  });

  async function askHonest(): Promise<void> {
    for (let n = 0; n < 15; n++) {
      for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
    }
  }

  /** The processor time of the event loop while this is done: what others have to wait for, on any machine. */
  async function cpuOf(act: () => Promise<unknown>): Promise<number> {
    const { cpu } = await host.probe();
    await act();
    return (await host.probe()).cpu - cpu;
  }

  it("tries more than a hundred attacking schemas", () => expect(attacks.length).toBeGreaterThan(100));

  it("answers attacking schemas one after another with what they deserve, and the event loop hardly works for any", async () => {
    const most = { cpu: 0, name: "" };
    let slowest = 0;
    for (const endpoint of endpoints) {
      for (const one of attacks) {
        let tries = 0;
        const all = await cpuOf(async () => {
          const verdict = await host.ask(endpoint, one, () => tries++);
          // A check that needs much processor time may never get it: `starved.test.ts` shows its verdict when it does.
          checkVerdict(one, endpoint, verdict, slow.includes(one) ? [503] : []);
          slowest = Math.max(slowest, verdict.ms);
        });
        const cpu = all / tries;
        if (cpu > most.cpu) Object.assign(most, { cpu, name: `${one.name} (${endpoint})` });
      }
    }
    console.log(
      `${2 * attacks.length} one by one: at most ${round(most.cpu)} ms of the loop: ${most.name}; slowest ${round(slowest)} ms`,
    );
    expect(most.cpu, most.name).toBeLessThan(maxCpuMs);
  });

  it("answers 80 attacking schemas at once, and honest requests among them succeed", async () => {
    const evil = [...slow, ...attacks.filter((_, index) => index % 3 === 0)].slice(0, 40);
    const asked = endpoints.flatMap((endpoint) => evil.map((one) => ({ endpoint, one })));
    for (let at = 0; at < asked.length; at += 10) {
      for (const endpoint of endpoints) asked.splice(at, 0, ...honest.map((one) => ({ endpoint, one })));
    }
    const innocent = asked.map(({ endpoint }, index) => ({ endpoint, one: honest[index % honest.length]! }));
    const send = async (all: typeof asked): Promise<{ cpu: number; slowest: number; refused: number }> => {
      let [slowest, refused] = [0, 0];
      const answer = async ({ endpoint, one }: (typeof asked)[number]): Promise<void> => {
        const isHonest = honest.includes(one);
        // A check may get no processor time while others have it: then the request is refused, and may be sent again.
        const verdict = await host.askOnce(endpoint, one);
        checkVerdict(one, endpoint, verdict, isHonest ? [503] : [400, 503]);
        slowest = Math.max(slowest, verdict.ms);
        if (!isHonest || verdict.status !== 503) return;
        refused++;
        checkVerdict(one, endpoint, await host.ask(endpoint, one));
      };
      const cpu = await cpuOf(() => Promise.all(all.map(answer)));
      return { cpu, slowest, refused: refused / all.filter(({ one }) => honest.includes(one)).length };
    };
    let minRefused = 1;
    // If honest requests had to wait behind the slow ones, nearly all would be refused, in every round.
    for (let n = 0; n < bySize(1, 5) || (n < 5 && minRefused >= 0.9); n++) {
      const control = await send(innocent);
      const attacked = await send(asked);
      const show = ({ cpu, slowest, refused }: typeof control): string =>
        `${round(cpu)} ms of the loop, slowest ${round(slowest)} ms, ${round(100 * refused)} % of the honest ones refused`;
      console.log(`${asked.length} at once: ${show(attacked)}; as many honest ones: ${show(control)}`);
      expect(asked.length).toBeGreaterThanOrEqual(80);
      expect(attacked.slowest).toBeLessThan(10_000 + 10 * control.slowest);
      expect(attacked.cpu).toBeLessThan(3 * control.cpu + maxCpuMs);
      minRefused = Math.min(minRefused, attacked.refused);
    }
    expect(minRefused).toBeLessThan(0.9);
  });

  it("keeps nothing of attacking schemas: no prototype changed, nothing fetched, memory, threads and work as before", async () => {
    const after = await cpuOf(askHonest);
    const { polluted, heap } = await host.probe("collect");
    const size = host.size();
    console.log(
      `afterwards: honest ${round(after)} ms (before ${round(before.cpu)}), heap ${round((heap - before.heap) / 1e6)} MB more, ${JSON.stringify(size)}`,
    );
    expect(polluted).toBe(false);
    expect(fetched).toBe(0);
    expect(after).toBeLessThan(2 * before.cpu + 50);
    expect(heap - before.heap).toBeLessThan(30e6);
    if (size) expect(size.threads).toBeLessThanOrEqual(16);
    if (size) expect(size.rss).toBeLessThan(600e6);
  });
});
