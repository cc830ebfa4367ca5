import { createToken } from "agentserve";
import fc from "fast-check";
import { expect, it } from "vitest";
import { bySize } from "../../harness/size.ts";
import { within } from "../../harness/waiting.ts";
import { serve, type LoadedServer } from "../serve.ts";
import { bodyBytes, broken } from "./breaks.ts";
import { allowed, toBytes, type Draft, type World } from "./drafts.ts";
import { nameOf, readOperations } from "./operations.ts";
import { checkAnswer } from "./rules.ts";
import { exchange, type WireAnswer } from "./wire.ts";

const secret = "a secret of at least thirty-two bytes, for load";
const requests = bySize(1_000, 5_000);
/** The number of requests that are sent at the same time. */
const together = 25;
const timeout = bySize(300_000, 1_800_000);

it.each([{ name: "without authentication" }, { name: "with authentication", secret }])(
  `answers ${requests} requests, made from /doc and broken, as /doc says: $name`,
  async (options: { secret?: string }) => {
    const server = await serve({ bounds: { bodyBytes }, ...options });
    const world = await readWorld(server, options.secret);
    const histogram = new Map<string, Map<string, number>>();
    const request = fc
      .tuple(allowed(world), broken)
      .map(([draft, by]) => ({ ...by(draft), [fc.toStringMethod]: () => "below" }));
    async function send(draft: Draft): Promise<void> {
      const answer = await within(
        exchange(server.port, toBytes(draft), { isCut: draft.isCut, isFollowing: isFollowing(draft) }),
        () => toText(draft),
      );
      count(histogram, draft, answer);
      keepExecution(world, draft, answer);
      try {
        checkAnswer(draft, answer, world.operations);
      } catch (cause) {
        throw new Error(`${String(cause).slice(0, 500)}\n${toText(draft, answer)}`, { cause });
      }
    }
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: together, maxLength: together }), async (drafts) => {
        await Promise.all(drafts.map(send));
      }),
      {
        numRuns: Math.ceil(requests / together),
        interruptAfterTimeLimit: timeout,
        markInterruptAsFailure: true,
        endOnFailure: true,
      },
    );
    console.log(toTable(histogram));
    expect(world.operations.map(nameOf).filter((name) => !histogram.has(name))).toEqual([]);
    expect(server.child.process.exitCode).toBe(null);
    expect((await server.get("/workflows")).status).toBe(200);
    const { stderr, stdout } = server.child.output();
    expect((stdout + stderr).match(/.*(Request failed(?!.*Error: aborted)|[Uu]ncaught|[Uu]nhandled).*/g)).toBe(null);
  },
  timeout,
);

/** Returns true for a request whose stream may never end, however its path is written. */
const isFollowing = ({ operation, query }: Draft): boolean =>
  operation.path.endsWith("/executions/stream") || query.includes("until=");

async function readWorld(server: LoadedServer, key: string | undefined): Promise<World> {
  const doc: any = await (await server.get("/doc")).json();
  const list = async (path: string): Promise<string[]> =>
    ((await (await server.get(path)).json()) as { data: { id: string }[] }).data.map(({ id }) => id);
  const sign = async (sub: string, expiresIn: string): Promise<string> =>
    `Bearer ${await createToken({ sub }, key!, { expiresIn })}`;
  return {
    operations: readOperations(doc),
    components: doc.components,
    agents: await list("/agents"),
    workflows: await list("/workflows"),
    executions: new Map(),
    authorizations: key
      ? [await sign("ada", "10h"), await sign("ada", "10h"), await sign("bob", "10h"), await sign("eve", "1s")]
      : [],
  };
}

/** Keeps the newest executions, so that later requests can name them. */
function keepExecution({ executions }: World, { path }: Draft, answer: WireAnswer | undefined): void {
  const id = answer?.headers.get("x-execution-id");
  const [, workflow] = /^\/workflows\/([^/]+)\/(?:execute|stream)$/.exec(path) ?? [];
  if (!id || !workflow) return;
  executions.set(workflow, [id, ...(executions.get(workflow) ?? [])].slice(0, 20));
}

function count(histogram: Map<string, Map<string, number>>, draft: Draft, answer: WireAnswer | undefined): void {
  const row = draft.isUnparsed
    ? "(not HTTP)"
    : draft.isElsewhere
      ? "(another path or method)"
      : nameOf(draft.operation);
  const statuses = histogram.get(row) ?? new Map<string, number>();
  histogram.set(row, statuses);
  const status = String(answer?.status ?? "none");
  statuses.set(status, (statuses.get(status) ?? 0) + 1);
}

function toTable(histogram: Map<string, Map<string, number>>): string {
  return [...histogram]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, statuses]) => {
      const cells = [...statuses].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([status, n]) => `${status}: ${n}`);
      return `${name.padEnd(60)} ${cells.join("  ")}`;
    })
    .join("\n");
}

const toText = (draft: Draft, answer?: WireAnswer): string =>
  [
    `broken: ${draft.breaks.join(", ") || "no"}`,
    toBytes(draft).toString("latin1").slice(0, 1_000),
    answer ? `→ ${answer.status} ${JSON.stringify([...answer.headers])} ${answer.text.slice(0, 500)}` : "→ nothing",
  ].join("\n");
