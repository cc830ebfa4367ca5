import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createToken } from "agentserve";
import { runInScope } from "../../../src/core/scope.ts";
import { createLogs } from "../../../src/observability/logs.ts";
import { toHost } from "../../../src/observability/log-output.ts";
import { cpuMs } from "../../harness/cpu.ts";
import { bySize } from "../../harness/size.ts";
import { startHost } from "../../harness/start-host.ts";

/** Nothing about it says what it is. */
const secret = "h8Kq2zW9vT4xLm7R";

type Data = Record<string, unknown>;
/** The JSON of the record that this becomes. */
function record(message: string, data?: Data): string {
  const { logger, ring } = createLogs({ logRecords: 10, logBytes: 1e6, output: () => {} });
  logger.info(message, data);
  return ring.get(1)!.text;
}
const parsed = (message: string, data?: Data): any => JSON.parse(record(message, data));

function expectHidden(message: string, data?: Data): void {
  const text = record(message, data);
  expect(text).not.toContain(secret);
  expect(() => JSON.parse(text), text).not.toThrow();
}

describe("a field whose name says that nobody may read it", () => {
  const names = [
    "authorization Authorization AUTHORIZATION proxy-authorization cookie Set-Cookie password passWord",
    "passwd userPassword secret clientSecret client_secret jwt-secret apiKey apikey API_KEY x-api-key",
    "X-API-Key OPENAI_API_KEY token accessToken access_token refresh-token idToken X-Auth-Token secretKey",
    "secret_key privateKey private_key secretAccessKey AWS_SECRET_ACCESS_KEY passphrase tokens apiKeys",
    "secrets user.password",
  ].flatMap((line) => line.split(" "));
  it.each(names)("hides the value of a field with the name %s", (name) => {
    expectHidden("Here", { [name]: secret });
    expectHidden("Here", { request: { list: [{ [name]: secret, other: 1 }] } });
    expectHidden("Here", { [name]: [`a ${secret}`, secret] });
    expect(parsed("Here", { [name]: secret, other: "stays" }).data.other).toBe("stays");
  });

  it.each([
    ["a number", 8_273_645_001],
    ["an object", { value: secret }],
    ["a list of objects", [{ value: secret }]],
    ["a list of lists", [["a", secret]]],
    ["a list with a bracket in a text", [`a]${secret}`]],
    ["a text with quotes", `a" ${secret} "b`],
    ["a text with backslashes", `a\\" ${secret} \\`],
    ["a text over lines", `a\n${secret}`],
    ["an empty text before", ["", secret]],
  ])("hides the value of a field password that is %s", (_, password) => {
    expectHidden("Here", { password });
    const { data } = parsed("Here", { before: "a", password, after: "b" });
    expect([data.before, data.after]).toEqual(["a", "b"]);
    expect(JSON.stringify(data.password)).not.toContain("8273645001");
  });

  it.each([
    ["pairs", [["x-api-key", secret]]],
    ["entries of Headers", [...new Headers({ "x-api-key": secret, cookie: `a=${secret}` })]],
    ["rawHeaders", ["Host", "a", "X-Api-Key", secret, "Cookie", `session=${secret}`]],
  ])("hides headers given as %s", (_, headers) => expectHidden("Here", { headers }));

  it("hides a password in a record that is too long to be kept whole", () => {
    expectHidden("Here", { password: secret, long: "x".repeat(20_000) });
    expectHidden("Here", { headers: { authorization: secret }, long: "x".repeat(20_000) });
  });

  it.each([4, 10, 15])("hides a token that is cut after %i letters", (letters) => {
    const head = "x".repeat(16_384 - "Bearer ".length - letters);
    expect(record(`${head}Bearer ${secret}`)).not.toContain(secret.slice(0, letters));
  });
});

