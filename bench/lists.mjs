// The time at the server of GET /executions with each filter of the console, in a file with many executions, and that of the
// pages of a long loop in GET …/steps. Each figure is the median of 20 requests, and the first one after a start. The target is
// 50 ms. Usage: node bench/lists.mjs [executions] [items]
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { Store } from "../src/backends/embedded/store/store.ts";
import { toProject } from "../src/config/load.ts";
import { andThen, defineWorkflow, embedded } from "../src/index.ts";
import { openServer } from "../src/server/create.ts";

const executions = Number(process.argv[2] ?? 100_000);
const items = Number(process.argv[3] ?? 10_000);
const rounds = 20;
const folder = mkdtempSync(join(tmpdir(), "agentserve-lists-"));
const file = join(folder, "data.db");

/** The same numbers in every run. */
let seed = 1;
function random(most) {
  seed = (seed + 0x6d2b79f5) | 0;
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) % most;
}
const oneOf = (values) => values[random(values.length)];
// Recent, so that retention keeps them.
const every = 5_000;
const since = Date.now() - executions * every;

/** Half of the executions are of one workflow, the others of 30; each tenth is suspended, each tenth has failed. */
function write() {
  const store = new Store(file, "normal");
  const steps = [
    ["first", "andThen", 0],
    ["ask", "andThen", 0],
  ];
  const person = { stepId: "ask", stepIndex: 1, reason: "Approve?", data: '{"amount":7}', kind: "person" };
  const timer = { stepId: "first", stepIndex: 0, reason: "Sleeping", kind: "timer", due: { at: since * 2 } };
  const suspended = [
    { reason: "Approve?", pending: [person], kinds: ["person"] },
    { reason: "Sleeping", pending: [timer], kinds: ["timer"] },
    { reason: "By request", pending: [] },
  ];
  store.transaction(() => {
    for (let number = 1; number <= executions; number++) {
      // The ids of the oldest ones begin alike, as those of schedules do.
      const id =
        number < executions / 20 ? `schedule:nightly:${number}` : `${oneOf(["a", "b", "c"])}${random(1e9)}-${number}`;
      const workflowId = random(2) === 0 ? "usual" : `workflow-${random(30)}`;
      const userId = random(4) === 0 ? undefined : random(3) === 0 ? "ada" : `user-${random(500)}`;
      const at = since + number * every;
      store.insertExecution(number, { id, workflowId, userId, startAt: at, input: '{"n":1}', context: {}, steps }, []);
      const end = random(100);
      if (end < 10) {
        const rare = random(2_000) === 0;
        store.move(number, 0, {
          at,
          to: "suspended",
          ...(rare ? { kind: "system", reason: "Crashed", pending: [] } : oneOf(suspended)),
        });
      } else if (end < 20)
        store.move(number, 0, {
          at,
          to: "error",
          ...(random(500) === 0 ? { cancellation: { reason: "No" } } : { error: { message: "Failed" } }),
        });
      else if (end < 99 || random(10) > 0) store.move(number, 0, { at, to: "completed", result: '{"ok":true}' });
    }
  });
  store.close();
}

const auth = { type: "trusting", verifyToken: (token) => ({ id: token }) };
const each = defineWorkflow({ id: "loop" }).andForEach({
  id: "each",
  concurrency: 50,
  items: () => Array.from({ length: items }, (_, n) => ({ n })),
  step: andThen({ id: "twice", execute: ({ data }) => ({ n: data.n * 2 }) }),
});
const quiet = () => {};
const logger = { trace: quiet, debug: quiet, info: quiet, warn: quiet, error: console.error, fatal: console.error };

