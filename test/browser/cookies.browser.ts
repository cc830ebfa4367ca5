import { expect, it } from "vitest";
import type { AuthProvider, Config } from "agentserve";
import { greeted, post, run, workflows } from "./fixtures.ts";
import { describeStage, type Stage } from "./stage.ts";
import type { Init, Tab } from "./tab.ts";

const session: AuthProvider = {
  type: "session",
  extractToken: ({ headers }) => /\bsession=(\w+)/.exec(headers.get("cookie") ?? "")?.[1],
  verifyToken(id) {
    if (id !== "ada") throw new Error("unknown session");
    return { id };
  },
};
/** The server and the pages have these names; pages of one name and another port are the same site, so cookies go along. */
const names = ["127.0.0.1", "lan.test"] as const;
type Name = (typeof names)[number];
const under = (name: Name, origin: string): string => origin.replace("127.0.0.1", name);
/** What the host's own route has done. */
const hooked: string[] = [];

const config = (friend: string): Config => ({
  workflows,
  auth: session,
  server: { allowedHosts: ["lan.test"], cors: { origin: names.map((name) => under(name, friend)), credentials: true } },
  configureApp(app) {
    app.post("/login", () => new Response("", { headers: { "set-cookie": "session=ada; HttpOnly" } }));
    app.post("/hook", (event) => hooked.push(event.context.authenticatedUser!["id"] as string));
  },
});

/** A page of the allowed origin, whose user has a session at the server. */
async function signIn(stage: Stage, name: Name = "127.0.0.1"): Promise<Tab> {
  const tab = await stage.visit(under(name, stage.friend));
  await tab.read(`${under(name, stage.server)}/login`, post("", {}));
  return tab;
}

const input = JSON.stringify({ input: { name: "Bob" } });
/** Requests that a browser sends for any page, without asking first. */
const unasked: Record<string, Init> = {
  text: { body: input },
  "a form": { body: input, headers: { "content-type": "application/x-www-form-urlencoded" } },
  "a body without a type": { body: new TextEncoder().encode(input) },
  nothing: {},
};

describeStage("a provider that reads a cookie", config, (stage) => {
  it("knows the user of an allowed page that sends its cookie, and of no other", async () => {
    const tab = await signIn(stage);
    const read = await tab.read(stage.server + run, post(input, {}));
    expect(read).toMatchObject({ status: 200, body: { data: { result: { by: "ada" } } } });
    hooked.length = 0;
    await tab.read(`${stage.server}/hook`, post("", {}));
    expect(hooked).toEqual(["ada"]);
    const without = await tab.read(stage.server + run, { ...post(input, {}), credentials: "same-origin" });
    expect(without).toMatchObject({ status: 401, body: { error: "Authentication required" } });
  });

  it("lets an EventSource with credentials attach to an execution, and none without credentials", async () => {
    const tab = await signIn(stage);
    const read = await tab.read(stage.server + run, post(input, {}));
    const id = (read as { headers: Record<string, string> }).headers["x-execution-id"];
    const url = `${stage.server}/workflows/greet/executions/${id}/stream`;
    const attach = (withCredentials: boolean) => tab.page.evaluate(firstEvent, { url, withCredentials });
    expect(await attach(true)).toMatchObject({ type: "workflow-start", executionId: id });
    expect(await attach(false)).toBe("failed");
  });

  // Over plain HTTP, Chromium says where a request comes from (Sec-Fetch-Site) only to this very machine.
  it.each(names)(
    "runs nothing for a stranger who asks with the user's cookie and no preflight: at %s",
    async (name) => {
      const tab = await signIn(stage, name);
      await tab.page.goto(under(name, stage.stranger));
      for (const [what, init] of Object.entries(unasked)) {
        for (const path of [run, "/hook"]) {
          stage.arrived.length = greeted.length = hooked.length = 0;
          const sent = { method: "POST", mode: "no-cors", credentials: "include", ...init } as const;
          await tab.read(under(name, stage.server) + path, sent);
          expect(stage.arrived[0]?.headers.cookie, what).toBe("session=ada");
          expect({ greeted, hooked, methods: stage.methods() }, `${what} to ${path}`).toEqual({
            greeted: [],
            hooked: [],
            methods: ["POST"],
          });
        }
      }
    },
  );

  it("runs nothing for a stranger's form that hides where it comes from", async () => {
    const tab = await signIn(stage);
    await tab.page.goto(stage.stranger);
    await tab.page.setContent(
      `<meta name="referrer" content="no-referrer"><form method="post" action="${stage.server}/hook"><button>`,
    );
    stage.arrived.length = hooked.length = 0;
    await tab.page.click("button");
    await tab.page.waitForURL(`${stage.server}/hook`);
    expect(stage.arrived[0]!.headers).toMatchObject({ origin: "null", cookie: "session=ada" });
    expect(hooked).toEqual([]);
    expect(await tab.page.textContent("body")).toContain("Origin not allowed");
  });
});

/** Runs in the page. */
function firstEvent({ url, withCredentials }: { url: string; withCredentials: boolean }): Promise<unknown> {
  return new Promise((resolve) => {
    const source = new EventSource(url, { withCredentials });
    const end = (value: unknown): void => {
      source.close();
      resolve(value);
    };
    source.addEventListener("message", ({ data }) => end(JSON.parse(data as string)));
    source.addEventListener("error", () => end("failed"));
  });
}