describe("a text that holds what nobody may read", () => {
  const json = JSON.stringify({ token: secret, other: 1 });
  it.each([
    ["a header", `Authorization: Bearer ${secret}`],
    ["a header in small letters", `authorization: bearer ${secret}`],
    ["a header in capitals", `AUTHORIZATION: BEARER ${secret}`],
    ["another scheme", `Authorization: Token ${secret}`],
    ["no scheme", `Authorization: ${secret}`],
    ["a scheme with parameters", `Authorization: Digest username="a", response="${secret}"`],
    ["an equals sign", `authorization=Bearer ${secret}`],
    ["a quoted header", `curl -H "Authorization: Bearer ${secret}" https://a.test`],
    ["a quoted header without a scheme", `curl -H "Authorization: ${secret}" https://a.test`],
    ["a key in a header", `curl -H "X-Api-Key: ${secret}" https://a.test`],
    ["a cookie in a header", `Cookie: session=${secret}; a=1`],
    ["Bearer alone", `sent Bearer ${secret}, got 401`],
    ["Bearer with more space", `Bearer \t ${secret}`],
    ["a URL with token", `GET https://a.test/x?token=${secret}`],
    ["a URL with TOKEN", `GET https://a.test/x?a=1&TOKEN=${secret}&b=2`],
    ["a quoted URL", `opening "https://a.test/x?token=${secret}"`],
    ["a URL with access_token", `https://a.test/x?access_token=${secret}`],
    ["a URL with api_key", `https://a.test/x?api_key=${secret}`],
    ["a URL with api-key", `https://a.test/x?api-key=${secret}`],
    ["a URL with apiKey", `https://a.test/x?apiKey=${secret}`],
    ["a URL with key", `https://a.test/x?key=${secret}`],
    ["a URL with refresh_token", `https://a.test/x?refresh_token=${secret}`],
    ["a URL with id_token", `https://a.test/x?id_token=${secret}`],
    ["a URL with client_secret", `https://a.test/x?client_secret=${secret}`],
    ["a URL with password", `https://a.test/x?user=a&password=${secret}`],
    ["a URL with a fragment", `https://a.test/x#access_token=${secret}`],
    ["a URL with a user", `https://ada:${secret}@a.test/x`],
    ["a URL of a database", `postgres://ada:${secret}@a.test:5432/x`],
    ["a form", `grant_type=password&username=ada&password=${secret}`],
    ["JSON", json],
    ["JSON with spaces", JSON.stringify({ password: secret }, undefined, 2)],
    ["JSON with an escaped quote", JSON.stringify({ token: `a"${secret}` })],
    ["JSON in JSON", JSON.stringify({ body: json })],
    ["JSON with a list", JSON.stringify({ "set-cookie": [`a=${secret}`] })],
    ["what inspect() shows", `options: ${inspect({ password: secret, n: 1 })}`],
    ["an assignment", `OPENAI_API_KEY=${secret}`],
  ])("hides a secret in a text with %s", (_, text) => {
    expectHidden(text);
    expectHidden("Here", { text });
    expectHidden("Here", { deep: [{ list: [text] }] });
    expectHidden("Here", { error: text });
    expectHidden("Here", { error: new Error(text) });
    expectHidden("Here", { error: new Error("outer", { cause: new TypeError("inner", { cause: new Error(text) }) }) });
    expectHidden("Here", { failure: new Error("outer", { cause: text }) });
  });

  it.each([
    ["a token of JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ"],
    ["Basic", `Basic ${btoa("ada:open sesame!")}`],
    ["Basic without padding", `Basic ${btoa("ada:opensesam")}`.replace(/=+$/, "")],
    ["Basic of three bytes more", `Basic ${btoa("aladdin:open")}`],
    ["OpenAI", "sk-proj-Ab12Cd34Ef56Gh78Ij90"],
    ["Anthropic", "sk-ant-api03-Ab12Cd34Ef56Gh78Ij90"],
    ["Stripe", "sk_live_Ab12Cd34Ef56Gh78Ij90"],
    ["GitHub", "ghp_Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56"],
    ["GitHub's servers", "ghs_Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56"],
    ["GitHub, fine-grained", "github_pat_11ABCDEFG0Ab12Cd34Ef56_Gh78Ij90"],
    ["Slack", "xoxb-123456789012-Ab12Cd34Ef56Gh78"],
    ["Google", "AIzaSyAb12Cd34Ef56Gh78Ij90Kl12Mn34Op567"],
    ["Groq", "gsk_Ab12Cd34Ef56Gh78Ij90Kl12"],
    ["Hugging Face", "hf_Ab12Cd34Ef56Gh78Ij90Kl12"],
    ["a private key", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"],
  ])("hides a key that is known by its form: %s", (_, key) => {
    const part = JSON.stringify(key.split(/\s/).find((word) => /\d|[A-Z]{3}Ev|==?$|^[A-Za-z]{16}$/.test(word)) ?? key);
    for (const text of [
      record(`with ${key} it failed`),
      record("Here", { value: key }),
      record("Here", { list: [`<${key}>`] }),
      record("Here", { error: new Error(`bad key ${key}`) }),
    ]) {
      expect(text).not.toContain(part.slice(1, -1));
      expect(() => JSON.parse(text)).not.toThrow();
    }
  });

  it("hides a secret that the message names and the data has", () => {
    expectHidden("Authorization:", { value: `Bearer ${secret}` });
    expectHidden("Bearer", { token: secret });
    expectHidden("token", { error: { token: secret } });
    expectHidden("Here", { error: { headers: { authorization: secret }, list: [{ password: secret }] } });
    expectHidden("Here", { error: new Error("outer", { cause: { token: secret } }) });
    expectHidden("Here", { error: new AggregateError([new Error(`Bearer ${secret}`)], "all of them") });
  });

  it("hides a secret from the host's own logger", () => {
    const got: unknown[] = [];
    const take = (...args: unknown[]) => void got.push(args);
    const output = toHost({ info: take, warn: take, error: take });
    const { logger } = createLogs({ logRecords: 10, logBytes: 1e6, output });
    logger.info(`Bearer ${secret}`, { token: secret, n: 1 });
    logger.error(`GET "https://a.test/?token=${secret}"`, { error: new Error(`Authorization: Bearer ${secret}`) });
    expect(got).toHaveLength(2);
    expect(JSON.stringify(got)).not.toContain(secret);
  });
});

describe("what anybody may read", () => {
  it.each([
    "Basic information about the bearer of news",
    "The token bucket is full: 12 tokens left",
    "A password was changed; the secret is out",
    "authorization was refused, authentication required",
    "Ask the secretary at the key desk for a keyboard",
    "The skeleton risk-assessment task asks for skills",
    "pkg install, sketch, skip, skill and ghost",
    "a skill-assessment-for-beginners and a ghostwriter-for-newsletters",
    "https://a.test/x?keyword=abc&tokenizer=bpe&monkey=1",
    "Basic understanding, Bearer bonds",
  ])("leaves ordinary text as it is: %s", (text) => {
    const got = parsed(text, { text, list: [text], error: text });
    expect([got.message, got.data, got.error]).toEqual([text, { text, list: [text] }, text]);
  });

  it("leaves token counts, settings and ordinary fields as they are", () => {
    const data = {
      usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5, reasoningTokens: 0, cachedInputTokens: 0 },
      maxOutputTokens: 100,
      tokenCount: 3,
      tokenizer: "bpe",
      passwordless: "yes",
      secretary: "Ann",
      keyboard: "qwerty",
      key: "a",
      monkey: "see",
      authorizationUrl: "https://a.test/authorize",
      operationId: crypto.randomUUID(),
    };
    expect(parsed("Used", data).data).toEqual(data);
  });

  it.each([
    crypto.randomUUID(),
    "skill-assessment-2026-11-15",
    "ghostwriter-workflow-daily",
    "pkg:install-and-build.everything",
    "sketches_of_the_old_harbour",
    "rk.2026:11:15.run-1",
  ])("leaves the id %s as it is", (id) => {
    const ids = { agentId: id, workflowId: id, executionId: id, stepId: id, userId: id, conversationId: id };
    expect(runInScope(ids, () => parsed("Ran"))).toMatchObject(ids);
  });
});

