import type { Peer } from "crossws";
import { defineWebSocketHandler } from "h3";
import { expect, it } from "vitest";
import { createToken, jwtAuth, type Config } from "agentserve";
import { secret, token } from "./fixtures.ts";
import { describeStage, type Stage } from "./stage.ts";

const ws = (stage: Stage, path = "/ws"): string => stage.server.replace("http", "ws") + path;
const refused = (status: number) => ({ refused: expect.stringContaining(`Unexpected response code: ${status}`) });
// Chromium's word for a 401.
const unknown = { refused: expect.stringContaining("HTTP Authentication failed") };
const opened = (protocol: string) => ({
  protocol,
  heard: [expect.objectContaining({ type: "CONNECTION_TEST" }), { type: "ECHO", success: true, data: "hello" }],
});

const origins = (stage: Stage) => ({
  "its own": `${stage.server}/doc`,
  "an allowed": stage.friend,
  another: stage.stranger,
  no: `${stage.friend}/sandboxed`,
});
type Origin = keyof ReturnType<typeof origins>;
type Cors = NonNullable<Config["server"]>["cors"];

for (const [title, cors, allowed] of [
  ["cors with a named origin", (friend) => ({ origin: [friend] }), ["its own", "an allowed"]],
  ["cors omitted", () => undefined, ["its own", "an allowed", "another", "no"]],
  ["cors: false", () => false, ["its own"]],
] satisfies [string, (friend: string) => Cors, Origin[]][]) {
  describeStage(
    title,
    (friend) => ({ server: { cors: cors(friend) } }),
    (stage) => {
      it(`opens /ws for a page of ${allowed.join(" or ")} origin, and for no other`, async () => {
        const tab = await stage.visit(stage.friend);
        for (const [origin, url] of Object.entries(origins(stage))) {
          await tab.page.goto(url);
          const isAllowed = (allowed as string[]).includes(origin);
          expect(await tab.talk(ws(stage)), `of ${origin} origin`).toEqual(isAllowed ? opened("") : refused(403));
        }
      });
    },
  );
}

const closed = (friend: string): Config => ({
  auth: jwtAuth({ secret, webSockets: true }),
  server: { cors: { origin: friend } },
  configureApp(app) {
    const open = (peer: Peer): void => [1, 2].forEach((n) => peer.send(`${n}`));
    app.get("/own", defineWebSocketHandler({ open }));
    const upgrade = () => ({ headers: { "sec-websocket-protocol": "mine" } });
    app.get("/choosing", defineWebSocketHandler({ open, upgrade }));
  },
});

describeStage("a socket with auth.webSockets", closed, (stage) => {
  it("opens a socket for a token among the protocols, and answers with the other protocol", async () => {
    const tab = await stage.visit(stage.friend);
    expect(await tab.talk(ws(stage), ["bearer", token])).toEqual(opened("bearer"));
  });
  it("opens a socket of the host for a token among the protocols, and answers with the host's choice", async () => {
    const tab = await stage.visit(stage.friend);
    expect(await tab.talk(ws(stage, "/own"), ["bearer", token])).toEqual({ protocol: "bearer", heard: [1, 2] });
    const choosing = await tab.talk(ws(stage, "/choosing"), ["mine", "bearer", token]);
    expect(choosing).toEqual({ protocol: "mine", heard: [1, 2] });
    expect(await tab.talk(ws(stage, "/own"))).toEqual(unknown);
  });
  it("opens a socket for a token in the query", async () => {
    const tab = await stage.visit(stage.friend);
    expect(await tab.talk(ws(stage, `/ws?token=${token}`))).toEqual(opened(""));
  });
  it("opens no socket without a valid token", async () => {
    const tab = await stage.visit(stage.friend);
    const forged = await createToken({ sub: "ada" }, `${secret}!`);
    expect(await tab.talk(ws(stage))).toEqual(unknown);
    expect(await tab.talk(ws(stage), ["bearer"])).toEqual(unknown);
    expect(await tab.talk(ws(stage), ["bearer", forged])).toEqual(unknown);
    expect(await tab.talk(ws(stage, `/ws?token=${forged}`))).toEqual(unknown);
  });
  it("opens no socket for a page of another origin, whatever its token", async () => {
    const tab = await stage.visit(stage.stranger);
    expect(await tab.talk(ws(stage), ["bearer", token])).toEqual(refused(403));
    expect(await tab.talk(ws(stage, `/ws?token=${token}`))).toEqual(refused(403));
  });
});

describeStage(
  "a socket that needs no token",
  () => ({ auth: jwtAuth({ secret }) }),
  (stage) => {
    it("opens a socket that needs no token for a page with any token", async () => {
      const tab = await stage.visit(stage.friend);
      expect(await tab.talk(ws(stage), ["bearer", token])).toEqual(opened("bearer"));
      expect(await tab.talk(ws(stage), ["bearer", "x"])).toEqual(opened("bearer"));
    });
  },
);
