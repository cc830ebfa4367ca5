import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, it, type TestContext } from "vitest";
import { createClient, type Answer, type Client } from "../../harness/client.ts";
import { createSharedFolder } from "../../harness/folders.ts";
import { Host } from "../../harness/start-host.ts";
import { until } from "../../harness/waiting.ts";

const folder = createSharedFolder("disk");

/** A server as a process of its own, on a file that can be made to fail. */
interface FaultyHost extends Client {
  sql(statement: string): Promise<Record<string, number>[]>;
  /** Lets the step of this execution go on. */
  open(id: string): Promise<unknown>;
  state(id: string): Promise<any>;
  close(): Promise<unknown>;
  kill(): Promise<unknown>;
}
type OnFinished = TestContext["onTestFinished"];

async function openHost(file: string, log: string, onTestFinished: OnFinished): Promise<FaultyHost> {
  const host = new Host(join(import.meta.dirname, "faulty-file-app.ts"));
  onTestFinished(() => void host.child.kill("SIGKILL"));
  const url = await host.start({ file, log });
  const doc = await (await fetch(`${url}/doc`)).json();
  const client = createClient((path, init) => fetch(url + path, init), doc as never);
  return {
    ...client,
    sql: (statement) => host.order("sql", statement),
    open: (gate) => host.order("gate", gate),
    state: async (id) => (await client.get(`${pathOf(id)}/state`)).body.data,
    close: () => host.order("close"),
    kill: () => host.end(),
  };
}
/** Executions are called after their workflow. */
const workflowOf = (id: string): string => id.split(".")[0]!;
const pathOf = (id: string): string => `/workflows/${workflowOf(id)}/executions/${id}`;
const async = { headers: { prefer: "respond-async" } };
const pad = "x".repeat(6_000); // never fits into what is left of a page
const begun = (id: string) => ({ input: { pad }, options: { executionId: id } });
const approval = { resumeData: { approved: true, pad } };
const event = { name: "go", data: pad, id: "e1" };

// The faults.

interface Fault {
  /** Where the data stands. */
  readonly file: string;
  begin(host: FaultyHost): Promise<unknown> | void;
  /** The host is undefined when it has been killed, and the faults of its connection with it. */
  end(host?: FaultyHost): Promise<unknown> | void;
}
type Make = (name: string, onTestFinished: OnFinished) => Fault;

const onDisk = (name: string): string => {
  mkdirSync(join(folder, name));
  return join(folder, name, "data.db");
};
const full: Make = (name) => ({
  file: onDisk(name),
  async begin({ sql }) {
    const [pages] = await sql("pragma page_count");
    await sql(`pragma max_page_count = ${pages!["page_count"]}`);
  },
  end: (host) => host?.sql("pragma max_page_count = 1000000"),
});
const readOnly: Make = (name) => ({
  file: onDisk(name),
  begin: ({ sql }) => sql("pragma query_only = 1"),
  end: (host) => host?.sql("pragma query_only = 0"),
});
const locked: Make = (name, onTestFinished) => {
  const file = onDisk(name);
  let other: DatabaseSync | undefined;
  onTestFinished(() => void (other?.isOpen && other.close()));
  return {
    file,
    begin() {
      other = new DatabaseSync(file);
      other.exec("pragma busy_timeout = 1000; begin immediate");
    },
    end: () => other!.close(),
  };
};
/** A file system of its own, with a file that takes what is left of it. */
const noSpace: Make = (name, onTestFinished) => {
  const mounted = join(folder, name);
  mkdirSync(mounted);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "none", mounted], { stdio: "pipe" });
  onTestFinished(() => void execFileSync("umount", ["-l", mounted]));
  const filling = join(mounted, "filling");
  return {
    file: join(mounted, "data.db"),
    begin() {
      writeFileSync(filling, "");
      expect(() => {
        for (;;) appendFileSync(filling, Buffer.alloc(4_096));
      }).toThrow("ENOSPC");
    },
    end: () => rmSync(filling),
  };
};
let mountProblem: string | undefined;
beforeAll(() => {
  const place = join(folder, "try");
  mkdirSync(place);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "none", place], { stdio: "pipe" });
    execFileSync("umount", [place]);
  } catch (error) {
    mountProblem = `no tmpfs here: ${String((error as { stderr?: Buffer }).stderr ?? error).trim()}`;
    console.log(mountProblem);
  }
});
const faults = { "a page limit": full, "a full disk": noSpace, "read-only": readOnly, locked };