describe("a record after all that", () => {
  const marks = ['"', "\\", "[", "]", "{", "}", ":", ",", " ", "\n", "日", "\ud800", "a", "=", "'", "."];
  const looks = ["Bearer abcdefgh12", "Authorization: x", "authorization: ", "?token=", "&key=a", "eyJabcd.x."];
  const others = ["Basic YWJjZA==", "sk-aaaaaaaaaaaaaaaaaa", '"token":"', '"password":["', "https://a.test/?api_key=z"];
  const text = fc
    .array(fc.constantFrom(...marks, ...looks, ...others), { maxLength: 8 })
    .map((parts) => parts.join(""));
  const key = fc.oneof(fc.constantFrom("token", "a", "password", "set-cookie", "x-api-key", "authorization"), text);
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      text,
      fc.integer(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 3 }),
    ),
  }));

  it("writes valid JSON whatever is redacted, and leaves the other fields as they are", () => {
    fc.assert(
      fc.property(text, value, text, (message, inner, error) => {
        const data = { before: "kept", inner, after: ["kept"], error };
        const got = runInScope({ userId: "ada" }, () => parsed(message, data));
        expect(got).toMatchObject({
          seq: 1,
          level: "info",
          userId: "ada",
          timestamp: expect.stringMatching(/^\d{4}-/),
        });
        expect(Object.keys(got)).toEqual(["seq", "timestamp", "level", "message", "userId", "data", "error"]);
        expect(got.data).toMatchObject({ before: "kept", after: ["kept"] });
      }),
      { numRuns: bySize(800, 100_000) },
    );
  });

  it("writes data without secrets as it is", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (inner) => {
        expect(parsed("Here", { inner }).data).toEqual(JSON.parse(JSON.stringify({ inner })));
      }),
      { numRuns: bySize(250, 20_000) },
    );
  });

  const self = new Error("of itself");
  self.cause = self;
  const fail = (): never => {
    throw new Error("no");
  };
  const cycle: Data = {};
  cycle["cycle"] = cycle;
  it.each<[string, Data]>([
    ["an error that is its own cause", { error: self }],
    ["such an error inside of data", { failure: self }],
    ["a cycle", cycle],
    ["a cycle as the error", { error: cycle }],
    ["a BigInt", { n: 10n ** 30n }],
    ["toJSON that throws", { inner: { toJSON: () => fail() } }],
    ["a getter that throws", { inner: Object.defineProperty({}, "x", { get: fail, enumerable: true }) }],
    ["a getter of the data itself that throws", Object.defineProperty({}, "x", { get: fail, enumerable: true })],
    ["an error without a stack", { error: Object.assign(new Error("bare"), { stack: undefined }) }],
    ["an error whose stack throws", { error: Object.defineProperty(new Error("bare"), "stack", { get: fail }) }],
    ["functions and symbols", { f: () => 1, s: Symbol("s"), error: Symbol("e") }],
    ["an id that is no text", { userId: 5, agentId: null, executionId: {} }],
  ])("writes a record for %s, and the logger does not throw", (_, data) => {
    expect(parsed("Here", data)).toMatchObject({ seq: 1, message: "Here" });
  });
});

