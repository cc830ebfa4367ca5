import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent } from "agentserve";
import { afterAll, expect, it, vi } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { createProvider, type Behaviour } from "./provider.ts";
import { endpoints, givesObject, isStream, refuses, schema, type Endpoint } from "./troubles.ts";

const rate = [429, "Model rate limit reached"] as const;
const credentials = [502, "Model rejected the credentials"] as const;
const tooLong = [400, "The conversation is too long for the model"] as const;
const failed = [502, "Model call failed"] as const;
type Expected = typeof rate | typeof credentials | typeof tooLong | typeof failed;

const begins: Behaviour = (exchange) => {
  exchange.open();
  exchange.delta({ role: "assistant", content: '{"city":"Bern"' });
};
/** Sends an error in the middle of a stream, or as a whole answer with 200. */
const within = (body: object): Behaviour => {
  return async (exchange) => {
    if (!exchange.streamed) return exchange.json(body);
    await begins(exchange);
    exchange.event(body);
    exchange.response.end("data: [DONE]\n\n");
  };
};
const text = (message: string, more: object = {}) => ({ error: { message, ...more } });

const invalid = { type: "invalid_request_error" };
const anthropic = (message: string, type = invalid.type) => ({ type: "error", ...text(message, { type }) });
const google = { code: 400, status: "INVALID_ARGUMENT" };