// What is asked.

/** Refused because the store cannot be written, in the envelope. The fault lasts until the answer is there. */
async function expectRefusal(answer: Promise<Answer>, what: string): Promise<Answer> {
  const got = await answer;
  expect([what, got.status]).toEqual([what, 503]);
  // Nothing has begun by an execute or a stream that is refused.
  const isAbout = /^(resume|suspend|cancel)/.test(what) && { executionId: expect.any(String) };
  expect(got.body, what).toEqual({ success: false, error: expect.stringMatching(/storage/i), ...isAbout });
  expect([what, got.headers.get("retry-after")]).toEqual([what, expect.stringMatching(/^\d+$/)]);
  return got;
}

/** The steps that ran, in order. */
const linesOf = (log: string): string[] => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : []);

async function completed(host: FaultyHost, id: string): Promise<void> {
  await until(async () => (await host.state(id)).status !== "running", id);
  expect(await host.state(id)).toMatchObject({ status: "completed", result: { length: 6_000 } });
}

describe.concurrent.each(Object.entries(faults))("%s", (name, make) => {
  const slug = name.replaceAll(" ", "-");

  it("answers 503 while the store cannot be written, still shows what it has, and continues by itself afterwards", async (test) => {
    if (make === noSpace && mountProblem) return test.skip(mountProblem);
    const fault = make(`${slug}-lasts`, test.onTestFinished);
    const log = join(folder, `${slug}-lasts.log`);
    const host = await openHost(fault.file, log, test.onTestFinished);
    const { get, post } = host;
    const ran = (): string[] => linesOf(log);

    const done = (await post("/workflows/quick/execute", begun("quick.before"))).body.data;
    for (const id of ["ask.a", "ask.b", "ask.c"]) await post("/workflows/ask/execute", begun(id));
    const flying = ["gated.ends", "gated.late", "gated.suspend", "gated.cancel", "gated.suspend2", "gated.cancel2"];
    for (const id of flying) await post("/workflows/gated/execute", begun(id), async);
    const waiting = post("/workflows/gated/execute", begun("gated.waits"));
    const streaming = post("/workflows/gated/stream", begun("gated.streams"));
    for (const answer of [waiting, streaming]) answer.catch(() => {}); // awaited below
    flying.push("gated.waits", "gated.streams");
    for (const id of flying) await until(() => ran().includes(`${id}/second`), id);

    await fault.begin(host);
    for (const id of ["gated.ends", "gated.waits", "gated.streams"]) await host.open(id);
    const refusals = Promise.all([
      expectRefusal(post(`${pathOf("ask.a")}/resume`, approval), "resume"),
      expectRefusal(post(`${pathOf("ask.b")}/cancel`, { reason: pad }), "cancel of a suspended one"),
      expectRefusal(post("/events", event), "event"),
      expectRefusal(post("/workflows/quick/execute", begun("quick.execute")), "execute"),
      expectRefusal(post("/workflows/quick/execute", begun("quick.async"), async), "execute, async"),
      expectRefusal(post("/workflows/quick/stream", begun("quick.stream")), "stream"),
      expectRefusal(post(`${pathOf("gated.suspend")}/suspend`, { reason: pad }), "suspend"),
      expectRefusal(post(`${pathOf("gated.cancel")}/cancel`, { reason: pad }), "cancel"),
    ]);
    refusals.catch(() => {}); // awaited below
    const look = async (): Promise<void> => {
      expect(await host.state("quick.before")).toMatchObject({ status: "completed", result: done.result });
      for (const id of ["ask.a", "ask.b", "ask.c"]) expect((await host.state(id)).status, id).toBe("suspended");
      for (const id of flying) expect((await host.state(id)).status, id).toBe("running");
      const { body } = await get("/workflows/gated/executions");
      expect(body.data.items.map(({ status }: any) => status)).toEqual(flying.map(() => "running"));
      expect((await get(`${pathOf("quick.before")}/stream`)).events.at(-1)).toMatchObject({ status: "completed" });
      expect((await get("/workflows")).body.data.map(({ id }: any) => id)).toEqual(["quick", "ask", "gated"]);
    };
    await look();
    // The first two are of executions that nobody drives: of them it can be said.
    const errors = (await refusals).map(({ body }) => body.error);
    expect(errors[2]).toContain("nothing was sent");
    for (const error of errors.slice(0, 2)) expect(error).toContain("nothing was changed");
    const refused = await waiting;
    const told = ["x-execution-id", "retry-after"].map((header) => refused.headers.get(header));
    expect([refused.status, ...told]).toEqual([503, "gated.waits", expect.stringMatching(/^\d+$/)]);

    // It lasts: what is asked now is refused, too.
    await Promise.all([
      expectRefusal(post("/workflows/quick/execute", begun("quick.execute")), "execute, once more"),
      expectRefusal(post(`${pathOf("ask.a")}/resume`, approval), "resume, once more"),
      expectRefusal(post("/events", event), "event, once more"),
      expectRefusal(post(`${pathOf("gated.suspend2")}/suspend`, { reason: pad }), "suspend, once more"),
      expectRefusal(post(`${pathOf("gated.cancel2")}/cancel`, { reason: pad }), "cancel, once more"),
    ]);
    await look();
    expect(ran().filter((key) => key.startsWith("quick.") && key !== "quick.before/only")).toEqual([]);

    await fault.end(host);
    for (const id of ["gated.ends", "gated.waits", "gated.streams"]) await completed(host, id);
    expect((await streaming).events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed" });
    // What was refused never began, and may begin now.
    for (const id of ["quick.execute", "quick.async", "quick.stream"]) {
      expect((await get(`${pathOf(id)}/state`)).status, id).toBe(404);
      expect((await post("/workflows/quick/execute", begun(id))).body.data.status, id).toBe("completed");
    }
    expect((await host.sql("select count(*) as count from events"))[0]).toEqual({ count: 0 });
    for (let n = 0; n < 2; n++) expect((await post("/events", event)).body.data).toEqual({ id: "e1" });
    expect((await host.sql("select count(*) as count from events"))[0]).toEqual({ count: 1 });
    expect((await host.state("ask.a")).status).toBe("suspended");
    expect((await post(`${pathOf("ask.a")}/resume`, approval)).body.data.result).toEqual({ approved: true });
    expect((await host.state("ask.b")).status).toBe("suspended");
    expect((await post(`${pathOf("ask.b")}/cancel`, {})).body.data.status).toBe("error");
    // A 503 that did not say that nothing was changed may have been carried out later; the execution ends right in both cases.
    for (const id of ["gated.late", "gated.suspend", "gated.suspend2", "gated.cancel", "gated.cancel2"]) {
      const { status, cancellation } = await host.state(id);
      await host.open(id);
      if (status === "suspended") await post(`${pathOf(id)}/resume`, {});
      if (cancellation) expect([id, status]).toEqual([expect.stringContaining("cancel"), "error"]);
      else await completed(host, id);
    }
    expect(await host.state("ask.c")).toMatchObject({ status: "suspended" });
    const twice = [...new Set(ran())].filter((key) => ran().indexOf(key) !== ran().lastIndexOf(key));
    expect(twice, "ran twice: only the step that got an answer").toEqual(["ask.a/person"]);
    expect((await post("/workflows/quick/execute", begun("quick.after"))).body.data.status).toBe("completed");
  });

  it("loses nothing that it acknowledged when it is killed while the store cannot be written", async (test) => {
    if (make === noSpace && mountProblem) return test.skip(mountProblem);
    const fault = make(`${slug}-killed`, test.onTestFinished);
    const log = join(folder, `${slug}-killed.log`);
    const first = await openHost(fault.file, log, test.onTestFinished);
    const ran = (): string[] => linesOf(log);
    const done = (await first.post("/workflows/quick/execute", begun("quick.before"))).body.data;
    await first.post("/workflows/ask/execute", begun("ask.a"));
    for (const id of ["gated.ends", "gated.late"]) {
      await first.post("/workflows/gated/execute", begun(id), async);
      await until(() => ran().includes(`${id}/second`), id);
    }
    await fault.begin(first);
    await first.open("gated.ends");
    await expectRefusal(first.post("/workflows/quick/execute", begun("quick.refused")), "execute");
    await expectRefusal(first.post(`${pathOf("ask.a")}/resume`, approval), "resume");
    await first.kill();
    await fault.end();
    const second = await openHost(fault.file, log, test.onTestFinished);
    expect(await second.state("quick.before")).toMatchObject({ status: "completed", result: done.result });
    expect((await second.get(`${pathOf("quick.refused")}/state`)).status).toBe(404);
    expect((await second.post(`${pathOf("ask.a")}/resume`, approval)).body.data.result).toEqual({ approved: true });
    for (const id of ["gated.ends", "gated.late"]) {
      await second.open(id);
      await completed(second, id);
      const keys = ["first", "second", "second", "third"].map((step) => `${id}/${step}`);
      expect(ran().filter((key) => key.startsWith(`${id}/`))).toEqual(keys);
    }
  });
});

describe.concurrent("a server that is closed while its store is locked", () => {
  it("a server that is closed while its store is locked answers 503, and the next one continues what was in flight", async (test) => {
    const fault = locked("closed", test.onTestFinished);
    const log = join(folder, "closed.log");
    const first = await openHost(fault.file, log, test.onTestFinished);
    const waiting = first.post("/workflows/gated/execute", begun("gated.waits"));
    await until(() => linesOf(log).includes("gated.waits/second"), "gated.waits");
    await fault.begin(first);
    await first.open("gated.waits");
    const beginning = first.post("/workflows/quick/execute", begun("quick.a"));
    await until(async () => (await first.get("/workflows")).status === 200, "the request before this one has arrived");
    await first.close();
    const answers = await Promise.all([waiting, beginning]);
    expect(answers.map(({ status, body }) => [status, body.success])).toEqual(answers.map(() => [503, false]));
    await first.kill();
    await fault.end();
    const second = await openHost(fault.file, log, test.onTestFinished);
    await second.open("gated.waits");
    await completed(second, "gated.waits");
    expect((await second.get(`${pathOf("quick.a")}/state`)).status).toBe(404);
  });
});

// Alone, so that nothing but the lock keeps the host from writing: after 1 s it would be a fault.
describe("a lock of 100 ms", () => {
  it("waits for a lock of 100 ms: no request is answered with 503", async (test) => {
    const fault = locked("short", test.onTestFinished);
    const log = join(folder, "short.log");
    const host = await openHost(fault.file, log, test.onTestFinished);
    const { post } = host;
    for (const id of ["ask.a", "ask.b"]) await post("/workflows/ask/execute", begun(id));
    for (const id of ["gated.ends", "gated.suspend", "gated.cancel"])
      await post("/workflows/gated/execute", begun(id), async);
    const waiting = post("/workflows/gated/execute", begun("gated.waits"));
    await until(() => linesOf(log).includes("gated.waits/second"), "gated.waits");
    await fault.begin(host);
    for (const id of ["gated.ends", "gated.waits"]) await host.open(id);
    const answers = Promise.all([
      waiting,
      post("/workflows/quick/execute", begun("quick.a")),
      post("/workflows/quick/execute", begun("quick.b"), async),
      post("/workflows/quick/stream", begun("quick.c")),
      post(`${pathOf("ask.a")}/resume`, approval),
      post(`${pathOf("ask.b")}/cancel`, {}),
      post(`${pathOf("gated.suspend")}/suspend`, {}),
      post(`${pathOf("gated.cancel")}/cancel`, {}),
    ]);
    await sleep(100); // so long is the lock
    await fault.end(host);
    expect((await answers).map(({ status }) => status)).toEqual([200, 200, 202, 200, 200, 200, 200, 200]);
    expect((await answers)[3]!.events.at(-1)).toMatchObject({ status: "completed" });
    await completed(host, "gated.ends");
  });

  it("waits for a lock of 100 ms also after a long one, in which every request was refused", async (test) => {
    const fault = locked("long-then-short", test.onTestFinished);
    const host = await openHost(fault.file, join(folder, "long-then-short.log"), test.onTestFinished);
    await fault.begin(host);
    await expectRefusal(host.post("/workflows/quick/execute", begun("quick.a")), "execute");
    await fault.end(host);
    await fault.begin(host);
    const answer = host.post("/workflows/quick/execute", begun("quick.a"));
    await sleep(100); // so long is the lock
    await fault.end(host);
    expect((await answer).status).toBe(200);
  });
});
