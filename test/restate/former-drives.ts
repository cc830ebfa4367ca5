import * as sdk from "@restatedev/restate-sdk";
import { createServer, type ServerHttp2Session } from "node:http2";

/** What the drive's object of an execution has, by key. */
export type DriveState = Readonly<Record<string, any>>;

interface FormerDrives {
  /** The executions whose drives have got as far as their state. */
  readonly reached: ReadonlySet<string>;
  /** Ends the process, as it were: Restate repeats its drives. */
  close(): Promise<void>;
}

/**
 * The drives of commit 522c0a4f, the last version that began executions without a register: each makes the calls of that
 * version until it has its state, and waits in a step. When it is summoned, it gets a register.
 */
export async function serveFormerDrives(
  { name, port, admin }: { readonly name: string; readonly port: number; readonly admin: string },
  stateOf: (id: string) => DriveState,
): Promise<FormerDrives> {
  const reached = new Set<string>();
  const drive = sdk.object({
    name: `${name}.drive`,
    options: { retryPolicy: { initialInterval: 50, maxInterval: 1_000 } },
    handlers: {
      async run(context: sdk.ObjectContext, { execution }: { execution: object }) {
        await context.get("r0000000"); // a start that arrives twice
        const { id: summons, promise: summoned } = context.awakeable();
        const { index, solo, ...rows } = stateOf(context.key);
        context.set("index", index);
        context.set("solo", { ...solo, summons });
        for (const [key, row] of Object.entries(rows)) context.set(key, row);
        await context.get("none1"); // resolves when Restate has the state
        const step = context.run("s2", () => {
          reached.add(context.key);
          return new Promise<void>(() => {});
        });
        await sdk.RestatePromise.race([summoned, step]);
        const { id: reply, promise: adopted } = context.awakeable();
        const parameter = { epoch: 0, solo: execution, drive: context.request().id, reply };
        const inputSerde = sdk.serde.json;
        context.genericSend({ service: name, key: context.key, method: "adopt", parameter, inputSerde });
        await adopted;
        context.clear("solo");
        context.clear("index");
        await step;
      },
    },
  });
  const server = createServer(sdk.createEndpointHandler({ services: [drive], logger: () => {} }));
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => sessions.add(session));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const body = JSON.stringify({ uri: `http://127.0.0.1:${port}`, force: true });
  const headers = { "content-type": "application/json" };
  const registered = await fetch(`${admin}/deployments`, { method: "POST", headers, body });
  if (!registered.ok) throw new Error(await registered.text());
  return {
    reached,
    async close() {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
