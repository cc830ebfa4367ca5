// Compares the sums with those of an oracle, over random calls. Each of these changes makes it fail: a group that is dropped while
// others come, a sum over too few pages, a cursor that skips equal ids of two users, a filter that is not applied to one grouping.
import { createClock } from "agentserve/testing";
import { expect, it } from "vitest";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { Random } from "../../faults/kills/plan.ts";
import { serve } from "../../workflows/waits/serve.ts";
import { meteredAgent, readItems, sumOf, toQuestion, type Tokens } from "./metered.ts";

interface Call {
  readonly agent: string;
  readonly day: string;
  readonly userId: string | null;
  readonly conversationId: string | null;
  readonly tokens: Tokens;
}
const start = Date.parse("2030-03-01T00:00:00Z");
const toDay = (day: number): string => new Date(start + day * 86_400_000).toISOString().slice(0, 10);

it("usage equals the sums of random calls", { timeout: 600_000 }, async () => {
  const random = new Random(seed);
  const clock = createClock({ now: start });
  const agents = ["a", "b"];
  const server = serve({ agents: agents.map((id) => meteredAgent(id)) }, { clock });
  const calls: Call[] = [];
  const days = 8;
  for (let day = 0; day < days; day++) {
    for (let n = 0; n < bySize(30, 400); n++) {
      const agent = random.pick(...agents);
      const userId = random.chance(0.2) ? null : `u${random.between(0, 12)}`;
      const conversationId = random.chance(0.4) ? null : `c${random.between(0, 20)}`;
      const own = Array.from({ length: random.between(1, 3) }, (): Tokens => [
        random.between(0, 99),
        random.between(0, 99),
        random.between(0, 9),
        random.between(0, 9),
      ]);
      const options = { ...(userId !== null && { userId }), ...(conversationId !== null && { conversationId }) };
      const { status } = await server.post(`/agents/${agent}/text`, { input: toQuestion(...own), options });
      expect(status).toBe(200);
      for (const tokens of own) calls.push({ agent, day: toDay(day), userId, conversationId, tokens });
    }
    await clock.advance("1d");
  }

  for (let n = 0; n < bySize(60, 1_000); n++) {
    const agent = random.pick(...agents);
    const [since, until] = [random.between(0, days), random.between(0, days)].toSorted((one, other) => one - other);
    const userId = random.chance(0.5) ? undefined : `u${random.between(0, 13)}`;
    const grouping = random.pick("day", "user", "conversation");
    const query = { by: grouping, since: toDay(since!), until: toDay(until!), userId, limit: random.between(1, 40) };
    const own = calls.filter(
      (call) =>
        call.agent === agent &&
        call.day >= query.since &&
        call.day <= query.until &&
        (userId === undefined || call.userId === userId),
    );
    const toNames = ({ day, userId: user, conversationId }: Call): object =>
      grouping === "day" ? { day } : grouping === "user" ? { userId: user } : { conversationId, userId: user };
    const groups = [...Map.groupBy(own, (call) => JSON.stringify(toNames(call)))];
    const expected = groups.map(([names, some]) => ({
      ...(JSON.parse(names) as object),
      ...sumOf(...some.map(({ tokens }) => tokens)),
    }));
    const items = await readItems(server, agent, query);
    const inOrder = (some: object[]): string[] => some.map((one) => JSON.stringify(one)).toSorted();
    expect(inOrder(items), JSON.stringify(query)).toEqual(inOrder(expected));
  }
});