async function open(user) {
  const project = toProject({ workflows: [each], backend: embedded({ path: file }), ...(user && { auth }) });
  const server = openServer(project, { mode: "start", logger, recovery: false });
  await server.ready();
  const headers = user ? { authorization: `Bearer ${user}` } : {};
  return {
    async get(path) {
      const from = performance.now();
      const before = process.cpuUsage();
      const response = await server.fetch(new Request(`http://localhost${path}`, { headers }));
      const body = await response.json();
      const ms = performance.now() - from;
      const { user: own, system } = process.cpuUsage(before);
      if (response.status !== 200) throw new Error(`${path}: ${response.status} ${JSON.stringify(body)}`);
      return { ms, cpu: (own + system) / 1_000, data: body.data };
    },
    post: (path, body) =>
      server.fetch(
        new Request(`http://localhost${path}`, {
          method: "POST",
          headers: { ...headers, "content-type": "application/json" },
          body: JSON.stringify(body),
        }),
      ),
    close: () => server.close(),
  };
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const slow = [];
function print(name, { first, warm, cpu, count }) {
  // On a busy machine the CPU says more than the clock.
  const isSlow = cpu > 50 || (Math.max(first, warm) > 50 && loadavg()[0] < 2);
  if (isSlow) slow.push(name);
  const figures = [
    `${count} rows`,
    `${warm.toFixed(1)} ms`,
    `${cpu.toFixed(1)} ms CPU`,
    `first ${first.toFixed(1)} ms`,
  ];
  console.log(name.padEnd(80), ...figures.map((one) => one.padStart(16)), isSlow ? "SLOW" : "");
}

async function measure(user, path) {
  const fresh = await open(user);
  const { ms: first } = await fresh.get(path);
  const warm = [];
  const cpu = [];
  let data;
  for (let round = 0; round < rounds; round++) {
    const answer = await fresh.get(path);
    warm.push(answer.ms);
    cpu.push(answer.cpu);
    data = answer.data;
  }
  await fresh.close();
  return { first, warm: median(warm), cpu: median(cpu), count: data.items.length, next: data.nextCursor };
}

const time = (share) => new Date(since + Math.floor(executions * share) * every).toISOString();
const filters = [
  "",
  ...["running", "suspended", "error", "completed", "suspended,error"].map((status) => `status=${status}`),
  ...["person", "timer", "event", "request", "system"].map((kind) => `kind=${kind}`),
  "workflowId=usual",
  "workflowId=workflow-7",
  "workflowId=usual&status=suspended",
  "workflowId=workflow-7&kind=person",
  "id=a",
  "id=a12",
  "id=schedule:",
  "id=schedule:&status=suspended",
  "id=none",
  `since=${time(0.5)}`,
  `until=${time(0.5)}`,
  `since=${time(0.4)}&until=${time(0.41)}`,
  `until=${time(0.1)}&status=error`,
  "cancelled=true",
  "cancelled=false",
  "status=error&cancelled=false",
];

try {
  const from = performance.now();
  write();
  console.log(
    `${executions} executions written in ${((performance.now() - from) / 1000).toFixed(1)} s; load ${loadavg()[0].toFixed(1)}`,
  );
  await (await open()).close(); // the code is loaded
  for (const user of [undefined, "ada", "user-7"]) {
    for (const filter of filters) {
      const base = `/executions?limit=50${filter && `&${filter}`}`;
      const page = await measure(user, base);
      print(`${user ?? "no provider"}  ${filter || "all"}`, page);
      if (!page.next) continue;
      let cursor = page.next;
      const walker = await open(user);
      for (let n = 0; n < 20 && cursor; n++) {
        const { data } = await walker.get(`${base}&cursor=${cursor}`);
        if (data.nextCursor === null) break;
        cursor = data.nextCursor;
      }
      await walker.close();
      print(`${user ?? "no provider"}  ${filter || "all"}, by cursor`, await measure(user, `${base}&cursor=${cursor}`));
    }
  }
  const server = await open();
  const begun = await server.post("/workflows/loop/execute", { input: {}, options: { executionId: "long" } });
  if (begun.status !== 200) throw new Error(await begun.text());
  await server.close();
  const path = "/workflows/loop/executions/long/steps";
  let cursor;
  for (let n = 0; ; n++) {
    const own = `${path}?under=each&limit=200${cursor ? `&cursor=${cursor}` : ""}`;
    const page = n % 20 === 0 ? await measure(undefined, own) : await readOnce(own);
    if (n % 20 === 0) print(`steps?under=each of ${items} items, page ${n + 1}`, page);
    cursor = page.next;
    if (!cursor) break;
  }
  print("steps", await measure(undefined, path));
  print("steps?under=each/77", await measure(undefined, `${path}?under=each/77`));
  print("steps?status=error", await measure(undefined, `${path}?status=error`));
  console.log(slow.length === 0 ? "all within 50 ms" : `over 50 ms: ${slow.length}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function readOnce(path) {
  const server = await open();
  const { data } = await server.get(path);
  await server.close();
  return { next: data.nextCursor };
}