/** The errors of providers, as these send them. */
const rows: [title: string, status: number, body: unknown, expected: Expected][] = [
  ["a long prompt at OpenAI", 400, text("…", { ...invalid, code: "context_length_exceeded" }), tooLong],
  ["a long text at OpenAI", 400, text("…", { ...invalid, code: "string_above_max_length" }), tooLong],
  [
    "a long prompt at OpenAI, without a code",
    400,
    text("Your input exceeds the context window of this model."),
    tooLong,
  ],
  ["a wrong key at OpenAI", 401, text("…", { code: "invalid_api_key" }), credentials],
  ["no quota at OpenAI", 429, text("…", { code: "insufficient_quota" }), rate],
  ["too many tokens at OpenAI", 429, text("Request too large for gpt-5", { type: "tokens" }), rate],
  ["another mistake at OpenAI", 400, text("Unknown parameter", invalid), failed],
  ["an unknown model at OpenAI", 404, text("…", { code: "model_not_found" }), failed],
  ["an unknown deployment at Azure", 404, text("…", { code: "DeploymentNotFound" }), failed],
  ["a long prompt at Anthropic", 400, anthropic("prompt is too long: 210000 tokens > 200000 maximum"), tooLong],
  [
    "no room at Anthropic",
    400,
    text("input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000"),
    tooLong,
  ],
  ["a large request at Anthropic", 413, anthropic("…", "request_too_large"), tooLong],
  ["no permission at Anthropic", 403, anthropic("…", "permission_error"), credentials],
  ["an overload at Anthropic", 529, anthropic("Overloaded", "overloaded_error"), failed],
  [
    "a long prompt at Google",
    400,
    text("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", google),
    tooLong,
  ],
  ["a wrong key at Google", 400, text("API key not valid. Please pass a valid API key.", google), credentials],
  ["another mistake at Google", 400, text("…", google), failed],
  ["no quota at Google", 429, text("…", { code: 429, status: "RESOURCE_EXHAUSTED" }), rate],
  [
    "a long prompt at Mistral",
    400,
    { object: "error", message: "Prompt contains 40000 tokens, too large for model with 32768 maximum context length" },
    tooLong,
  ],
  ["a long prompt at Bedrock", 400, { message: "Input is too long for requested model." }, tooLong],
  ["a throttled request at Bedrock", 400, { message: "Slow down", type: "ThrottlingException" }, rate],
  [
    "a long prompt at xAI",
    400,
    { code: "…", error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens." },
    tooLong,
  ],
  ["a wrong key at xAI", 400, { code: "…", error: "Incorrect API key provided: xa***bc." }, credentials],
  ["a long prompt at Groq", 400, text("Please reduce the length of the messages or completion."), tooLong],
  ["a long prompt at Cohere", 400, { message: "too many tokens: total number of tokens cannot exceed 4081" }, tooLong],
  ["a long prompt at llama.cpp", 400, text("…", { code: 400, type: "exceed_context_size_error" }), tooLong],
  ["a large body at a proxy", 413, "", tooLong],
  ["a failure that only mentions the length", 500, text("prompt is too long"), failed],
];
/** The errors that come in the middle of a stream, or with 200. */
const inner: [title: string, body: object, expected: Expected][] = [
  ["a rate limit at OpenAI", text("…", { type: "tokens", code: "rate_limit_exceeded" }), rate],
  ["a long prompt at OpenAI", text("…", { code: "context_length_exceeded" }), tooLong],
  ["a rate limit at Anthropic", text("…", { type: "rate_limit_error" }), rate],
  ["a wrong key at Anthropic", text("…", { type: "authentication_error" }), credentials],
  ["an overload at Anthropic", text("Overloaded", { type: "overloaded_error" }), failed],
  ["a long prompt at Bedrock", text("Input is too long for requested model."), tooLong],
  ["a rate limit at OpenRouter", text("…", { code: 429 }), rate],
  ["a wrong key at OpenRouter", text("…", { code: 401 }), credentials],
  ["a failure at OpenRouter", text("…", { code: 502 }), failed],
];

const limited = (headers: Record<string, string>): Behaviour => refuses(429, JSON.stringify(text("…")), headers);
const key = "KEY-OF-THE-TEST";
const leaks = `Wrong key: ${key}; see https://me:pass@a.example/v1?key=q-secret#top. API key: k-secret, Bearer b-secret, sk-a1b2xyzw`;
const leaking = refuses(400, JSON.stringify(text(leaks)), { "x-secret": "header-secret" });
const behaviours: Record<string, Behaviour> = {
  ...Object.fromEntries(
    rows.map(([, status, body], index) => [
      `row-${index}`,
      refuses(status, typeof body === "string" ? body : JSON.stringify(body)),
    ]),
  ),
  ...Object.fromEntries(inner.map(([, body], index) => [`inner-${index}`, within(body)])),
  seconds: limited({ "retry-after": "7" }),
  fraction: limited({ "retry-after-ms": "1500", "retry-after": "9" }),
  date: (exchange) => limited({ "retry-after": new Date(Date.now() + 600_000).toUTCString() })(exchange),
  past: limited({ "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }),
  zero: limited({ "retry-after": "0" }),
  huge: limited({ "retry-after": "99999999" }),
  nonsense: limited({ "retry-after": "soon\t" }),
  leaking,
};
const provider = await createProvider(behaviours);
afterAll(() => provider.close());
const models = createOpenAICompatible({ name: "provider", apiKey: key, baseURL: provider.baseURL });
const agents = Object.keys(behaviours).map((id) =>
  defineAgent({ id, instructions: "Answer", model: models(id), maxRetries: 0 }),
);

const bodyOf = (endpoint: Endpoint): object => {
  if (endpoint === "chat") return { input: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }] };
  return { input: "Hi", ...(givesObject(endpoint) && { schema }) };
};

describeServer("the kinds of a provider's errors", { config: { agents }, only: ["dev"] }, (server) => {
  const ask = (endpoint: Endpoint, agent: string) => server.post(`/agents/${agent}/${endpoint}`, bodyOf(endpoint));

  it.for(rows.map(([title, , , expected], index) => ({ title, expected, id: `row-${index}` })))(
    "answers $expected.0 for $title",
    async ({ id, expected: [status, error] }) => {
      for (const endpoint of endpoints) {
        const answer = await ask(endpoint, id);
        expect([endpoint, answer.status, answer.body.error]).toEqual([endpoint, status, error]);
        expect("detail" in answer.body, "a detail").toBe(true);
      }
    },
  );

  it.for(inner.map(([title, , expected], index) => ({ title, expected, id: `inner-${index}` })))(
    "reports $expected.1 for $title, within the stream or with 200",
    async ({ id, expected: [status, error] }) => {
      for (const endpoint of endpoints) {
        const { status: got, body, events } = await ask(endpoint, id);
        const last = events.at(-1);
        const said = isStream(endpoint) ? [got, last?.type, last?.error ?? last?.errorText] : [got, body.error];
        expect([endpoint, ...said]).toEqual([endpoint, ...(isStream(endpoint) ? [200, "error"] : [status]), error]);
      }
    },
  );

  it.for([
    ["seconds", "7"],
    ["fraction", "2"],
    ["zero", "1"],
    ["huge", "3600"],
    ["past", null],
    ["nonsense", null],
    ["row-4", null],
  ] as const)("answers a rate limit whose Retry-After is %s with Retry-After: %s", async ([id, seconds]) => {
    for (const endpoint of endpoints) {
      const { status, headers } = await ask(endpoint, id);
      expect([endpoint, status, headers.get("retry-after")]).toEqual([endpoint, 429, seconds]);
    }
  });

  it("answers a Retry-After of the provider that is a date with seconds", async () => {
    const { headers } = await ask("text", "date");
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    expect(Number(headers.get("retry-after"))).toBeLessThanOrEqual(600);
  });

  it("sends the provider's own message in dev only, and neither it nor the log has headers, keys or a query", async () => {
    vi.stubEnv("A_PROVIDER_API_KEY", key);
    try {
      const safe = "Wrong key: [hidden]; see https://a.example/v1 API key: [hidden], Bearer [hidden], [hidden]";
      for (const endpoint of endpoints) {
        const { status, body, text: all, headers } = await ask(endpoint, "leaking");
        expect([status, body]).toEqual([502, { success: false, error: "Model call failed", detail: safe }]);
        for (const found of [all, [...headers].join(), JSON.stringify(server.logs)])
          expect(found).not.toMatch(/-secret|me:pass|OF-THE-TEST|xyzw/);
      }
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("sends the provider's message in the last event of a stream in dev", async () => {
    for (const endpoint of ["stream", "stream-object"] as const) {
      const { events } = await ask(endpoint, "inner-4");
      const detail = { detail: "Overloaded" };
      expect(events.at(-1)).toEqual({ type: "error", error: "Model call failed", ...detail });
    }
  });

  it("logs every kind of provider error with the provider's message", async () => {
    server.logs.length = 0;
    for (const id of ["row-2", "row-5", "row-15"]) await ask("text", id);
    const errors = server.logs.filter(({ level }) => level === "error");
    expect(errors.map(({ message }) => message)).toEqual([tooLong[1], rate[1], credentials[1]]);
    expect(errors.map(({ data }) => String(data?.["error"]))).toEqual([
      expect.stringContaining("exceeds the context window"),
      expect.stringContaining("Request too large"),
      expect.stringContaining("API key not valid"),
    ]);
  });
});
