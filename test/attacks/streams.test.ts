// Each of these changes makes tests of this file fail: decisions that are shared by users with equal ids, or kept for the
// next change (`followExecutions` in `src/workflows/all-executions`); a filter that widens what a caller sees; a stream that
// does not release its place; a count by `X-Forwarded-For`, or one for all addresses and users together.
import { describe, expect, it } from "vitest";
import { Random } from "../faults/kills/plan.ts";
import { shared } from "../harness/at-end.ts";
import { seed } from "../harness/seed.ts";
import { bySize } from "../harness/size.ts";
import { eventually, together, until } from "../harness/waiting.ts";
import { mayReadTeam, type Rule } from "./attack-app.ts";
import { all, begin, callers, openWorld, toName, type Caller, type Reader } from "./world.ts";

const { ada, bob, grace, code, anonymous, nameless, nobody } = callers;
/** With users who have the id of another one, and differ in a claim or a role. */
const readers: readonly Caller[] = [
  ...all,
  { id: "ada", name: "Ada", team: "red" },
  { id: "ada", name: "Ada", team: "blue" },
  { id: "ada", name: "Ada", team: "blue", role: "manager" },
  { name: "Ada", id: "ada", team: "red" },
  { id: "bob", team: "red" },
  { id: "bob", team: "red", role: "manager" },
  { id: "grace", team: "blue" },
  { team: "red" },
];
const owners = [ada, bob, grace, code, anonymous];
const workflows = ["job", "task"];

interface Started {
  readonly executionId: string;
  readonly workflowId: string;
  readonly userId: string;
  readonly team: string;
  /** The teams that were refused when it ran. */
  readonly revoked: ReadonlySet<unknown>;
}
interface Filter {
  readonly userId?: string;
  readonly workflowId?: string;
}

/** The rule for one execution, as docs/auth.md has it. */
function mayRead(rule: Rule, caller: Caller, { userId, team, revoked }: Started): boolean {
  if (rule === "teams") return caller !== undefined && mayReadTeam(caller, team, revoked);
  return rule === "none" || (rule === "ownership" && caller?.["id"] === userId);
}
/** The rule for a list: without `authorize`, callers see their own, or those of the user that they ask for. */
function mayList(rule: Rule, caller: Caller, filter: Filter, started: Started): boolean {
  const isAsked = (["userId", "workflowId"] as const).every((key) => (filter[key] ?? started[key]) === started[key]);
  if (!isAsked || !mayRead(rule, caller, started)) return false;
  return rule !== "none" || (caller !== undefined && (filter.userId ?? caller["id"]) === started.userId);
}
/** True if a list of another user is a 403: without `authorize` for anonymous callers, with `ownership` for all. */
const isForbidden = (rule: Rule, caller: Caller, { userId }: Filter): boolean =>
  userId !== undefined && userId !== caller?.["id"] && (rule === "ownership" || (rule === "none" && !caller));

