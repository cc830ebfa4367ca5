import fc from "fast-check";

const png = "iVBORw0KGgo=";
const metadata = { openai: { a: 1 } };
const file = { type: "file", mediaType: "image/png", filename: "a.png", url: `data:image/png;base64,${png}` };
const approval = { id: "p", approved: true, reason: "fine" };
const called = { toolCallId: "c", input: { city: "Berlin" } };

/** Parts of UI messages, each of them valid. */
const uiParts: readonly object[] = [
  { type: "text", text: "hi", state: "done", providerMetadata: metadata },
  { type: "reasoning", text: "hm", id: "r" },
  { type: "custom", kind: "a.b" },
  { type: "source-url", sourceId: "s", url: "https://example.com/", title: "t" },
  { type: "source-document", sourceId: "s", mediaType: "text/plain", title: "t" },
  file,
  { ...file, url: "https://example.com/a.png" },
  { type: "reasoning-file", mediaType: "image/png", url: `data:image/png;base64,${png}` },
  { type: "steering-message", id: "m", parts: [{ type: "text", text: "hi" }, file] },
  { type: "step-start" },
  { type: "data-x", id: "d", data: { a: [1] } },
  { type: "tool-weather", ...called, state: "input-streaming", rawInput: "{" },
  { type: "tool-weather", ...called, state: "input-available" },
  { type: "tool-weather", ...called, state: "approval-requested", approval: { id: "p" } },
  { type: "tool-weather", ...called, state: "approval-responded", approval },
  { type: "tool-weather", ...called, state: "approval-responded", approval: { ...approval, approved: false } },
  { type: "tool-weather", ...called, state: "output-available", output: { type: "content", value: [file] } },
  { type: "tool-weather", ...called, state: "output-available", output: 1, providerExecuted: true },
  { type: "tool-weather", ...called, state: "output-error", errorText: "no", rawInput: "x" },
  { type: "tool-weather", ...called, state: "output-denied", approval: { ...approval, approved: false } },
  { type: "dynamic-tool", toolName: "weather", ...called, state: "output-available", output: "sunny" },
];

const result = (output: object) => ({ type: "tool-result", toolCallId: "c", toolName: "weather", output });
const contents: readonly object[] = [
  { type: "text", text: "hi" },
  { type: "file", mediaType: "image/png", data: { type: "data", data: png } },
  { type: "file", mediaType: "text/plain", data: { type: "text", text: "hi" } },
  { type: "file", mediaType: "image/png", data: { type: "url", url: "https://example.com/a.png" } },
  { type: "file", mediaType: "image/png", data: { type: "reference", reference: { openai: "f" } } },
  { type: "file-data", mediaType: "image/png", data: png },
  { type: "file-url", mediaType: "image/png", url: "https://example.com/a.png" },
  { type: "file-id", fileId: "f" },
  { type: "file-reference", providerReference: { openai: "f" } },
  { type: "image-data", mediaType: "image/png", data: png },
  { type: "image-url", url: "https://example.com/a.png" },
  { type: "image-file-id", fileId: { openai: "f" } },
  { type: "image-file-reference", providerReference: { openai: "f" } },
  { type: "custom", providerOptions: metadata },
];
const results = [
  result({ type: "text", value: "sunny" }),
  result({ type: "json", value: { a: [null] } }),
  result({ type: "execution-denied", reason: "no" }),
  result({ type: "error-text", value: "no" }),
  result({ type: "error-json", value: [1] }),
  ...contents.map((content) => result({ type: "content", value: [content] })),
];

/** Parts of model messages by role, each of them valid. */
const modelParts: Readonly<Record<string, readonly object[]>> = {
  user: [
    { type: "text", text: "hi", providerOptions: metadata },
    { type: "image", image: png },
    { type: "image", image: `data:image/png;base64,${png}`, mediaType: "image/png" },
    { type: "file", mediaType: "image/png", data: png },
    { type: "file", mediaType: "image/png", data: "https://example.com/a.png" },
    { type: "file", mediaType: "image/png", data: { type: "data", data: png } },
    { type: "file", mediaType: "image/png", data: { type: "url", url: `data:image/png;base64,${png}` } },
    { type: "file", mediaType: "text/plain", data: { type: "text", text: "hi" } },
    { type: "file", mediaType: "image/png", data: { openai: "f" } },
  ],
  assistant: [
    { type: "text", text: "hi" },
    { type: "custom", kind: "a.b" },
    { type: "reasoning", text: "hm" },
    { type: "reasoning-file", mediaType: "image/png", data: png },
    { type: "reasoning-file", mediaType: "image/png", data: { type: "data", data: png } },
    { type: "file", mediaType: "image/png", data: png },
    { type: "tool-call", toolCallId: "c", toolName: "weather", input: { city: "Berlin" } },
    { type: "tool-call", toolCallId: "c", toolName: "weather", input: "{", providerExecuted: true },
    { type: "tool-approval-request", approvalId: "p", toolCallId: "c" },
    ...results,
  ],
  tool: [...results, { type: "tool-approval-response", approvalId: "p", approved: true }],
};

const parts = (from: readonly object[]) => fc.array(fc.constantFrom(...from), { minLength: 1, maxLength: 3 });
const uiMessage = fc.record({ role: fc.constantFrom("user", "assistant"), parts: parts(uiParts) });
const modelMessage = fc
  .constantFrom("user", "assistant", "tool")
  .chain((role) => fc.record({ role: fc.constant(role), content: parts(modelParts[role]!) }));
const whole = fc.array(fc.oneof(uiMessage, modelMessage), { minLength: 1, maxLength: 4 });

const urls =
  "http:// http://[ //x /a.png file:///etc/passwd about:blank javascript:1 blob:null/x data: data:, data:x data:image/png " +
  "data:;base64,AAAA data:a/b/c;base64,AAAA data:image/png;base64,%%% data:image/png;base64,A data:image/png,€";
const words = "__proto__ % €€€€ A A=== user tool text file url data reference content json output-available";
const others: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1e308,
  [],
  {},
  [[]],
  { type: "text" },
  { type: "url", url: "x" },
];
const texts = [
  "",
  " ",
  "not a url",
  "https://exa mple",
  "data:\u0000/x;base64,AAAA",
  "\u{d800}",
  "\u0000",
  "x".repeat(300),
];
/** Values that stand for a part of a message, but are not what belongs there. */
const wrong = fc.oneof(
  fc.constantFrom(...others, ...texts, ...`${urls} ${words}`.split(" ")),
  fc.string({ maxLength: 12, unit: "binary" }),
  fc.jsonValue({ maxDepth: 2 }),
);

/** Messages of all kinds in which up to three values are missing or wrong. */
export const brokenMessages: fc.Arbitrary<unknown[]> = fc
  .tuple(whole, fc.array(fc.tuple(fc.nat(), fc.option(wrong, { nil: undefined })), { maxLength: 3 }))
  .map(([messages, changes]) => {
    const copy = structuredClone(messages) as unknown[];
    for (const [number, value] of changes) {
      const places = toPlaces(copy);
      const [owner, key] = places[number % places.length]!;
      if (value === undefined && !Array.isArray(owner)) delete owner[key];
      else owner[key] = structuredClone(value); // a later change must not reach the constant, nor make a cycle
    }
    return copy;
  });

type Owner = Record<string, unknown>;
/** Lists every value inside of this one as its owner and its key. */
function toPlaces(value: unknown): [Owner, string][] {
  if (typeof value !== "object" || value === null) return [];
  const owner = value as Owner;
  return Object.keys(owner).flatMap((key): [Owner, string][] => [[owner, key], ...toPlaces(owner[key])]);
}
