import { describe, expect, it } from "vitest";
import { restate } from "agentserve/backends/restate";

const good = { ingress: "http://a:8080", admin: "http://a:9070", name: "app", serve: { port: 9080 } };

describe("restate()", () => {
  it("takes one URL of Restate or several, without a slash at the end, and opens nothing", () => {
    const { settings, type, hasFile } = restate({ ...good, ingress: ["http://a:8080/", "http://b:8080"] });
    expect([type, hasFile, settings!["ingress"]]).toEqual(["restate", undefined, ["http://a:8080", "http://b:8080"]]);
  });

  it("warns of a Restate port that is open to others: no loopback address and no keys", () => {
    const risk = (host: string, identityKeys?: string[]) =>
      restate({ ...good, serve: { host, port: 9080 }, ...(identityKeys && { identityKeys }) }).risk?.message;
    expect(risk("127.0.0.1")).toBeUndefined();
    expect(risk("0.0.0.0", ["publickeyv1_x"])).toBeUndefined();
    expect(risk("0.0.0.0")).toContain("Anyone who can reach 0.0.0.0:9080");
    expect(risk("10.0.0.7", [])).toContain("Anyone who can reach 10.0.0.7:9080");
  });

  it.each([
    [{ ingress: [] }, "restate({ ingress }): expected at least one URL, found []"],
    [{ ingress: "a:8080" }, 'restate({ ingress }): expected a URL such as http://127.0.0.1:8080, found "a:8080"'],
    [{ admin: 1 }, "restate({ admin }): expected a URL such as http://127.0.0.1:8080, found 1"],
    [{ name: "a b" }, /^restate\(\{ name \}\): expected a letter, then letters, digits/],
    [{ name: "a".repeat(101) }, /at most 100, found "a{101}"$/],
    [{ serve: undefined }, "restate({ serve }): expected an object, found undefined"],
    [{ serve: { port: 70_000 } }, "restate({ serve.port }): expected a port number from 0 to 65535, found 70000"],
    [{ serve: { port: 1, url: "x" } }, /^restate\(\{ serve\.url \}\): expected a URL/],
    [{ serve: { port: 1, prot: 2 } }, 'restate(): unknown option "serve.prot"'],
    [{ identityKeys: ["x"] }, 'restate({ identityKeys }): expected a list of keys such as publickeyv1_…, found ["x"]'],
    [{ retention: "soon" }, /^restate\(\{ retention \}\): expected false or /],
    [{ retention: { ended: "1d" } }, 'restate({ retention }): unknown option "ended"'],
    [{ timeouts: { readMs: 0 } }, "restate({ timeouts.readMs }): expected milliseconds from 1 to 2147483647, found 0"],
    [{ timeouts: { read: 1 } }, 'restate(): unknown option "timeouts.read"'],
    [{ url: "x" }, 'restate(): unknown option "url"'],
  ])("refuses restate() with %j", (change, message) => {
    expect(() => restate({ ...good, ...change } as never)).toThrow(message);
  });
});