describe.each<Rule>(["none", "ownership", "desk", "teams"])("with the rule %s", (rule) => {
  const world = openWorld({ rule });
  let numbers = 0;

  async function start(owner: (typeof owners)[number], workflowId: string, team: string, revoked: Started["revoked"]) {
    const executionId = `e${numbers++}`;
    await begin(world(), workflowId, owner, { note: `canary-${executionId}` }, { executionId, context: { team } });
    return { executionId, workflowId, userId: owner.id, team, revoked };
  }

  const isLong = { timeout: bySize(120_000, 900_000) };
  it("a list stream has exactly the executions that its caller may read at that moment", isLong, async () => {
    const random = new Random(seed);
    const open: { reader: Reader; seen: () => string[]; due: () => string[] }[] = [];
    const started: Started[] = [];
    const findings: string[] = [];
    // A third of them are those of one user, who may have 100.
    await together(8, Array.from({ length: bySize(40, 200) }), async () => {
      const caller = random.pick(...readers);
      const userId = random.chance(0.5) ? random.pick(...owners).id : undefined;
      const workflowId = random.chance(0.4) ? random.pick(...workflows) : undefined;
      const filter = { ...(userId && { userId }), ...(workflowId && { workflowId }) };
      const path = random.pick("/executions/stream", "/executions/stream/", "/x/../executions/%73tream");
      const reader = await world().open(caller, `${path}?${new URLSearchParams(filter)}`);
      if (reader.status !== (isForbidden(rule, caller, filter) ? 403 : 200)) findings.push(reader.shown);
      const seen = () => reader.events().map(({ executionId, status }) => `${executionId} ${status}`);
      const own = () => started.filter((one) => mayList(rule, caller, filter, one)).map((one) => one.executionId);
      const due = () => own().flatMap((id) => [`${id} running`, `${id} completed`]);
      if (reader.status === 200) open.push({ reader, seen, due });
    });
    for (let round = 0; round < bySize(6, 40); round++) {
      const revoked = new Set<unknown>(random.pick([], ["red"], ["blue"], ["red", "blue"]));
      await world().code("revoke", [...revoked]);
      for (let left = 6; left > 0; left--)
        started.push(
          await start(random.pick(...owners), random.pick(...workflows), random.pick("red", "blue"), revoked),
        );
      // Each caller who may read at all sees one of these: what came before has been judged by then.
      for (const owner of owners)
        for (const workflow of workflows) started.push(await start(owner, workflow, "all", revoked));
      const lacking = () => open.filter(({ seen, due }) => due().length > 0 && !seen().includes(due().at(-1)!));
      await until(
        () => lacking().length === 0,
        () => `the events of ${lacking().map(({ reader }) => reader.shown)}`,
      );
    }
    for (const { reader, seen, due } of open) {
      const [wrong, lacking] = [
        seen().filter((one) => !due().includes(one)),
        due().filter((one) => !seen().includes(one)),
      ];
      const isTwice = new Set(seen()).size !== seen().length;
      if (wrong.length + lacking.length > 0 || isTwice)
        findings.push(`${reader.shown} sent ${wrong}, and did not send ${lacking}${isTwice ? ", and some twice" : ""}`);
      reader.close();
    }
    expect(findings).toEqual([]);
  });

  it("an execution that a caller may not read is by no spelling different from one that never was", async () => {
    await world().code("revoke", ["blue"]);
    const revoked = new Set(["blue"]);
    const ways = ["stream", "stream?after=0&until=end", "stream/", "%73tream?after=1", "../../executions/./ID/stream"];
    const started = [await start(ada, "job", "red", revoked), await start(bob, "job", "blue", revoked)];
    const findings: string[] = [];
    for (const one of started)
      for (const caller of readers) {
        const headers = { "last-event-id": "0" };
        const ask = (id: string, way: string, workflow = "job") =>
          world().get(caller, `/workflows/${workflow}/executions/${id}/${way.replace("ID", id)}`, { headers });
        const isAllowed = mayRead(rule, caller, one);
        const isKnown = rule !== "ownership" && caller?.["id"] === one.userId;
        for (const way of [...ways, "state", "steps?path=do"]) {
          const { status, text, shown } = await ask(one.executionId, way);
          const hidden = await ask("never-was", way);
          const isSame = text === hidden.text.replace("never-was", one.executionId);
          const isRight = isAllowed ? status === 200 : isKnown ? status === 403 : status === 404 && isSame;
          if (!isRight || (!isAllowed && text.includes("canary"))) findings.push(shown);
        }
        const other = await ask(one.executionId, "stream", "task");
        if (other.status !== 404) findings.push(other.shown);
      }
    expect(findings).toEqual([]);
  });
});