describe("redaction takes time in proportion to the length", () => {
  const words = ["eyJ", "eyJabcd.", "Bearer ", "Basic ", "authorization:", "authorization: ", "sk-", "AIza", "?token="];
  const more = ["token", '"token":', '"token":"', '"token":["', "password", "&key=", "Basic aaaaaa", "Bearer\t", "ghp"];
  const seams = ["", "-", " ", ".", '"', "\\", "=", "/", "a", "\n"];
  it("redacts 16 KB of each pattern in time proportional to the length", () => {
    const most = 60; // milliseconds of work; in proportion to its square it takes hundreds
    const slow: string[] = [];
    for (const word of [...words, ...more]) {
      for (const seam of seams) {
        const bit = word + seam;
        const long = bit.repeat(Math.ceil(16_000 / bit.length));
        for (const data of [{ long }, { [long]: long }, { long: [long] }]) {
          let best = Infinity;
          for (let n = 0; n < 5 && best > most; n++) {
            best = Math.min(
              best,
              cpuMs(() => record(long, data)),
            );
          }
          if (best > most)
            slow.push(`${JSON.stringify(bit)} × ${Math.ceil(16_000 / bit.length)}: ${best.toFixed(0)} ms`);
        }
      }
    }
    expect(slow).toEqual([]);
  });
});