describe("sseStreamsPerCaller", () => {
  const world = openWorld({ rule: "none" });
  const most = 100;
  /** Users whose ids look like names of addresses and of other users. */
  const lookalikes = ["127.0.0.1", "address 127.0.0.1", "user ada", "ada ", "ADA"].map((id) => ({ id }));
  /** An execution whose stream stays open. */
  const waiting = shared(() => begin(world(), "wait", ada, { key: "w1" }, { executionId: "w1" }));
  const attach = "/workflows/wait/executions/w1/stream";
  const paths = [
    "/executions/stream",
    "/executions/stream?workflowId=job",
    `${attach}?until=end`,
    `${attach}?after=1&until=end`,
  ];

  /** Opens streams of every kind at once. */
  const openMany = (
    caller: Caller,
    count: number,
    toHeaders: (n: number) => object = () => ({}),
  ): Promise<Reader[]> => {
    const open = (n: number) => world().open(caller, paths[n % paths.length]!, { headers: { ...toHeaders(n) } });
    return Promise.all(Array.from({ length: count }, (_, n) => open(n)));
  };
  const close = (list: readonly Reader[]): void => list.forEach((reader) => reader.close());
  function expectFull(list: readonly Reader[]): void {
    const statuses = list.map(({ status }) => status).toSorted();
    expect(statuses).toEqual(list.map((_, n) => (n < most ? 200 : 429)));
    for (const { status, headers, shown } of list)
      if (status === 429) expect(headers["retry-after"], shown).toMatch(/^[1-9]\d*$/);
  }
  async function expectOpen(...some: readonly Caller[]): Promise<void> {
    for (const caller of some) {
      const [one] = await openMany(caller, 1);
      expect(one!.status, one!.shown).toBe(200);
      one!.close();
    }
  }
  /** The server learns of a closed connection a moment later. */
  const untilFree = (caller: Caller): Promise<void> =>
    eventually(async () => {
      const list = await openMany(caller, most);
      close(list);
      expect(list.filter(({ status }) => status !== 200).length, toName(caller)).toBe(0);
    });

  it("a caller with 100 open streams gets 429 with Retry-After for more, and other callers and routes are not affected", async () => {
    expect(waiting().status).toBe("suspended");
    const list = await openMany(ada, most + 20);
    expectFull(list);
    const again = await openMany({ id: "ada", role: "manager", team: "red" }, 3); // the same user with other claims
    expect(
      again.map(({ status }) => status),
      again[0]!.shown,
    ).toEqual([429, 429, 429]);
    await expectOpen(bob, code, anonymous, nobody, nameless, ...lookalikes);
    for (const verb of ["execute", "stream"]) {
      const { status, shown } = await world().post(ada, `/workflows/job/${verb}`, { input: { note: "x" } });
      expect(status, shown).toBe(200);
    }
    close(list);
    await untilFree(ada);
  });

  it("callers without an id share the places of their address, whatever X-Forwarded-For says, and take none of a user", async () => {
    const forge = (n: number) => ({
      "x-forwarded-for": `203.0.113.${n}, 198.51.100.${n}`,
      forwarded: `for=203.0.113.${n}`,
      "x-real-ip": `203.0.113.${n}`,
      "cf-connecting-ip": `203.0.113.${n}`,
    });
    const list = await openMany(nobody, most + 20, forge);
    expectFull(list);
    const others = await openMany(nameless, 2, forge);
    expect(
      others.map(({ status }) => status),
      others[0]!.shown,
    ).toEqual([429, 429]);
    await expectOpen(ada, anonymous, ...lookalikes);
    const own = await openMany(bob, most + 5, forge);
    expectFull(own);
    close([...list, ...own]);
  });

  it("streams that are refused, empty, ended or left before their first event hold no place", async () => {
    await begin(world(), "job", ada, { note: "x" }, { executionId: "ended" });
    await untilFree(ada);
    const streams = [
      "/workflows/job/executions/ended/stream",
      "/workflows/job/executions/never-was/stream",
      attach,
      "/executions/stream?userId=",
      "/executions/stream?unknown=%zz",
      "/agents/desk/chat/none/stream",
      "/agents/none/chat/none/stream",
    ];
    await together(4, Array.from({ length: most / 2 }), async () => {
      for (const path of streams) {
        (await world().open(ada, path)).close();
        await world().send(ada, "HEAD", path);
      }
      await world().send(ada, "HEAD", "/executions/stream");
    });
    await untilFree(ada);
  });
});