describe("secrets of the environment", () => {
  const env = {
    OPENAI_API_KEY: "plain words as a key 1",
    ANTHROPIC_API_KEY: "Zq81mmPx77aLbb02",
    LONG_API_KEY: "Zq81mmPx77aLbb02-and-more",
    AUTH_JWT_SECRET: "the secret of thirty-two bytes and more",
    DB_PASSWORD: 'pa"ss\\wo$rd^(1)',
    WEBHOOK_SECRETS: "Wh1ook5ecret",
    GITHUB_TOKEN: "tok-of-the-hub-1",
    MULTI_KEY: "line one\nline two",
    SORT_KEY: "timestamp",
    PARTITION_KEY: "executionId",
  };
  const values = Object.entries(env).filter(([name]) => !/^(SORT|PARTITION)/.test(name));

  async function logged(messages: { message: string; data?: object; ids?: object }[]) {
    const { PATH, NODE_COMPILE_CACHE } = process.env;
    const host = await startHost("test/observability/redact/secrets-app.ts", undefined, {
      env: { PATH, NODE_COMPILE_CACHE, ...env },
    });
    const { url } = host;
    const headers = { authorization: `Bearer ${await createToken({ sub: "ada" }, env.AUTH_JWT_SECRET)}` };
    for (const one of messages) {
      const answer = await fetch(`${url}/log`, { method: "POST", headers, body: JSON.stringify(one) });
      expect(await answer.text()).toBe("ok");
    }
    const answer = await fetch(`${url}/api/logs?limit=1000`, { headers });
    const text = await answer.text();
    await expect.poll(() => host.stderr.trim().split("\n").length).toBeGreaterThanOrEqual(messages.length);
    return { text, stderr: host.stderr };
  }

  it("keeps secrets of the environment out of records and of the terminal", async () => {
    const messages = values.flatMap(([, value]) => [
      { message: `with ${value} in it` },
      { message: "Here", data: { value, list: [`<${value}>`] } },
      { message: "Here", data: { error: `failed with ${value}` } },
      { message: "Here", data: { deep: [{ url: `https://a.test/${value}/x` }] } },
    ]);
    const { text, stderr } = await logged(messages);
    const records = JSON.parse(text).data;
    expect(records.length).toBeGreaterThanOrEqual(messages.length);
    const seen = values.filter(([, value]) => {
      const json = JSON.stringify(value).slice(1, -1);
      return (text + stderr).toLowerCase().includes(json.toLowerCase());
    });
    expect(seen.map(([name]) => name)).toEqual([]);
  });

  it("redacts secrets of the environment in the names of fields", async () => {
    const { text } = await logged(values.map(([, value]) => ({ message: "Here", data: { calls: { [value]: 3 } } })));
    const seen = values.filter(([, value]) => text.includes(JSON.stringify(value).slice(1, -1)));
    expect(seen.map(([name]) => name)).toEqual([]);
  });

  it("redacts the whole of a secret that begins like another one", async () => {
    const { text } = await logged([{ message: `with ${env.LONG_API_KEY} in it` }]);
    expect(text).not.toContain("-and-more");
  });

  it("redacts secrets of the environment in JSON inside of a text", async () => {
    const { text } = await logged(values.map(([, value]) => ({ message: JSON.stringify({ value }) })));
    const seen = values.filter(([, value]) => text.includes(JSON.stringify(JSON.stringify(value)).slice(3, -3)));
    expect(seen.map(([name]) => name)).toEqual([]);
  });

  it("keeps the fields of a record whose names are values of the environment", async () => {
    const { text } = await logged([{ message: "Here", ids: { executionId: "e1" } }]);
    const found = JSON.parse(text).data.find((one: { message: string }) => one.message === "Here");
    expect(found).toMatchObject({ timestamp: expect.any(String), executionId: "e1" });
  });
});
